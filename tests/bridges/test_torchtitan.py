"""torchtitan's structured logger on the recorder (python/titantrace/torchtitan.py): a program that knows only
torchtitan marks steps, spans, events and metrics, by either factory.

    test_torchtitan.py --library LIB [--real]      --real: with the package that scripts/setup --bridges installs;
                                                   else with the stand-in beside this file
"""
import pathlib

import bridge_case

PROGRAM = r"""
import asyncio, json, logging, os, sys, threading, time
from torchtitan.observability import structured_logger as sl

@sl.log_trace_span("fwd_bwd")       # decorated before the logger is set up, as torchtitan's trainer is
def forward_backward():
    sl.log_trace_scalar({"loss": 2.5, "nan": float("nan"), "text": "no number", "flag": True})

@sl.log_trace_span("rollout")
async def rollout(n):
    await asyncio.sleep(0.01 * n)

sl.init_structured_logger(source="trainer", output_dir=os.environ["TITANTRACE_DIR"], rank=3)
logging.getLogger("torchtitan.structured_logger").info("free text")
sl.log_trace_instant("training_start")
sl.set_step(12, relative_step=2)
sl.add_step_tag("gc")
sl.add_step_tag("gc")
with sl.log_trace_span("step"):
    forward_backward()
    with sl.log_trace_span("optim", "the optimizer"):
        pass
try:
    with sl.log_trace_span("eval"):
        raise ValueError("no data")
except ValueError:
    pass

async def main():
    await asyncio.gather(*(asyncio.create_task(rollout(n), name=f"rollout-{n}") for n in (3, 1)))
asyncio.run(main())

# An asynchronous checkpoint beside the step: torchtitan's own analysis swaps the two durations.
def save():
    with sl.log_trace_span("checkpoint_save"):
        time.sleep(0.05)
thread = threading.Thread(target=save)
thread.start()
with sl.log_trace_span("step2"):
    thread.join()
assert sl.get_step() == 12 and tuple(sl.get_step_tags()) == ("gc",)
import titantrace
print(json.dumps(titantrace.dump()))
"""


# Where torchtitan's own records and their analysis go wrong: a checkpoint that begins in a step and outlasts it, on a
# thread of its own; a generator; no numbers. And what is none of a step's or a logger's any more, or not yet.
FAULTS = r"""
import json, os, threading, time
from torchtitan.observability import structured_logger as sl

sl.log_trace_instant("before the set-up")
with sl.log_trace_span("before the set-up"):
    pass
sl.init_structured_logger(source="trainer", output_dir=os.environ["TITANTRACE_DIR"], rank=3)
for number, tags in (1, ("gc", "eval")), (2, ()), (3, ("gc",)):
    sl.set_step(number)
    for tag in tags:
        sl.add_step_tag(tag)
    sl.log_trace_scalar({"nan": float("nan"), "inf": float("inf"), "number": number})

took, begun, stepped = {}, threading.Event(), threading.Event()
def save():
    since = time.perf_counter()
    with sl.log_trace_span("checkpoint_save"):
        begun.set()
        stepped.wait()
        time.sleep(0.2)
    took["checkpoint_save"] = time.perf_counter() - since
thread = threading.Thread(target=save)
since = time.perf_counter()
with sl.log_trace_span("step"):
    thread.start()
    begun.wait()
    time.sleep(0.1)
took["step"] = time.perf_counter() - since
stepped.set()
thread.join()

@sl.log_trace_span("items")
def items():
    for item in range(3):
        time.sleep(0.05)
        yield item
since = time.perf_counter()
assert list(items()) == [0, 1, 2]
took["items"] = time.perf_counter() - since
import titantrace
print(json.dumps([took, titantrace.dump()]))
"""
SLEPT_S = {"step": 0.1, "checkpoint_save": 0.2, "items": 0.15}

DISABLED = r"""
import json, os, titantrace
from torchtitan.observability import structured_logger as sl
titantrace.event("ours")
sl.init_structured_logger(source="trainer", output_dir=os.environ["TITANTRACE_DIR"], rank=3, enable=False)
sl.set_step(1)
sl.log_trace_instant("instant")
with sl.log_trace_span("span"):
    sl.log_trace_scalar({"scalar": 1.0})
print(json.dumps(titantrace.dump()))
"""

# The trainer's metrics, on a rank that writes a board and on one that does not.
LOGS = r"""
import json, os
from torchtitan.components import metrics
from torchtitan.observability import structured_logger as sl
sl.init_structured_logger(source="trainer", output_dir=os.environ["TITANTRACE_DIR"], rank=3)
container, board = metrics.LoggerContainer(), metrics.BoardLogger()
container.loggers.append(board)
for number, logger in enumerate((container, metrics.BaseLogger()), 12):
    sl.set_step(number)
    logger.log({"loss": 2.5, "throughput(tps)": float("nan"), "words": "none"}, number)
import titantrace
print(json.dumps([board.written, titantrace.dump()]))
"""

# One graph: a marker that torch.compile could not trace would break it in two, which fullgraph forbids.
COMPILED = r"""
import json, torch, titantrace
@titantrace.span("decorated")
def plus_one(x):
    return x + 1

@torch.compile(backend="eager", fullgraph=True)
def forward(x):
    with titantrace.span("compiled"):
        y = x * 2
    titantrace.event("event")
    titantrace.metric("metric", 1.0)
    return plus_one(y)

assert forward(torch.ones(2)).tolist() == [3.0, 3.0]
titantrace.metric("loss", torch.tensor(2.5))
titantrace.metric("grad", torch.tensor(2.5, requires_grad=True))
titantrace.metric("elsewhere", torch.ones(1, device="meta"))
print(json.dumps(titantrace.dump()))
"""


# Records with types, which its processor reduces, and drops where they are NaN.
# Its package also brings in vLLM, of which they know nothing.
TYPED = (f"""
import os, sys, types, torchtitan
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import torchtitan_on_cpu
torchtitan_on_cpu.offer_the_cpu()
package = sys.modules["torchtitan.experiments.rl"] = types.ModuleType("torchtitan.experiments.rl")
package.__path__ = [os.path.join(os.path.dirname(torchtitan.__file__), "experiments", "rl")]
""" if bridge_case.REAL else "") + r"""
import json, os
from torchtitan.experiments.rl.observability.metrics import Max, Mean, Metric, MetricsProcessor, NoReduce, SummaryStats
from torchtitan.observability import structured_logger as sl
sl.init_structured_logger(source="controller", output_dir=os.environ["TITANTRACE_DIR"], rank=3)
class Board:
    written = []
    def log(self, metrics, step):
        self.written.append([sorted(metrics), step])
config = MetricsProcessor.Config()
config.console_log_keys_train = []
processor = MetricsProcessor(config)
processor._backends.append(Board())
sl.set_step(4)
processor.log(4, (record for record in (
    Metric("reward", Mean.from_list([1.0, 3.0])), Metric("reward", Mean(6.0, count=2)), Metric("reward", Max(4.0)),
    Metric("lr", NoReduce(0.1)), Metric("empty", Mean.from_list([])), Metric("length", SummaryStats(7.0)))))
import titantrace
print(json.dumps([Board.written, titantrace.dump()]))
"""


class Torchtitan(bridge_case.Case):
    def marked(self, factory):
        self.assertTrue(self.bridged(factory, PROGRAM,
                                     TITAN_STRUCT_LOGGER_HANDLERS=f"titantrace.torchtitan.{factory}"))
        markers = self.markers_of(factory)
        return markers, bridge_case.by_name(markers)

    def check(self, factory):
        markers, told = self.marked(factory)
        self.assertEqual(told["label", "role"]["text"], "trainer")
        self.assertEqual((told["step", ""]["value"], told["step", ""]["relative_step"]), (12, 2))
        self.assertEqual([marker["name"] for marker in markers if marker["marker"] == "step_tag"], ["gc"])
        self.assertIn(("event", "training_start"), told)
        metrics = [(marker["name"], marker["value"]) for marker in markers if marker["marker"] == "metric"]
        self.assertEqual(metrics, [("loss", 2.5), ("nan", "nan")])
        begun = {marker["span"]: marker for marker in markers if marker["marker"] == "span_begin"}
        ended = {marker["span"]: marker for marker in markers if marker["marker"] == "span_end"}
        self.assertEqual(sorted(marker["name"] for marker in begun.values()),
                         ["checkpoint_save", "eval", "fwd_bwd", "optim", "rollout", "rollout", "step", "step2"])
        self.assertEqual({span: marker["name"] for span, marker in begun.items()},
                         {span: marker["name"] for span, marker in ended.items()})
        for span, marker in ended.items():
            self.assertEqual(marker["begun_ticks"], begun[span]["ticks"])
        self.assertEqual(told["metric", "loss"]["span"], told["span_begin", "fwd_bwd"]["span"])
        self.assertEqual(told["span_begin", "fwd_bwd"]["parent"], told["span_begin", "step"]["span"])
        self.assertEqual(len({marker["task"] for marker in begun.values() if marker["name"] == "rollout"} - {0}), 2)
        self.assertEqual((told["error", ""]["text"], told["error", ""]["span"]),
                         ("ValueError: no data", told["span_begin", "eval"]["span"]))
        for kind, name in (("span_begin", "step"), ("metric", "loss"), ("event", "training_start")):
            self.assertRegex(told[kind, name]["called_at"], r"^<string>:\d+ (<module>|forward_backward)$")
        facts = [(marker["name"], marker["text"], begun[marker["span"]]["name"]) for marker in markers
                 if marker["marker"] == "attribute"]
        self.assertEqual(facts[0], ("description", "the optimizer", "optim"))
        self.assertEqual(set(facts[1:]), {("task_name", f"rollout-{n}", "rollout") for n in (3, 1)})

    def test_in_the_place_of_the_logger(self):
        self.check("replace")
        rollouts = {marker["called_at"] for marker in self.markers_of("replace")
                    if (marker["marker"], marker["name"]) == ("span_begin", "rollout")}
        self.assertEqual(len(rollouts), 1)
        self.assertRegex(rollouts.pop(), r"^<string>:\d+ rollout$")  # not the logger's wrapper of it

    def test_beside_other_handlers(self):
        self.check("handler")

    def check_faults(self, factory, timed):
        took, dumped = self.bridged(factory, FAULTS,
                                    TITAN_STRUCT_LOGGER_HANDLERS=f"titantrace.torchtitan.{factory}")
        self.assertTrue(dumped)
        markers = self.markers_of(factory)
        begun, ended = bridge_case.begun(markers), bridge_case.ended(markers)
        self.assertEqual([marker["name"] for marker in begun.values()], ["step", "checkpoint_save", "items"])
        self.assertEqual([marker["name"] for marker in ended.values()], ["step", "checkpoint_save", "items"])
        self.assertEqual({span: marker["thread"] for span, marker in begun.items()},
                         {span: marker["thread"] for span, marker in ended.items()})
        lasted = {marker["name"]: marker["ticks"] - begun[span]["ticks"] for span, marker in ended.items()}
        for name in timed:  # each lasted no shorter than it slept, and no longer than the program measured around it
            share = lasted[name] / lasted["checkpoint_save"]
            self.assertLess(0.99 * SLEPT_S[name] / took["checkpoint_save"], share, name)
            self.assertLess(0.99 * share, took[name] / SLEPT_S["checkpoint_save"], name)
        self.assertEqual([(marker["step"], marker["name"]) for marker in markers if marker["marker"] == "step_tag"],
                         [(1, "gc"), (1, "eval"), (3, "gc")])
        self.assertEqual([(marker["step"], marker["name"], marker["value"]) for marker in markers
                          if marker["marker"] == "metric"],
                         [(number, name, value) for number in (1, 2, 3)
                          for name, value in (("nan", "nan"), ("inf", "inf"), ("number", number))])
        self.assertEqual([marker for marker in markers if marker["marker"] == "event"], [])

    def test_its_faults_in_the_place_of_the_logger(self):
        self.check_faults("replace", ("step", "items"))

    def test_its_faults_beside_other_handlers(self):
        """What it tells of a generator is over at once; the handler is told no more."""
        self.check_faults("handler", ("step",))

    def test_typed_metrics(self):
        for factory in ("replace", "handler"):
            handlers = {"TITAN_STRUCT_LOGGER_HANDLERS": f"titantrace.torchtitan.{factory}"}
            (written, dumped), (plain, _) = (self.bridged(factory, TYPED, preload, **handlers)
                                             for preload in (True, False))
            self.assertEqual((written, len(written), dumped), (plain, 1, True))
            metrics = {marker["name"]: (marker["step"], marker["value"], marker["weight"], marker["reduction"])
                       for marker in self.markers_of(factory) if marker["marker"] == "metric"}
            wanted = {"reward/mean": (4, 2.5, 4, "mean"), "reward/max": (4, 4, 1, "max"), "lr": (4, 0.1, 1, ""),
                      "empty/mean": (4, "nan", 0, "mean"), "length/_max": (4, 7, 1, ""), "length/_sum": (4, 7, 1, "")}
            self.assertEqual({name: metrics.get(name) for name in wanted}, wanted)

    def test_spans_by_name(self):
        """What names leave out is not on record; what it lies in is known all the same."""
        for name, names, kept in (("some", "fwd*,eval", {"eval", "fwd_bwd"}),
                                  ("others", "-step*,-rollout", {"checkpoint_save", "eval", "fwd_bwd", "optim"})):
            self.assertTrue(self.bridged(name, PROGRAM, TITANTRACE_SPANS=names,
                                         TITAN_STRUCT_LOGGER_HANDLERS="titantrace.torchtitan.replace"))
            markers = self.markers_of(name)
            for spans in bridge_case.begun(markers), bridge_case.ended(markers):
                self.assertEqual({marker["name"] for marker in spans.values()}, kept)
            told = bridge_case.by_name(markers)
            self.assertEqual(told["metric", "loss"]["span"], told["span_begin", "fwd_bwd"]["span"])

    def test_switched_off(self):
        for factory in ("replace", "handler"):
            self.assertTrue(self.bridged(factory, DISABLED,
                                         TITAN_STRUCT_LOGGER_HANDLERS=f"titantrace.torchtitan.{factory}"))
            self.assertEqual([marker["name"] for marker in self.markers_of(factory) if marker["marker"] != "label"],
                             ["ours"])

    if not bridge_case.REAL:
        def test_metrics_of_the_trainer(self):
            """With the package: test_torchtitan_trainer.py."""
            for factory in ("replace", "handler"):
                with self.subTest(factory=factory):
                    handlers = {"TITAN_STRUCT_LOGGER_HANDLERS": f"titantrace.torchtitan.{factory}"}
                    (written, dumped), (plain, _) = (self.bridged(factory, LOGS, preload, **handlers)
                                                     for preload in (True, False))
                    self.assertEqual((str(written), len(written), dumped), (str(plain), 1, True))
                    self.assertEqual([(marker["step"], marker["name"], marker["value"])
                                      for marker in self.markers_of(factory) if marker["marker"] == "metric"],
                                     [(number, name, value) for number in (12, 13)
                                      for name, value in (("loss", 2.5), ("throughput(tps)", "nan"))])

    if bridge_case.REAL:
        def test_nothing_is_marked_while_torch_compiles(self):
            self.assertTrue(self.bridged("compile", COMPILED))
            self.assertEqual([(marker["name"], marker["value"]) for marker in self.markers_of("compile")],
                             [("loss", 2.5), ("grad", 2.5)])


if __name__ == "__main__":
    bridge_case.main()
