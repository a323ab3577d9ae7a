#!/usr/bin/env python3
"""TITANTRACE_STACKS=collective: from where a Python program makes its NCCL calls, in all that shows them."""

import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "synth"))
import titan_decode  # noqa: E402

TRAIN = harness.ROOT / "tests" / "simgpu" / "train.py"
TORCH = harness.ROOT / ".venv" / "bin" / "python"
READ_BY_PYTORCH = """
import sys
from torch.distributed.flight_recorder import fr_trace
fr_trace.main([sys.argv[1], "-p", "nccl_trace_rank_"])
"""


def pythons():
    """Interpreters with libraries of their own: commands, by what they call themselves."""
    commands = [[sys.executable]] + [command.split() for command in os.environ.get("TITAN_PYTHONS", "").split(";")
                                     if command]
    commands += [["/usr/bin/python3"]] + [[str(path)]
                                          for path in sorted(pathlib.Path.home().glob(".pyenv/versions/*/bin/python3"))]
    found = {}
    for command in commands:
        try:
            asked = subprocess.run([*command, "-c",
                                    "import sys, sysconfig; print(sys.version_info[:3], sysconfig.get_config_var("
                                    "'Py_GIL_DISABLED'), sysconfig.get_config_var('Py_ENABLE_SHARED'))"],
                                   capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        found.setdefault(asked.stdout.strip(), command)
    return found


def line_of(text):
    """Where that text stands in the training program."""
    return 1 + next(i for i, line in enumerate(TRAIN.read_text().splitlines()) if text in line)


class CallSites(harness.Case):
    def start(self, *options, ranks=2, python=(sys.executable,), **settings):
        settings = {"TITANTRACE_STACKS": "collective", "SIMGPU_DIR": harness.stand_ins(), "WORLD_SIZE": ranks,
                    **settings}
        return [self.place.start([*python, TRAIN, "--step-ms", "2", *options],
                                 self.place.env(RANK=rank, LOCAL_RANK=rank, SIMTRAIN_STORE=self.place.path / "store",
                                                **settings))
                for rank in range(ranks)]

    def train(self, *options, **settings):
        jobs = self.start(*options, **{"TITANTRACE_DUMP_ON": "exit", **settings})
        for job in jobs:
            job.wait(60)
            self.assertEqual(job.status, 0, job.stderr)
        return jobs

    def decode(self, option=""):
        """As the second reader, written from FORMAT.md, sees the dumps."""
        return list(map(json.loads, titan_decode.lines(option, self.place.dump_files())))

    def expect_sites(self, calls, qualified=True):
        """Every call, frame by frame."""
        job = "Job." if qualified else ""
        maker, thrown = line_of('getattr(self.lib, "simtrain_" + name)'), line_of("self.lib.simtrain_init_comm(")
        within = {"reduce_scatter": "backward", "all_gather": "backward", "all_reduce": "optimizer",
                  "broadcast": "checkpoint"}
        seen = set()
        for call in calls:
            frames = [(frame["function"], frame["line"]) for frame in call["python_frames"]]
            self.assertEqual({pathlib.Path(frame["file"]).name for frame in call["python_frames"]}, {"train.py"})
            if call["op"] == "comm_init":
                self.assertEqual(call["called_at"], f"train.py:{thrown} in {job}init_comms")
                self.assertEqual(frames[:2], [(job + "init_comms", thrown), ("main", line_of("job.init_comms(store)"))])
            elif call["op"] in within:
                self.assertEqual(call["called_at"], f"train.py:{maker} in {job}call")
                self.assertEqual(frames[:3],
                                 [(job + "call", maker), ("train_step", line_of(f'job.call("{within[call["op"]]}")')),
                                  ("main", line_of("        train_step(job, markers, step, args)"))])
            self.assertEqual(frames[-1], ("<module>", line_of("    main()")))
            self.assertFalse(call["python_cut"])
            seen.add(call["op"])
        self.assertLessEqual({"comm_init", "reduce_scatter", "all_reduce", "broadcast"}, seen)

    def expect_native(self, calls):
        """From the library that calls NCCL to the program's first instruction."""
        for call in calls:
            frames = call["native_frames"]
            self.assertEqual((frames[0]["module"], call["native_cut"]), ("libsimtrain.so", False))
            self.assertEqual(frames[-1]["function"], "_start")
            self.assertTrue(all(frame["module"] for frame in frames), frames)
        source = (harness.ROOT / "tests" / "simgpu" / "sim" / "trainer.cpp").read_text().splitlines()
        inner = {(frame["function"], pathlib.Path(frame["file"]).name, frame["line"])
                 for call in calls if call["op"] == "comm_destroy"
                 for frame in call["native_frames"][:1]}
        (function, file, line), = inner
        self.assertEqual((function, file), ("simgpu::Trainer::destroy_comms()", "trainer.cpp"))
        self.assertIn("ncclCommDestroy", source[line - 1])

    def test_a_wrapper_is_not_alone(self):
        """Calls of titan-sim go through a wrapper in a file of its own: `show` names who called that."""
        self.place.sim("--ranks", "2", "--steps", "10", "--step-ms", "1", TITANTRACE_STACKS="collective",
                       TITANTRACE_DUMP_ON="exit")
        listed = self.place.tool("titan-analyze", "show", self.place.dumps, "--no-rings", "--op", "all_gather",
                                 "--last", "1").stdout
        self.assertRegex(listed, r"at trainer\.cpp:\d+ in simgpu::Trainer::\w+ \(rank_comm\.cpp:\d+\)")

    def test_every_call_says_where(self):
        self.train("--steps", "100")
        calls = self.place.show(self.place.dumps)
        self.expect_sites(calls)
        for mine, other in zip(calls, self.decode()):
            for key in ("ticket", "stack", "python_frames"):
                self.assertEqual(mine[key], other[key])
            self.assertEqual([frame["address"] for frame in mine["native_frames"]], other["native_frames"])
        self.expect_native(calls)
        for ring in self.decode("--call-sites"):
            self.assertTrue(ring["python"].startswith("CPython 3."), ring)
            made, kept = sum(ring["uses"]) + ring["dropped"], len(ring["uses"])
            self.assertEqual((made, ring["dropped"]),
                             (len([call for call in calls if call["rank"] == ring["rank"]]), 0))
            self.assertLess(kept, 16)
            # Repeats that found their stack in the table: all but what was dropped.
            self.assertGreaterEqual(sum(uses - 1 for uses in ring["uses"]) / (made - kept), 0.99)
        text = self.place.tool("titan-analyze", "show", self.place.dumps, "--no-rings", "--last", "3").stdout
        self.assertIn(f"at train.py:{line_of('getattr(self.lib')} in Job.call", text)

    def test_native_frames_alone(self):
        self.train("--steps", "10", TITANTRACE_STACKS="collective:native")
        calls = self.place.show(self.place.dumps)
        self.expect_native(calls)
        self.assertEqual({len(call["python_frames"]) for call in calls}, {0})
        self.assertTrue(all("trainer.cpp:" in call["called_at"] for call in calls if call["op"] == "comm_destroy"),
                        calls)

    def test_python_frames_alone(self):
        self.train("--steps", "10", TITANTRACE_STACKS="collective:python")
        calls = self.place.show(self.place.dumps)
        self.expect_sites(calls)
        self.assertEqual({len(call["native_frames"]) for call in calls}, {0})

    def test_none(self):
        for setting in ("dump", "off"):
            with self.subTest(setting):
                self.place = self.new_place()
                self.train("--steps", "3", TITANTRACE_STACKS=setting)
                calls = self.place.show(self.place.dumps)
                self.assertEqual([call for call in calls if "stack" in call or "called_at" in call], [])
                self.assertFalse(any("stack" in call for call in self.decode()))

    def test_finding_names_the_place(self):
        self.start("--steps", "100000", "--tp", "4", ranks=4,
                   SIMGPU_FAULTS="other rank=2 comm=tp step=5 kind=allgather",
                   TITANTRACE_TIMEOUT_S=3 * harness.SLOW)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2, 3}, 60, "the watchdog dumps all")
        analysis = self.place.analyze(self.place.dumps)
        verdict = analysis.json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("op_mismatch", [2]))
        place = f"called at train.py:{line_of('getattr(self.lib')} in Job.call"
        evidence = analysis.json["findings"][0]["evidence"]
        self.assertTrue(any(line.startswith(f"rank 2: all_gather (float32 x 4,096), {place}, from train.py:")
                            for line in evidence), evidence)
        self.assertTrue(any("ranks 0-1,3: all_reduce" in line and place in line for line in evidence), evidence)
        digests = self.place.path / "digests"
        self.place.tool("titan-analyze", "digest", self.place.dumps, "--no-rings", "--into", digests, status=0)
        self.assertEqual(self.place.analyze(digests).json["findings"], analysis.json["findings"])

    def test_ring_of_a_killed_process(self):
        jobs = self.start("--steps", "100000", TITANTRACE_DUMP_ON="none")
        shown = lambda: self.place.show(self.place.rings, "--rank", "1",
                                        starting=True) if len(self.place.ring_files()) == 2 else []
        harness.wait_for(lambda: any(call["op"] == "broadcast" for call in shown()), 30, "a checkpoint")
        os.kill(jobs[1].pid, signal.SIGKILL)
        jobs[1].wait()
        self.expect_sites(
            [call for call in shown() if call["op"] in ("comm_init", "reduce_scatter", "all_reduce", "broadcast")])

    def export(self):
        into = self.place.path / "fr"
        done = self.place.export(into)
        self.assertEqual(done.status, 0, done.stderr)
        return into

    def test_export_has_the_frames(self):
        self.train("--steps", "5")
        into = self.export()
        maker = line_of("getattr(self.lib")
        for path in into.iterdir():
            entries = pickle.loads(path.read_bytes())["entries"]
            self.assertGreater(len(entries), 10)
            for entry in entries:
                names = [frame["name"] for frame in entry["frames"]]
                self.assertTrue(names[-1].startswith("__libc_start"), names)  # the interpreter's own _start is left out
                # Python's frames stand where the interpreter runs them.
                self.assertTrue(names[0].startswith("simgpu::"), names)
                inner = names.index("Job.call")
                outer = names.index("<module>")
                self.assertIn(names[inner + 1:outer + 1], (["train_step", "main", "<module>"], ["main", "<module>"]))
                frame = entry["frames"][inner]
                self.assertEqual((pathlib.Path(frame["filename"]).name, frame["line"]), ("train.py", maker))
                self.assertFalse(any(name.startswith("_PyEval") for name in names), names)
        self.assertIn(f"train.py:{maker} in Job.call", {call["called_at"] for call in self.place.show(into)})

    @unittest.skipUnless(TORCH.exists(), f"no PyTorch: {TORCH} is missing (scripts/setup installs it)")
    def test_pytorch_reads_the_frames(self):
        self.start("--steps", "100000", "--tp", "2", ranks=4, SIMGPU_FAULTS="sleep rank=3 comm=dp step=5 ms=60000",
                   TITANTRACE_TIMEOUT_S=3 * harness.SLOW)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2, 3}, 60, "the watchdog dumps all")
        done = self.place.run([TORCH, "-c", READ_BY_PYTORCH, self.export()],
                              self.place.env(preload=False, LD_LIBRARY_PATH=None), 120)
        self.assertEqual(done.status, 0, done.stderr)
        said = done.stdout + done.stderr
        self.assertRegex(said, rf"collective stack trace: \n *simgpu::(.*\n)*? *Job.call at "
                         rf".*/train.py:{line_of('getattr(self.lib')}\n *train_step at ")

    @harness.at_night
    def test_every_python(self):
        found = pythons()
        for name, command in found.items():
            version = tuple(int(part) for part in name[1:name.index(")")].split(","))
            with self.subTest(name):
                self.place = self.new_place()
                settings = {} if len(command) == 1 else {"LD_LIBRARY_PATH": harness.stand_ins()}
                jobs = self.train("--steps", "5", python=command, **settings)
                calls = self.place.show(self.place.dumps)
                self.assertEqual(len({call["rank"] for call in calls}), 2)
                if version >= (3, 9):
                    self.expect_sites(calls, qualified=version >= (3, 11))
                else:
                    self.assertEqual(sum(len(call["python_frames"]) for call in calls), 0)
                    self.expect_native(calls)
                    if version >= (3, 7):
                        missing = f"Python frames of calls are missing: CPython 3.{version[1]} is not known"
                        self.assertEqual(jobs[0].stderr.count(missing), 1)
                        listed = self.place.tool("titan-analyze", "show", self.place.dumps, "--no-rings")
                        self.assertEqual(listed.stdout.count(missing), 2, "once for each rank")
            print(f"call sites of {' '.join(command)} {name}: tested", file=sys.stderr)


class WithoutPython(harness.Case):
    def test_forked_children_and_their_parent(self):
        ran = self.place.start_rank("e2e-processes", "fork-nccl", TITANTRACE_STACKS="collective",
                                    TITANTRACE_DUMP_ON="exit")
        ran.wait_says("done")
        self.place.go()
        self.assertEqual((ran.wait(), ran.stderr.count("missing")), (0, 0), ran.stderr)
        calls = [call for path in self.place.dumps.glob("*/*/*.titan") for call in self.place.show(path)]
        self.assertEqual(len({call["thread"] for call in calls}), 2)
        for call in calls:
            self.assertTrue(call["native_frames"], call)
            self.assertEqual((call["native_frames"][-1]["function"], call["native_cut"]), ("_start", False))

    def test_threads(self):
        self.place.sim("--ranks", "4", "--steps", "5", "--threads", TITANTRACE_DUMP_ON="exit",
                       TITANTRACE_STACKS="collective")
        calls = self.place.show(self.place.dumps)
        self.assertGreaterEqual(len({call["thread"] for call in calls}), 4)
        for call in calls:
            self.assertRegex(call["called_at"], r"^\w+\.(cpp|h):\d+ in ")
            self.assertFalse(call["native_cut"], call)

    def test_replays_of_a_graph_have_the_place_of_the_capture(self):
        self.place.sim("--ranks", "2", "--steps", "6", "--graphs", TITANTRACE_DUMP_ON="exit",
                       TITANTRACE_STACKS="collective")
        replayed = [call for call in self.place.show(self.place.dumps) if call["replay"] != 0]
        captured = {call["stack"] for call in self.place.show(self.place.dumps) if call["state"] == "captured"}
        self.assertGreater(len(replayed), 5)
        self.assertLessEqual({call["stack"] for call in replayed}, captured - {0})

    def test_program_without_python(self):
        done = self.place.sim("--ranks", "2", "--steps", "5", TITANTRACE_DUMP_ON="exit", TITANTRACE_STACKS="collective")
        self.assertNotIn("Python", done.stderr)
        calls = self.place.show(self.place.dumps)
        self.assertGreater(len(calls), 10)
        self.assertEqual({len(call["python_frames"]) for call in calls}, {0})
        for call in calls:
            self.assertRegex(call["called_at"], r"^\w+\.(cpp|h):\d+ in ")
            self.assertEqual((call["native_frames"][-1]["function"], call["native_cut"]), ("_start", False))


if __name__ == "__main__":
    harness.main(at_once=2, rings=harness.SMALL_RINGS)
