#!/usr/bin/env python3
"""The verdict comes by itself: while the job hangs, beside its dumps, by one of all who wait; and each command that is
run for it is run once, and hurts nobody."""

import contextlib
import json
import os
import pathlib
import signal
import stat
import unittest

import harness

LINE = "titan-run: VERDICT on run "
HANG = "spin rank=1 step=40"


class Watched(harness.Case):
    def setUp(self):
        self.told = self.place.path / "told"
        self.tell = f"cat >> {self.told}; echo >> {self.told}.count"

    def titan_run(self, *options, fault=HANG, steps=100000, step_ms=2, sim=(), **settings):
        """Jobs that work on and on need a longer step: each costs milliseconds of a processor."""
        return self.place.start(
            [harness.BUILD / "tools" / "titan-run", *options, "--", harness.stand_ins() / "titan-sim", "--ranks", 4,
             "--tp", 2, "--steps", steps, "--step-ms", step_ms, "--timeout-s", 600, *sim],
            self.place.env(**{"preload": False, "SIMGPU_FAULTS": fault, "TITANTRACE_TIMEOUT_S": 2, **settings}))

    def watch(self, *options, **settings):
        return self.place.start([harness.BUILD / "analyzer" / "titan-analyze", "watch", "--ring-dir", self.place.rings,
                                 *options], self.place.env(preload=False, **settings))

    def attempt(self, number=0, run="e2e"):
        return self.place.dumps / run / str(number)

    def wait_verdict(self, number=0, run="e2e"):
        """The text comes last."""
        text = self.attempt(number, run) / "verdict.txt"
        harness.wait_for(text.exists, 30, "the verdict")
        return json.loads((text.parent / "verdict.json").read_text())

    def wait_told(self, times=1):
        harness.wait_for(lambda: self.count() >= times, 20, f"it is told {times} times")

    def count(self):
        """How often the command of --on-verdict has come to its end."""
        path = pathlib.Path(f"{self.told}.count")
        return len(path.read_text().splitlines()) if path.exists() else 0

    def lines(self, started):
        return [line for line in started.stderr.splitlines() if line.startswith(LINE)]

    def children(self, started):
        """(pid, name) of each that lives."""
        found = []
        for pid in pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
                found.append((int(pid), pathlib.Path(f"/proc/{pid}/comm").read_text().strip()))
        return found

    def wait_trains(self):
        """All ranks are there, and have made steps together."""
        harness.wait_for(lambda: len(self.place.show(self.place.rings, "--rank", "0", starting=True)) > 50, 30,
                         "they train")

    def dump(self, *arguments):
        self.place.run([harness.BUILD / "tools" / "titan-dump", "--ring-dir", self.place.rings, *arguments],
                       self.place.env(preload=False), 60)


class WhileItHangs(Watched):
    def test_one_verdict_beside_the_dumps(self):
        job = self.titan_run("--on-verdict", self.tell)
        verdict = self.wait_verdict()
        self.assertIsNone(job.status, "the job hangs")
        self.assertEqual(verdict["verdict"]["ranks"], [1])
        self.assertTrue(verdict["findings"][0]["hangs"])
        text = (self.attempt() / "verdict.txt").read_text()
        self.assertRegex(text, r"^run e2e attempt 0: 4 of 4 ranks[\s\S]*VERDICT  .*\n.*rank 1 ")
        self.assertIn(f"titan-analyze stacks {self.place.dumps} --run e2e --attempt 0 --rank 1  #", text)
        for name in ("verdict.txt", "verdict.json"):
            self.assertEqual(stat.S_IMODE((self.attempt() / name).stat().st_mode), 0o600)
        self.wait_told()
        self.assertEqual(self.told.read_bytes(), (self.attempt() / "verdict.json").read_bytes())
        # More dumps of the same attempt tell nothing new.
        self.dump("--job", "e2e")
        harness.wait_for(lambda: len(self.place.dump_files()) == 8, 20, "all ranks dump once more")
        job.signal(signal.SIGTERM)
        self.assertNotEqual(job.wait(60), 0)
        line, = self.lines(job)
        self.assertRegex(line, r"run e2e attempt 0: \w+ \(\w+\): rank 1 .*; all of it: .*/e2e/0/verdict\.txt$")
        self.assertEqual(self.count(), 1)
        # What lies beside the dumps is no record of the job.
        self.assertNotIn("verdict.", "".join(
            warning["summary"] for warning in self.place.analyze(self.place.dumps, "--no-rings").json["warnings"]))

    def test_the_mode_of_the_dumps(self):
        """Who may read them may read what they say."""
        job = self.titan_run()
        self.wait_verdict()
        job.end()
        for path in self.attempt().glob("verdict.*"):
            path.unlink()
        for dump in self.place.dump_files():
            dump.chmod(0o640)
        self.assertEqual(self.watch(self.place.dumps, "--once").wait(60), harness.FINDINGS)
        self.assertEqual(stat.S_IMODE((self.attempt() / "verdict.txt").stat().st_mode), 0o640)

    def test_a_rank_that_cannot_dump(self):
        """Its ring tells; nobody waits for its dump for ever."""
        job = self.titan_run(fault="stop rank=1 step=40")
        verdict = self.wait_verdict()
        self.assertEqual((verdict["verdict"]["kind"], verdict["verdict"]["ranks"]), ("rank_stopped", [1]))
        self.assertIsNone(job.status, "the job hangs")

    def test_each_attempt_has_its_own(self):
        def attempt(number):
            job = self.titan_run("--on-verdict", self.tell, TORCHELASTIC_RESTART_COUNT=number)
            harness.wait_for(lambda: self.count() == number + 1, 40, f"the verdict on attempt {number}")
            job.end()
        attempt(0)
        attempt(1)
        self.assertEqual([self.wait_verdict(number)["run"]["attempt"] for number in (0, 1)], [0, 1])

    def test_the_same_attempt_once_more(self):
        """As somebody who starts a job again under the same name: the earlier verdict is kept, and this one comes."""
        for times in (1, 2):
            job = self.titan_run("--on-verdict", self.tell)
            self.wait_told(times)
            job.end()
        names = " ".join(sorted(path.name.replace("verdict.", "") for path in self.attempt().glob("verdict.*")))
        for wanted in (r"\bjson txt$", r"\b(\d+)\.json (\1\.line\.told )\1\.txt\b",
                       r"\b([0-9a-f]{16})\.told\b.*|(.*)\b\d+\.\1\.told\b"):
            self.assertRegex(names, wanted)
        self.assertEqual(len(names.split()), 8, names)  # two verdicts, each .json, .txt, and two receivers
        self.place.tool("titan-analyze", "clean", self.place.dumps, "--run", "e2e", "--yes", "--ring-dir",
                        self.place.rings)
        self.assertEqual(list(self.place.dumps.iterdir()), [])


class WhereNoCauseIsKnown(Watched):
    """A verdict that names none gives way to one that does."""

    UNKNOWN = json.dumps({"one_line": "run e2e attempt 0: cannot tell: as a test says", "findings": []})

    def false_alarm(self, age_s=0):
        """As left by one that came to no end."""
        self.attempt().mkdir(parents=True, exist_ok=True)
        path = self.attempt() / "verdict.json"
        path.write_text(self.UNKNOWN)
        os.utime(path, (path.stat().st_mtime - age_s,) * 2)

    def test_a_false_alarm_and_then_a_hang(self):
        job = self.titan_run("--on-verdict", self.tell, fault="spin rank=1 step=80", step_ms=20)
        # The job has started, and does not hang yet, however busy the machine is.
        harness.wait_for(self.place.ring_files, 30, "a ring")
        self.false_alarm()
        self.wait_told()
        self.assertEqual(self.wait_verdict()["verdict"]["ranks"], [1])
        self.assertEqual(json.loads(self.told.read_text())["status"], "verdict")
        job.end()
        self.assertEqual((self.count(), len(self.lines(job))), (1, 1), job.stderr)

    def test_a_job_that_fails_without_one(self):
        """The line comes at once, the command when the job has ended."""
        job = self.titan_run("--on-verdict", self.tell, fault="", step_ms=20, TITANTRACE_TIMEOUT_S=60)
        self.wait_trains()
        self.false_alarm(age_s=-3600)  # about dumps that come
        self.dump("--job", "e2e")
        harness.wait_for(lambda: self.lines(job), 30, "the line")
        self.assertIn("cannot tell: as a test says; all of it: ", self.lines(job)[0])
        self.assertEqual(self.count(), 0)
        job.signal(signal.SIGTERM)
        job.wait(60)
        self.assertEqual((self.count(), self.told.read_text()), (1, self.UNKNOWN))


class Commands(Watched):
    def ended(self, job):
        """After the verdict: it hurts neither the job nor its end."""
        self.wait_verdict()
        self.assertIsNone(job.status, "the job hangs as before")
        job.signal(signal.SIGTERM)
        return job.wait(60)

    def test_one_that_fails(self):
        status = self.ended(self.titan_run())
        job = self.titan_run("--run", "failing", "--on-verdict", "echo it says >&2; exit 3")
        harness.wait_for(lambda: "it says" in job.stderr, 40, "the command runs")
        harness.wait_for(lambda: "titan-run: the command of --on-verdict ended with status 3\n" in job.stderr, 20,
                         "its failure is said")
        job.signal(signal.SIGTERM)
        self.assertEqual(job.wait(60), status)

    @harness.at_night
    def test_one_that_hangs(self):
        pid = self.place.path / "pid"
        job = self.titan_run("--on-verdict", f"echo $$ > {pid}; while :; do sleep 0.1; done")
        self.assertNotEqual(self.ended(job), 0)
        harness.wait_for(pid.exists, 20, "the command ran")
        harness.wait_for(lambda: not harness.alive(int(pid.read_text())), 60, "it is ended")

    def test_a_job_that_ends_well(self):
        """Nobody is told, even where somebody has asked for dumps."""
        job = self.titan_run("--on-verdict", self.tell, fault="", steps=500, step_ms=20, TITANTRACE_TIMEOUT_S=60)
        self.wait_trains()
        self.dump("--job", "e2e")
        self.assertEqual(len(self.place.dump_files()), 4)
        self.assertEqual(job.wait(60), 0, job.stderr)
        self.assertEqual((self.lines(job), self.count(), list(self.attempt().glob("verdict.*"))), ([], 0, []))

    def test_a_rank_that_dies(self):
        """The job is over at once: the command has run when titan-run ends."""
        job = self.titan_run("--on-verdict", self.tell, fault="kill rank=2 step=40", sim=["--fail-fast"])
        self.assertNotEqual(job.wait(60), 0)
        self.assertEqual(self.wait_verdict()["verdict"]["kind"], "rank_dead")
        self.assertEqual((self.count(), len(self.lines(job))), (1, 1), job.stderr)

    def test_off(self):
        job = self.titan_run("--no-verdict", "--on-verdict", self.tell)
        harness.wait_for(lambda: len(self.place.dumped_ranks()) == 4, 40, "all ranks dump")
        names = {name for _, name in self.children(job)}
        self.assertIn("titan-sim", names)
        self.assertNotIn("titan-analyze", names)
        job.end()
        self.assertEqual((self.count(), list(self.attempt().glob("verdict.*"))), (0, []))


class Several(Watched):
    def test_two_jobs_in_one_directory(self):
        """Each titan-run speaks of its own job alone."""
        # On a busy machine communicators take their time to be created: longer than that is a hang of its own.
        runs = {run: self.titan_run("--run", run, "--on-verdict", f"cat > {self.told}.{run}", fault=fault,
                                    step_ms=20, TITANTRACE_TIMEOUT_S=6)
                for run, fault in (("hangs", HANG), ("works", ""))}
        self.wait_verdict(run="hangs")
        harness.wait_for(pathlib.Path(f"{self.told}.hangs").exists, 20, "it is told")
        self.assertEqual([len(self.lines(runs[run])) for run in ("hangs", "works")], [1, 0])
        # Dumps that it was asked for are of its own, and no hang.
        self.dump("--job", "works")
        self.assertEqual(len(self.place.dump_files("works")), 4)
        runs["works"].signal(signal.SIGTERM)
        runs["works"].wait(60)
        self.assertFalse(pathlib.Path(f"{self.told}.works").exists())

    def test_two_commands(self):
        """Of the job and of the cluster: each is run once, and each log has its line."""
        watch = self.watch(self.place.dumps, "--once", "--on-verdict", f"cat > {self.told}.cluster")
        job = self.titan_run("--on-verdict", self.tell)
        self.wait_told()
        self.assertEqual(watch.wait(60), harness.FINDINGS, watch.stderr)
        harness.wait_for(lambda: self.lines(job), 20, "the job's log has its line")
        late = self.watch(self.place.dumps, "--once", "--on-verdict", self.tell)
        self.assertEqual(late.wait(60), harness.FINDINGS, late.stderr)
        job.end()
        self.assertEqual(pathlib.Path(f"{self.told}.cluster").read_text(), self.told.read_text())
        self.assertEqual(self.count(), 1)
        self.assertEqual([len(self.lines(job)), *(one.stdout.count("VERDICT on run e2e") for one in (watch, late))],
                         [1, 1, 1])

    @harness.at_night
    def test_many_who_wait_for_the_same(self):
        """As on several nodes: one writes, and one command runs; also where the first has none to run."""
        watches = [self.watch(self.place.dumps, "--on-verdict", self.tell) for _ in range(3)]
        job = self.titan_run()
        self.wait_told()
        self.wait_verdict()
        job.end()
        harness.wait_for(lambda: not list(self.attempt().glob(".verdict.*")), 20, "nobody writes any more")
        said = lambda: [watch.stdout.count("VERDICT on run e2e") for watch in watches]
        harness.wait_for(lambda: said() == [1, 1, 1], 20, "each has its line")
        for watch in watches:
            watch.end()
        self.assertEqual((self.count(), said(), len(self.lines(job))), (1, [1, 1, 1], 1))

    @harness.at_night
    def test_another_node_takes_the_place_of_the_first(self):
        """Each node's titan-run starts its own rank; the first one's loses what watches for it."""
        nodes = [self.place.start(
            [harness.BUILD / "tools" / "titan-run", "--on-verdict", f"echo {rank}; {self.tell}", "--", "env",
             f"LOCAL_RANK={rank}", harness.client("e2e-pairs"), "no-receive"],
            self.place.env(preload=False, TITANTRACE_TIMEOUT_S=2, RANK=rank, WORLD_SIZE=2, LOCAL_WORLD_SIZE=1))
                 for rank in (0, 1)]
        watch, = harness.wait_for(lambda: [pid for pid, name in self.children(nodes[0]) if name == "titan-analyze"], 20,
                                  "the first watches")
        os.kill(watch, signal.SIGKILL)
        self.wait_told()
        self.assertEqual(self.wait_verdict()["verdict"]["ranks"], [1])
        self.assertEqual([len(self.lines(node)) for node in nodes], [0, 1])
        self.assertIn("\n1\n", nodes[1].stderr)

    def test_a_bare_preload(self):
        """titan-analyze watch waits for a directory that is not there yet."""
        dumps = self.place.path / "not" / "yet"
        watch = self.watch(dumps, "--once", "--json", "--on-verdict", self.tell)
        sim = [harness.stand_ins() / "titan-sim", "--ranks", 4, "--tp", 2, "--steps", 100000, "--step-ms", 2,
               "--timeout-s", 600]
        job = self.place.start(sim, self.place.env(SIMGPU_FAULTS=HANG, TITANTRACE_TIMEOUT_S=2, TITANTRACE_DIR=dumps))
        self.assertEqual(watch.wait(60), harness.FINDINGS, watch.stderr)
        self.assertIsNone(job.status, "the job hangs")
        self.assertEqual(json.loads(watch.stdout), json.loads((dumps / "e2e" / "0" / "verdict.json").read_text()))
        self.assertEqual(self.count(), 1)

    def test_links_are_not_followed(self):
        job = self.titan_run()
        self.wait_verdict()
        job.end()
        other = self.place.path / "other"
        other.write_text("of somebody else\n")
        for name in ("verdict.json", "verdict.txt"):
            (self.attempt() / name).unlink()
            (self.attempt() / name).symlink_to(other)
        watch = self.watch(self.place.dumps, "--once", "--on-verdict", self.tell)
        self.assertEqual(watch.wait(60), harness.FINDINGS)
        self.assertIn("the verdict cannot be written to ", watch.stderr)
        self.assertEqual((other.read_text(), self.count()), ("of somebody else\n", 0))


if __name__ == "__main__":
    harness.main(at_once=4, rings=harness.SMALL_RINGS)
