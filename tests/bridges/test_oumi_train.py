"""`oumi train` of a tiny Llama with Oumi's own trainer, by its command line (`python -m titantrace.oumi` in the place
of `oumi`): what is recorded is what Oumi's tracker and metrics tell.

    test_oumi_train.py --library LIB --real
"""
import collections
import json

import bridge_case
import tiny_tokenizer

STEPS, ACCUMULATED, BATCH = 4, 2, 2
CONFIG = {
    "model": {"model_name": "model", "model_max_length": 64, "torch_dtype_str": "float32",
              "load_pretrained_weights": False},
    "data": {"train": {"collator_name": "text_completions_only_with_padding",
                       "collator_kwargs": {"instruction_template": "user", "response_template": "assistant"},
                       "datasets": [{"dataset_name": "text_sft_jsonl", "dataset_path": "texts.jsonl"}]}},
    "training": {"trainer_type": "OUMI", "output_dir": "output", "run_name": "tiny", "max_steps": STEPS,
                 "per_device_train_batch_size": BATCH, "gradient_accumulation_steps": ACCUMULATED,
                 "learning_rate": 0.01, "logging_steps": 1, "save_steps": 2, "enable_wandb": False,
                 "enable_tensorboard": True, "include_performance_metrics": True, "dataloader_num_workers": 0},
}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32, "hidden_size": 16,
         "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}
TEMPLATE = "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}"
OF_BATCH = ("fetching batch", "computing tokens", "moving batch to device", "model forward", "loss backward")


def write_inputs(place):
    place.mkdir()
    tiny_tokenizer.write(place / "model", ("user", "assistant"), tokenizer_class="PreTrainedTokenizerFast",
                         pad_token="</s>", model_max_length=64, chat_template=TEMPLATE)
    (place / "model" / "config.json").write_text(json.dumps(LLAMA))
    said = [{"role": "user", "content": " ".join(tiny_tokenizer.WORDS[:6])},
            {"role": "assistant", "content": " ".join(tiny_tokenizer.WORDS[6:])}]
    lines = json.dumps({"messages": said}) + "\n"
    (place / "texts.jsonl").write_text(lines * (STEPS * ACCUMULATED * BATCH))
    (place / "config.yaml").write_text(json.dumps(CONFIG))  # YAML has JSON in it


class OumiTrain(bridge_case.Case):
    def train(self, name, module, preload):
        """What Oumi itself has measured, and the losses."""
        write_inputs(self.place / name)
        self.run_theirs(name, ["-m", module, "train", "-c", "config.yaml"], preload, RANK="0", WORLD_SIZE="1",
                        LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="0")
        output = self.place / name / "output"
        tracker, callback = (json.loads((output / "telemetry" / f"{which}_rank0000.json").read_text(encoding="utf-8"))
                             for which in ("telemetry", "telemetry_callback"))
        counts = {name: timer["count"] for name, timer in callback["timers"].items()}
        lines = (output / "metrics_rank0000.jsonl").read_text(encoding="utf-8").splitlines()
        return tracker["measurements"], counts, [json.loads(line) for line in lines]

    def test_train(self):
        measured, counts, logged = self.train("bridged", "titantrace.oumi", True)
        plain_measured, plain_counts, plain_logged = self.train("without", "oumi", False)
        self.assertEqual(counts, plain_counts)
        self.assertEqual({name: len(times) for name, times in measured.items()},
                         {name: len(times) for name, times in plain_measured.items()})
        self.assertEqual([line["train/loss"] for line in logged], [line["train/loss"] for line in plain_logged])
        markers, = self.markers_by_rank("bridged").values()
        self.check_spans(markers, {**counts, **{name: len(times) for name, times in measured.items()}})
        self.check_times(markers, measured)
        self.check_metrics(markers, logged)

    def check_spans(self, markers, counts):
        counted = collections.Counter(marker["name"] for marker in bridge_case.begun(markers).values())
        self.assertEqual({name: counted[name] for name in counts}, counts)
        self.assertEqual((counted["training_loop"], counted["epoch"]), (1, 1))
        self.assertGreaterEqual(counted["checkpoint_save_sync"], STEPS // 2)
        self.assertEqual({span: marker["name"] for span, marker in bridge_case.begun(markers).items()},
                         {span: marker["name"] for span, marker in bridge_case.ended(markers).items()})
        self.assertEqual([marker for marker in markers if marker["marker"] == "error"], [])
        places = set(bridge_case.paths(markers))  # TelemetryCallback leaves the first step out (skip_first_steps)
        self.assertLessEqual({f"{place}/{name}" for name in OF_BATCH
                              for place in ("training_loop/epoch", "training_loop/epoch/steps/microsteps")}, places)

    def check_times(self, markers, measured):
        """Each as Oumi's tracker measured it, in its unit of time."""
        begun, ours = bridge_case.begun(markers), collections.defaultdict(list)
        for span, marker in bridge_case.ended(markers).items():
            ours[marker["name"]].append(marker["ticks"] - begun[span]["ticks"])
        second = sum(sum(ours[name]) for name in measured) / sum(map(sum, measured.values()))
        for name, times in measured.items():
            for span, told in zip(ours[name], times):
                self.assertAlmostEqual(span / second, told, delta=0.05 + 0.05 * told, msg=name)

    def check_metrics(self, markers, logged):
        metrics = collections.defaultdict(list)
        for marker in markers:
            if marker["marker"] == "metric":
                metrics[marker["name"]].append((marker["step"], marker["value"]))
        for name in ("train/loss", "learning_rate", "tokens_per_second", "total_tokens_seen"):
            self.assertEqual(metrics[name], [(line["global_step"], line[name]) for line in logged])
        self.assertEqual(len(logged), STEPS)
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(number, number) for number in range(1, STEPS + 1)])
        self.assertIn(("run_name", "tiny"), [(marker["name"], marker["text"]) for marker in markers
                                             if marker["marker"] == "label"])


if __name__ == "__main__":
    bridge_case.skip_without("oumi", "posthog", "trl", "datasets", "tensorboard")
    bridge_case.main()
