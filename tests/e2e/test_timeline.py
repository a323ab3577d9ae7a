#!/usr/bin/env python3
"""titan-analyze timeline: what simulated jobs did, read back with the definitions that Perfetto publishes."""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

import harness
import perfetto_trace

PYTHON = perfetto_trace.PYTHON
SAYS = re.compile(r"(\S+): ([\d,]+) slices? of (\d+) ranks?, ([\d,]+) joined by arrows, ([\d,]+) instants?, "
                  r"([\d,]+) values?; [\d.]+ MB\n")
PROGRAM = """
import asyncio, titantrace
async def request(number):
    with titantrace.span("request", number=number):
        await asyncio.sleep(0.002 * (number % 3))
        with titantrace.span("inner"):
            await asyncio.sleep(0.001)
async def main():
    await asyncio.gather(*map(request, range(20)))
for step in range(3):
    titantrace.step(step)
    with titantrace.span("forward"):
        titantrace.metric("loss", 1 / (step + 1))
        titantrace.event("half way")
asyncio.run(main())
try:
    with titantrace.span("fails"):
        raise ValueError("no data")
except ValueError:
    pass
left_open = titantrace.span("left open")
left_open.__enter__()
titantrace.dump()
left_open.__exit__(None, None, None)
"""


PROFILED = """
import sys, time, torch, titantrace
from torch.profiler import ProfilerActivity, profile, record_function
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    with titantrace.span("both see this"), record_function("both see this"):
        time.sleep(0.2)
profiler.export_chrome_trace(sys.argv[1])
titantrace.dump()
"""


class Timeline(harness.Case):
    def train(self, *options, **settings):
        self.place.sim(*options, TITANTRACE_DUMP_ON="exit", **settings)

    def draw(self, *options, source=None, status=harness.HEALTHY, into="run.perfetto-trace"):
        self.file = self.place.path / into
        done = self.place.tool("titan-analyze", "timeline", source or self.place.dumps, "--no-rings", "-o", self.file,
                               *options)
        self.assertEqual(done.status, status, done.stdout + done.stderr)
        return done

    def read(self, done, says=None):
        """What Perfetto's definitions find in the file, which is what the program says that it wrote."""
        trace = perfetto_trace.read(self.file)
        says = SAYS.fullmatch(done.stdout if says is None else says)
        self.assertTrue(says, done.stdout)
        slices, ranks, joined, instants, values = (int(text.replace(",", "")) for text in says.groups()[1:])
        self.assertEqual(len(trace["slices"]), slices)
        self.assertEqual(sum(bool(one["flows"]) for one in trace["slices"]), joined)
        self.assertEqual((len(trace["instants"]), len(trace["values"])), (instants, values))
        processes = {track["name"] for number, track in trace["tracks"].items() if track["process"] == int(number)}
        self.assertEqual(len(processes - {"titantrace"}), ranks)
        return trace

    def test_collectives_of_all_ranks_are_joined(self):
        self.train("--ranks", "4", "--tp", "2", "--steps", "6")
        trace = self.read(self.draw())
        calls = [call for call in self.place.show(self.place.dumps) if call["op"] in ("all_reduce", "all_gather",
                                                                                    "reduce_scatter")]
        self.assertGreater(len(calls), 50)
        ran = collections.Counter((call["rank"], call["op"], call["communicator_name"], call["seq"])
                                  for call in calls if call["gpu_started_ticks"] is not None)
        self.assertTrue(ran)
        drawn = collections.Counter()
        members = collections.defaultdict(set)
        for one in trace["slices"]:
            if not one["track"].startswith("GPU stream") or one["name"].startswith(("send", "recv")):
                continue
            rank = int(re.match(r"rank (\d+) on \S+, pid \d+$", one["process"]).group(1))
            operation, _, communicator = one["name"].partition(" on ")
            drawn[rank, operation, communicator, one["arguments"]["seq"]] += 1
            flow, = one["flows"]
            members[flow].add((one["name"], one["arguments"]["seq"], one["arguments"]["communicator"]))
            self.assertGreaterEqual(one["arguments"]["step"], 0)
        self.assertEqual({key: count for key, count in drawn.items() if key[1] in ("all_reduce", "all_gather",
                                                                                "reduce_scatter")}, ran)
        self.assertEqual({len(calls) for calls in members.values()}, {1})
        host = [one for one in trace["slices"] if one["track"] == "main thread" and " on " in one["name"]]
        self.assertEqual(len([one for one in host if one["name"].split()[0] in ("all_reduce", "all_gather",
                                                                             "reduce_scatter")]), len(calls))
        steps = collections.Counter(one["process"] for one in trace["slices"] if one["track"] == "steps")
        self.assertEqual(set(steps.values()), {6})
        self.assertEqual(len(steps), 4)
        mode = self.file.stat().st_mode & 0o777
        self.assertEqual(mode, 0o600)

    def test_some_ranks_and_steps(self):
        self.train("--ranks", "4", "--tp", "2", "--steps", "10")
        trace = self.read(self.draw("--rank", "1-2", "--step", "4-5"))
        self.assertEqual({one["process"].split()[1] for one in trace["slices"]}, {"1", "2"})
        steps = {one["arguments"]["step"] for one in trace["slices"] if "step" in one["arguments"]}
        self.assertLessEqual({4, 5}, steps)
        self.assertLessEqual(steps, {2, 3, 4, 5, 6})  # on the GPU, a step ends later than on its host
        self.assertIn("rank 0 has none of these steps", self.draw("--rank", "0", "--step", "500", status=2).stderr)
        self.assertIn("no rank fits", self.draw("--rank", "77", status=2).stderr)

    def test_around_a_hang(self):
        self.place.start([harness.stand_ins() / "titan-sim", "--ranks", "4", "--tp", "2", "--steps", "100000",
                                "--step-ms", "5"],
                               self.place.env(SIMGPU_FAULTS="sleep rank=2 step=60 ms=60000", TITANTRACE_TIMEOUT_S="2"))
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == 4, 30, "the hang is dumped")
        verdict = self.place.analyze(self.place.dumps).json["verdict"]
        trace = self.read(self.draw("--around-hang", "0.2"))
        finding, = [one for one in trace["instants"] if one["process"] == "titantrace"]
        self.assertEqual((finding["name"], finding["track"]), (verdict["summary"], "findings"))
        waiting = [one for one in trace["slices"] if one["track"].startswith("GPU stream")
                   and one["arguments"]["state"] == "started"]
        self.assertTrue(waiting)
        for one in waiting:
            self.assertGreater(one["end_ns"] - one["begin_ns"], 1_000_000_000)
            self.assertLess(abs(one["begin_ns"] - finding["at_ns"]), 200_000_000)
        early = [one for one in trace["slices"] if one["end_ns"] < finding["at_ns"] - 200_000_000]
        self.assertEqual(early, [])
        # Both limits hold where both are given.
        steps = {one["name"] for one in trace["slices"] if one["track"] == "steps"}
        self.assertIn("step 60", steps)
        narrow = self.read(self.draw("--around-hang", "0.2", "--step", "0-59"))
        self.assertEqual({one["name"] for one in narrow["slices"] if one["track"] == "steps"}, steps - {"step 60"})
        self.assertIn("rank 0 was in none of these steps then",
                      self.draw("--around-hang", "0.2", "--step", "0-3", status=2).stderr)

    def test_no_hang_to_draw_around(self):
        self.train("--ranks", "2", "--steps", "3")
        done = self.draw("--around-hang", "10", status=2)
        self.assertIn("no moment to draw around", done.stderr)
        self.assertFalse(self.file.exists())
        self.assertEqual(list(self.place.path.glob("*.tmp*")), [])

    def test_spans_tasks_and_metrics(self):
        done = self.place.run([sys.executable, "-c", PROGRAM],
                              self.place.env(RANK=0, WORLD_SIZE=1, PYTHONPATH=harness.ROOT / "python"))
        self.assertEqual(done.status, 0, done.stderr)
        newest = max(self.place.dumps.rglob("*.titan"), key=lambda path: path.name)
        trace = self.read(self.draw(source=newest))
        by_name = collections.defaultdict(list)
        for one in trace["slices"]:
            by_name[one["name"]].append(one)
        self.assertEqual([len(by_name[name]) for name in ("request", "inner", "forward", "step 0", "step 1")],
                         [20, 20, 3, 1, 1])
        self.assertEqual({one["track"][:15] for one in by_name["request"] + by_name["inner"]}, {"tasks of thread"})
        self.assertEqual({one["arguments"]["number"] for one in by_name["request"]}, set(map(str, range(20))))
        for inner in by_name["inner"]:
            self.assertTrue(any(outer["begin_ns"] <= inner["begin_ns"] and inner["end_ns"] <= outer["end_ns"]
                                for outer in by_name["request"]))
        self.assertEqual({one["track"] for one in by_name["forward"]}, {"main thread"})
        failed, = by_name["fails"]
        self.assertIn("no data", failed["arguments"]["error"])
        left_open, = by_name["left open"]
        self.assertEqual(left_open["arguments"]["state"], "open")
        self.assertEqual([one["value"] for one in trace["values"] if one["track"] == "loss"], [1, 1 / 2, 1 / 3])
        self.assertEqual([one["name"] for one in trace["instants"]], 3 * ["half way"])

    def test_without_times_of_the_gpu(self):
        self.train("--ranks", "2", "--steps", "4", TITANTRACE_GPU_PROGRESS="off")
        trace = self.read(self.draw())
        joined = [one for one in trace["slices"] if one["flows"]]
        self.assertTrue(joined)
        self.assertEqual({one["track"] for one in joined}, {"main thread"})

    def test_a_picture(self):
        self.train("--ranks", "4", "--tp", "2", "--steps", "4")
        done = self.draw("--rank", "0,3")
        begun = [one["name"] for one in self.read(done)["slices"]]
        picture = self.place.path / "run.svg"
        done = self.place.run([harness.ROOT / "scripts" / "draw-timeline", self.file, "-o", picture, "--last-ms",
                               "100000", "--after-ms", "1000"], self.place.env(preload=False))
        self.assertEqual(done.status, 0, done.stderr)
        shapes = xml.etree.ElementTree.parse(picture).getroot()
        drawn = [shape[0].text for shape in shapes.iter("{http://www.w3.org/2000/svg}rect") if len(shape)]
        self.assertEqual(sorted(drawn), sorted(begun))
        words = [shape.text for shape in shapes.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual([word for word in words if word.startswith("rank ")], ["rank 0", "rank 3"])

    def test_flight_recorder_files(self):
        self.train("--ranks", "2", "--steps", "4")
        into = self.place.path / "fr"
        exported = self.place.export(into)
        self.assertEqual(exported.status, 0, exported.stderr)
        trace = self.read(self.draw(source=into))
        entries = int(re.search(r"files, ([\d,]+) calls", exported.stdout).group(1).replace(",", ""))
        self.assertEqual(len(trace["slices"]), entries)
        self.assertTrue(all(one["flows"] for one in trace["slices"]))

    @harness.at_night
    def test_traces_of_the_profiler_lie_on_the_same_clock(self):
        if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import torch"], capture_output=True,
                                                 check=False).returncode != 0:
            self.skipTest("no PyTorch in .venv: scripts/setup without --no-torch installs it")
        kineto = self.place.path / "kineto.json"
        done = self.place.run([PYTHON, "-c", PROFILED, kineto],
                              self.place.env(RANK=0, WORLD_SIZE=1, PYTHONPATH=harness.ROOT / "python"))
        self.assertEqual(done.status, 0, done.stderr)
        done = self.draw("--with", kineto)
        written, manifest_line, command = done.stdout.splitlines()
        span, = (one for one in self.read(done, written + "\n")["slices"] if one["name"] == "both see this")
        manifest = json.loads(pathlib.Path(f"{self.file}.manifest.json").read_text())["perfetto_manifest"]
        self.assertEqual((manifest["version"], manifest["files"][0]), (1, {"path": self.file.name}))
        entry = manifest["files"][1]
        self.assertEqual((entry["path"], entry["clocks"]["is"]["file"], entry["clocks"]["is"]["clock"]),
                         ("kineto.json", self.file.name, "REALTIME"))
        theirs, = (event for event in json.loads(kineto.read_text())["traceEvents"]
                   if event["name"] == "both see this" and event["ph"] == "X")
        for moment_us, moment_ns in ((theirs["ts"], span["begin_ns"]),
                                     (theirs["ts"] + theirs["dur"], span["end_ns"])):
            mapped_ns = moment_us * 1000 - entry["clocks"]["ts"] + entry["clocks"]["is"]["ts"]
            self.assertLess(abs(mapped_ns - moment_ns), 20_000_000)
        self.assertIn("1 trace on the same clock", manifest_line)
        packed = subprocess.run(command, shell=True, cwd=self.place.path, capture_output=True, text=True, check=False)
        self.assertEqual(packed.returncode, 0, packed.stderr)
        with tarfile.open(f"{self.file}.tar") as archive:
            self.assertEqual(sorted(archive.getnames()), sorted([self.file.name + ".manifest.json", self.file.name,
                                                                 "kineto.json"]))
        self.assertIn("is no trace of PyTorch's profiler", self.draw("--with", self.file, status=2).stderr)

    def test_what_cannot_be_drawn(self):
        self.train("--ranks", "2", "--steps", "4", TITANTRACE_JOURNAL_MIB=0)
        digest = self.place.path / "job.digest"
        self.place.tool("titan-analyze", "digest", self.place.dumps, "-o", digest)
        self.assertIn("digests do not hold all calls", self.draw(source=digest, status=2).stderr)
        damaged, = self.place.dumps.rglob("rank00001.*.titan")
        damaged.write_bytes(b"no dump" * 100)
        done = self.draw()
        self.assertIn(damaged.name, done.stderr)
        trace = self.read(done)
        self.assertEqual({one["process"].split()[1] for one in trace["slices"]}, {"0"})
        self.assertIn("Is a directory", self.draw(into=".", status=2).stderr)
        link = self.place.path / "link"
        target = self.place.path / "target"
        target.write_text("kept")
        link.symlink_to(target)
        self.draw(into="link")
        self.assertEqual(target.read_text(), "kept")

    @harness.at_night
    def test_a_limit_of_size(self):
        self.train("--ranks", "2", "--steps", "400", "--step-ms", "0", TITANTRACE_COLLECTIVES="65536")
        whole = self.read(self.draw())
        done = self.draw("--limit-mb", "1")
        self.assertIn("left out to stay near 1 MB", done.stderr)
        trace = self.read(done)
        self.assertLess(self.file.stat().st_size, 2 << 20)
        self.assertEqual(max(one["end_ns"] for one in trace["slices"]), max(one["end_ns"] for one in whole["slices"]))
        self.assertGreater(min(one["begin_ns"] for one in trace["slices"]),
                           min(one["begin_ns"] for one in whole["slices"]))


if __name__ == "__main__":
    harness.main()
