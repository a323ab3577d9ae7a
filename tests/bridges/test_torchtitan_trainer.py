"""torchtitan's own training program, unmodified, on two ranks of real torchrun, on the CPU (torchtitan_on_cpu.py): what
the bridge records of it is what torchtitan's own log tells.

    test_torchtitan_trainer.py --library LIB --real
"""
import collections
import json
import os
import re
import statistics

import bridge_case
import tiny_tokenizer

PROGRAM = bridge_case.ROOT / "tests" / "bridges" / "torchtitan_on_cpu.py"
OWN_LOG = "torchtitan.observability.structured_logger.jsonl_handler.register_jsonl_handler"
RANKS, STEPS, EVALUATED, SAVED = 2, 4, (1, 2, 4), (2, 4)
ARGUMENTS = [
    "--module", "torchtitan_on_cpu", "--config", "tiny", "--hf-assets-path", "tokenizer",
    "--dataloader.dataset-path", "texts", "--debug.seed", "7", "--training.steps", str(STEPS),
    "--training.local-batch-size", "2", "--training.seq-len", "64", "--training.disable-cuda-graphs",
    "--parallelism.spmd-backend", "partial_dtensor", "--checkpoint.enable", "--checkpoint.interval", "2",
    "--validator.enable", "--validator.freq", "2", "--validator.steps", "2", "--metrics.enable-tensorboard",
    "--validator.dataloader.dataset", "c4_test", "--validator.dataloader.dataset-path", "texts"]
STEPPED = r" - step:\s+(\d+)\s+loss:\s+([\d.]+)"


class Run:
    """What one run of the program left, by rank."""

    def __init__(self, case, name, preload, *handlers):
        self.place = case.place / name
        self.place.mkdir()
        tiny_tokenizer.write(self.place / "tokenizer")
        (self.place / "texts").mkdir()
        text = {"text": " ".join(tiny_tokenizer.WORDS)}
        (self.place / "texts" / "train.jsonl").write_text(f"{json.dumps(text)}\n" * 64)
        variables = {"TITAN_STRUCT_LOGGER_HANDLERS": ",".join(handlers)} if handlers else {}
        self.console = case.run_theirs(name, [
            "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), str(PROGRAM), *ARGUMENTS],
                                       preload, **variables)
        self.losses = re.findall(STEPPED, re.sub(r"\x1b\[[\d;]*m", "", self.console))
        self.logs = {int(re.search(r"global_rank_(\d+)", log.name)[1]):
                     [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
                     for log in (self.place / "outputs").glob("structured_logs/*.jsonl")}
        self.markers = case.markers_by_rank(name)


def spans_of(markers):
    """Name and where it begins of each, in the order of their begins."""
    return [(marker["name"], marker["called_at"]) for marker in bridge_case.begun(markers).values()]


def told_spans(log):
    """The same, as torchtitan's own log has them."""
    return [(record["log_type_name"][:-len("_start")], caller_of(record))
            for record in log if record["log_type"] == "event" and record["log_type_name"].endswith("_start")]


def caller_of(record):
    path, line, function = record["caller"].rsplit(":", 2)
    return f"{os.path.basename(path)}:{line} {function}"


def named(markers, kind):
    return [marker for marker in markers if marker["marker"] == kind]


def logged(markers, name):
    return [(marker["step"], marker["value"]) for marker in named(markers, "metric") if marker["name"] == name]


class TorchtitanTrainer(bridge_case.Case):
    def both_ranks(self, run):
        self.assertEqual(sorted(run.markers), list(range(RANKS)), run.console[-4000:])
        return run.markers.items()

    def test_its_trainer(self):
        """Three runs: with torchtitan's own log alone, with ours beside it, and with ours in its place."""
        without = Run(self, "without", False)
        beside = Run(self, "beside", True, OWN_LOG, "titantrace.torchtitan.handler")
        instead = Run(self, "instead", True, "titantrace.torchtitan.replace")
        self.assertEqual(len(without.losses), RANKS * STEPS)
        self.assertEqual(sorted(beside.losses), sorted(without.losses))
        self.assertEqual(sorted(instead.losses), sorted(without.losses))
        self.assertEqual((without.markers, instead.logs), ({}, {}))
        for rank, markers in self.both_ranks(beside):
            log = beside.logs[rank]
            self.check_spans(markers, log)
            self.check_times(markers, log)
            self.check_moments(markers, log)
        for run in beside, instead:
            for _, markers in self.both_ranks(run):
                self.check_steps(markers)
                self.check_tree(markers)
                self.check_metrics(markers, run.losses)
        for rank, markers in self.both_ranks(instead):
            # There the function is known with its class.
            self.assertEqual([(name, re.sub(r" .*\.", " ", place)) for name, place in spans_of(markers)],
                             spans_of(beside.markers[rank]))
            self.assertEqual(self.tags_of(markers), self.tags_of(beside.markers[rank]))

    def check_spans(self, markers, log):
        self.assertEqual(spans_of(markers), told_spans(log))
        self.assertEqual(named(markers, "error"), [])
        ended = bridge_case.ended(markers)
        self.assertEqual({span: marker["name"] for span, marker in bridge_case.begun(markers).items()},
                         {span: marker["name"] for span, marker in ended.items()})

    def check_times(self, markers, log):
        """The first and the last record tell how the two clocks run. Each of ours is read just after the log's."""
        spans = [marker for marker in markers if marker["marker"] in ("span_begin", "span_end")]
        records = [record for record in log if record["log_type"] == "event"]
        self.assertEqual(len(spans), len(records))
        (first, last), (begin, end) = ((of[0], of[-1]) for of in (spans, records))
        rate = (end["time_us"] - begin["time_us"]) / (last["ticks"] - first["ticks"])
        apart = [abs((marker["ticks"] - first["ticks"]) * rate - (record["time_us"] - begin["time_us"]))
                 for marker, record in zip(spans, records)]
        self.assertLess(statistics.median(apart), 5_000)
        self.assertLess(statistics.quantiles(apart, n=20)[-1], 100_000)  # a processor that is shared goes on elsewhere
        durations = collections.defaultdict(list)
        begun = bridge_case.begun(markers)
        for span, marker in bridge_case.ended(markers).items():
            durations[marker["name"]].append((marker["ticks"] - begun[span]["ticks"]) * rate / 1000)
        for name in ("step", "fwd_bwd", "checkpoint_save", "eval", "model_parallelism_init"):
            told = [record["value"] for record in records if record["log_type_name"] == f"{name}_end"]
            self.assertEqual(len(durations[name]), len(told))
            for ours, theirs in zip(durations[name], told):
                self.assertAlmostEqual(ours, theirs, delta=100 + 0.05 * theirs, msg=name)

    def check_moments(self, markers, log):
        moments = [record for record in log if record["log_type"] == "instant"]
        self.assertEqual([(marker["name"], marker["called_at"]) for marker in named(markers, "event")],
                         [(record["log_type_name"], caller_of(record)) for record in moments
                          if record["log_type_name"] != "metric_value"])
        scalars = [record for record in moments if record["log_type_name"] == "metric_value"]
        names = {record["event_name"] for record in scalars}
        self.assertEqual(names, {"local_valid_tokens", "global_valid_tokens"})
        self.assertEqual([(marker["name"], marker["value"], marker["step"]) for marker in named(markers, "metric")
                          if marker["name"] in names],
                         [(record["event_name"], record["value"], record["step"]) for record in scalars])
        self.assertEqual(self.tags_of(markers), {(record["step"], tag) for record in log
                                                 for tag in record.get("step_tags", ())})

    @staticmethod
    def tags_of(markers):
        return {(marker["step"], marker["name"]) for marker in named(markers, "step_tag")}

    def check_steps(self, markers):
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in named(markers, "step")],
                         [(number, number) for number in range(1, STEPS + 1)])
        self.assertEqual([(marker["name"], marker["text"]) for marker in named(markers, "label")
                          if marker["name"] == "role"], [("role", "training")])

    def check_tree(self, markers):
        counted = collections.Counter(bridge_case.paths(markers))
        once = "Trainer.Config.build", "checkpoint_load", "torch_distributed_teardown"
        inside = "gc_collect", "fetching_batch", "fwd_bwd", "fwd_bwd/post_dataloading_process", "optim", \
            "collect_dist_metrics", "checkpoint_save"
        self.assertLessEqual({**{name: 1 for name in once}, "step": STEPS, "step/eval": len(EVALUATED),
                              "Trainer.Config.build/torch_distributed_init": 1,
                              "Trainer.Config.build/model_parallelism_init": 1,
                              "Trainer.Config.build/Llama3Model.Config.build": 1,
                              "Trainer.Config.build/OptimizersContainer.Config.build": 1,
                              **{f"step/{name}": STEPS for name in inside}}.items(), counted.items())
        self.assertLessEqual({(number, "checkpoint_save") for number in SAVED}, self.tags_of(markers))

    def check_metrics(self, markers, losses):
        """Also on rank 1, which writes no board."""
        losses = dict((int(number), loss) for number, loss in losses)
        self.assertEqual({number: f"{loss:.5f}" for number, loss in logged(markers, "loss_metrics/global_avg_loss")},
                         losses)
        for name in ("throughput(tps)", "tflops", "mfu(%)", "grad_norm", "memory/max_active(GiB)",
                     "memory/max_reserved(%)", "time_metrics/data_loading(s)"):
            self.assertEqual([number for number, _ in logged(markers, name)], list(range(1, STEPS + 1)), name)
            self.assertGreater(min(value for _, value in logged(markers, name)), 0, name)
        for name in ("memory/num_alloc_retries", "memory/num_ooms"):
            self.assertEqual(logged(markers, name), [(number, 0) for number in range(1, STEPS + 1)])
        self.assertEqual([number for number, _ in logged(markers, "validation_metrics/loss")], list(EVALUATED))


if __name__ == "__main__":
    bridge_case.skip_without("torchtitan", "tyro", "spmd_types", "torchdata", "torch_checkpointing", "einops",
                             "datasets", "tensorboard")
    bridge_case.main()
