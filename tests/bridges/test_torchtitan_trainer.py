"""torchtitan's own training program, unmodified, on two ranks of real torchrun, on the CPU (torchtitan_on_cpu.py): what
the bridge records of it is what torchtitan's own log tells.

    test_torchtitan_trainer.py --library LIB --real
"""
import collections
import json
import os
import re
import statistics
import subprocess
import sys

import bridge_case

HERE = bridge_case.ROOT / "tests" / "bridges"
OWN_LOG = "torchtitan.observability.structured_logger.jsonl_handler.register_jsonl_handler"
RANKS, STEPS, EVALUATED, SAVED = 2, 4, (1, 2, 4), (2, 4)
NEEDED = ("torchtitan", "tyro", "spmd_types", "torchdata", "torch_checkpointing", "einops", "datasets", "tensorboard")
WORDS = "the ranks of a job wait for one that does not come".split()
STEPPED = r" - step:\s+(\d+)\s+loss:\s+([\d.]+)"


def missing():
    program = f"""
import importlib.util
print(" ".join(name for name in {NEEDED!r} if importlib.util.find_spec(name) is None))
"""
    try:
        done = subprocess.run([bridge_case.real_python(), "-c", program], capture_output=True, text=True, check=True)
        return done.stdout.strip()
    except OSError:
        return "the Python of scripts/setup --bridges"


def write_tokenizer(directory):
    """One number for each word."""
    directory.mkdir()
    special = ["<unk>", "<s>", "</s>"]
    (directory / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "unk_token": special[0],
                  "vocab": {word: number for number, word in enumerate(special + WORDS)}}}))
    (directory / "tokenizer_config.json").write_text(json.dumps(
        dict(zip(("unk_token", "bos_token", "eos_token"), special))))


def write_texts(directory):
    directory.mkdir()
    (directory / "train.jsonl").write_text((json.dumps({"text": " ".join(WORDS)}) + "\n") * 64)


class Run:
    """What one run of the program left, by rank."""

    def __init__(self, case, name, preload, handlers):
        self.place = case.place / name
        self.place.mkdir()
        write_tokenizer(self.place / "tokenizer")
        write_texts(self.place / "texts")
        self.console = self._train(case, preload, handlers)
        self.losses = re.findall(STEPPED, re.sub(r"\x1b\[[\d;]*m", "", self.console))
        self.logs = {int(re.search(r"global_rank_(\d+)", log.name)[1]):
                     [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
                     for log in (self.place / "outputs").glob("structured_logs/*.jsonl")}
        self.markers = {int(dump.name[4:9]): case.markers_in(dump)
                        for dump in (self.place / "dumps").rglob("rank*.titan")}

    def _train(self, case, preload, handlers):
        program = [
            "--module", "torchtitan_on_cpu", "--config", "tiny", "--hf-assets-path", "tokenizer",
            "--dataloader.dataset-path", "texts", "--debug.seed", "7", "--training.steps", str(STEPS),
            "--training.local-batch-size", "2", "--training.seq-len", "64", "--training.disable-cuda-graphs",
            "--parallelism.spmd-backend", "partial_dtensor", "--checkpoint.enable", "--checkpoint.interval", "2",
            "--validator.enable", "--validator.freq", "2", "--validator.steps", "2",
            "--validator.dataloader.dataset", "c4_test", "--validator.dataloader.dataset-path", "texts",
            "--metrics.enable-tensorboard"]
        environment = case.environment_of(self.place.name, preload, TITANTRACE_DUMP_ON="exit", HF_HUB_OFFLINE="1",
                                       TITANTRACE_DIR=str(self.place / "dumps"), HF_HOME=str(self.place / "hub"),
                                       OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore",
                                       PYTHONPATH=os.pathsep.join(bridge_case.packages()))
        if handlers:
            environment["TITAN_STRUCT_LOGGER_HANDLERS"] = ",".join(handlers)
        done = subprocess.run([bridge_case.real_python(), "-m", "torch.distributed.run", "--standalone",
                               "--nproc-per-node", str(RANKS), str(HERE / "torchtitan_on_cpu.py"), *program],
                              cwd=self.place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=600, check=False)
        case.assertEqual(done.returncode, 0, done.stdout[-8000:])
        return done.stdout


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
        without = Run(self, "without", False, ())
        beside = Run(self, "beside", True, (OWN_LOG, "titantrace.torchtitan.handler"))
        instead = Run(self, "instead", True, ("titantrace.torchtitan.replace",))
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
        """Of the two clocks we know no more than that they are straight lines: the first and the last record tell which.
        Each of ours is read just after the log's."""
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
        for span, marker in bridge_case.ended(markers).items():
            durations[marker["name"]].append((marker["ticks"] - bridge_case.begun(markers)[span]["ticks"]) * rate / 1000)
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
        for name in ("throughput(tps)", "tflops", "grad_norm", "memory/max_active(GiB)"):
            self.assertEqual([number for number, _ in logged(markers, name)], list(range(1, STEPS + 1)), name)
            self.assertGreater(min(value for _, value in logged(markers, name)), 0, name)
        self.assertEqual({value for _, value in logged(markers, "memory/num_ooms")}, {0})
        self.assertEqual([number for number, _ in logged(markers, "validation_metrics/loss")], list(EVALUATED))


if __name__ == "__main__":
    absent = missing()
    if absent:
        print(f"torchtitan's trainer does not run without {absent} (scripts/setup --bridges)")
        sys.exit(77)
    bridge_case.main()
