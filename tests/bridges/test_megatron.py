"""Megatron-LM's timers and iterations (python/titantrace/megatron.py).

    test_megatron.py --library LIB [--real]      --real: with megatron-core; else with the stand-in beside this file.
                                                 Its package has no training loop: that is a stand-in in any case.
"""
import argparse
import json
import os
import subprocess
import sys

import bridge_case
from bridge_case import REAL, ROOT, STAND_INS, package_case, real_python

INSTALL = r"""
import sys, warnings
warnings.simplefilter("ignore")
import titantrace.megatron
assert "megatron.core" not in sys.modules
installed = titantrace.megatron.install()
assert titantrace.megatron.install() == installed == titantrace.active()
assert installed or "megatron.core" not in sys.modules

import argparse, json, os, threading, time, torch
waits = []
torch.cuda.synchronize = lambda: waits.append("synchronize")
torch.distributed.barrier = lambda group=None: waits.append("barrier")
"""

TIMERS = INSTALL + r"""
from megatron.core.timers import DummyTimer, Timer, Timers
timers, results = Timers(1, "minmax"), []

def refused(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

timers("forward-backward", log_level=1).start(barrier=True)
for _ in range(2):
    timers("forward-compute", log_level=2).start()
    time.sleep(0.01)
    timers("forward-compute").stop()
timers("forward-backward").stop()
assert timers("forward-backward").elapsed() >= 0.02
results.append([type(timers(name)).__name__ for name in ("forward-backward", "forward-compute")])
results.append([timers(name).name for name in ("forward-backward", "forward-compute")])
results.append(isinstance(timers("forward-compute"), DummyTimer))
results.append([refused(timers("forward-compute").elapsed), refused(timers("forward-backward").stop)])
results.append(refused(timers("never started").stop))

# One that runs is read: it ends and begins again. One that is reset ends when it begins again.
timers("interval-time", log_level=0).start()
results.append(refused(timers("interval-time").start))
timers("interval-time").elapsed()
timers("interval-time").stop()
timers("reset", log_level=1).start()
timers("reset").reset()
timers("reset").start()
timers("reset").stop()
timers("left out, and left", log_level=2).start()
timers("left out, and left").start()
timers("left out, and left").stop()

# An asynchronous checkpoint stops its timer on its own thread.
timers("save-checkpoint", log_level=0).start()
thread = threading.Thread(target=timers("save-checkpoint").stop)
timers("optimizer", log_level=1).start()
thread.start(), thread.join()
timers("optimizer").stop()

# Names without end take no memory without end.
assert len({id(timers(f"many {number}", log_level=2)) for number in range(2000)}) < 1100
timers("many 1999").start()
timers("many 1999").stop()
results.append(sorted(timers._timers))
results.append(waits)
print(json.dumps([titantrace.dump(), results]))
"""

TRAINING = INSTALL + r"""
from megatron.training import pretrain
args = argparse.Namespace(timing_log_level=0, barrier_with_L1_time=True, iteration=100, train_iters=102)
results = pretrain(lambda iteration: 1.0 / iteration, args)
print(json.dumps([titantrace.dump(), [results, waits]]))
"""

# Knows nothing of us. Run as a file, and as a module.
UNMODIFIED = r"""
import beside, json, pathlib, sys, torch
torch.cuda.synchronize = torch.distributed.barrier = lambda group=None: None
from argparse import Namespace
from megatron.training import pretrain
assert __name__ == "__main__" and sys.modules["__main__"].pretrain is pretrain
args = Namespace(timing_log_level=0, barrier_with_L1_time=False, iteration=0, train_iters=2)
pretrain(lambda iteration: 1.0, args)
print(json.dumps([pathlib.Path(sys.argv[0]).name, sys.argv[1:], beside.__file__]))
sys.exit(7)
"""


class Megatron(bridge_case.Case):
    def marked(self, program):
        """What it returns, raises and waits for is the same without the tracer."""
        return self.same_without_tracer(program, STAND_INS / "megatron_lm",
                                        *([] if REAL else [STAND_INS / "megatron_core"]))

    def test_timers(self):
        results = self.marked(TIMERS)
        self.assertEqual(results[0], ["Timer", "DummyTimer"])
        self.assertEqual(results[-1][:3], ["barrier", "synchronize", "synchronize"])
        counted = {name: len(self.spans_of(name)) for name in {begin["name"] for begin in self.begun.values()}}
        self.assertEqual(counted, {"forward-backward": 1, "forward-compute": 2, "interval-time": 2, "reset": 2,
                                   "left out, and left": 2, "save-checkpoint": 1, "optimizer": 1})
        (outer, outer_end), = self.spans_of("forward-backward")
        self.assertEqual({begin["parent"] for begin, _ in self.spans_of("forward-compute")}, {outer["span"]})
        self.assertRegex(outer["called_at"], r"^<string>:\d+ <module>$")
        for begin, end in self.spans_of("forward-compute"):
            self.assertTrue(outer["ticks"] < begin["ticks"] == end["begun_ticks"] < end["ticks"] < outer_end["ticks"])
        (begin, end), = self.spans_of("save-checkpoint")
        self.assertNotEqual(begin["thread"], end["thread"])
        (optimizer, optimizer_end), = self.spans_of("optimizer")
        self.assertTrue(begin["ticket"] < optimizer["ticket"] < end["ticket"] < optimizer_end["ticket"])

    def test_iterations_and_what_their_log_knows(self):
        """At level 0 Megatron times none of it, and waits no more than before."""
        self.marked(TRAINING)
        steps = [(marker["value"], marker["relative_step"]) for marker in self.markers if marker["marker"] == "step"]
        self.assertEqual(steps, [(101, 1), (102, 2)])
        told = [(marker["step"], marker["name"], marker["value"]) for marker in self.markers
                if marker["marker"] == "metric"]
        self.assertEqual(told, [(step, name, value) for step, norm in ((101, 50.0), (102, 50.5)) for name, value in (
            ("learning-rate", 0.125), ("loss-scale", 1.0), ("grad-norm", norm), ("params-norm", "nan"))])
        self.assertEqual([begin["step"] for begin, _ in self.spans_of("forward-backward")], [101, 102])
        self.assertEqual(len(self.spans_of("optimizer")), 2)
        intervals = [begin["span"] for begin, _ in self.spans_of("interval-time")]
        self.assertEqual([begin["parent"] for begin, _ in self.spans_of("forward-backward")], intervals[:2])

    def test_a_program_that_is_not_changed(self):
        place = self.place / "program"
        place.mkdir()
        (place / "train.py").write_text(UNMODIFIED)
        (place / "beside.py").write_text("")
        path = [ROOT / "python", STAND_INS / "megatron_lm"] + ([] if REAL else [STAND_INS / "megatron_core"])
        for name, program in (("file", [place / "train.py"]), ("module", ["-m", "train"])):
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "RANK": "3", "WORLD_SIZE": "8",
                           "LD_PRELOAD": package_case.options.library, "TITANTRACE_DIR": str(self.place / name),
                           "TITANTRACE_RING_DIR": str(self.place), "PYTHONDONTWRITEBYTECODE": "1"}
            *_, python = [argparse.Namespace(command=[real_python()])] if REAL else self.each_python()
            done = subprocess.run([*python.command, "-m", "titantrace", "--bridges", "megatron", *program, "--bridges",
                                   "x"], env=environment, cwd=place, capture_output=True, text=True, timeout=120,
                                  check=False)
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertEqual(json.loads(done.stdout), ["train.py", ["--bridges", "x"], str(place / "beside.py")])
            markers = self.markers_of(name)
            self.assertEqual([marker["value"] for marker in markers if marker["marker"] == "step"], [1, 2])
            self.assertEqual([begin["name"] for begin in bridge_case.begun(markers).values()],
                             ["interval-time", "forward-backward", "optimizer"] * 2 + ["interval-time"])

    def test_a_bridge_that_does_not_exist(self):
        done = subprocess.run([sys.executable, "-m", "titantrace", "--bridges", "markers", "train.py"], text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("titantrace.markers has no install()", done.stderr)


if __name__ == "__main__":
    bridge_case.main()
