#!/usr/bin/env python3
"""titan-dump: dumps on request without a signal, and from outside where a process cannot answer."""

import ctypes
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import sys
import time
import unittest

import harness
import node_jobs
from node_jobs import state_of, stop

DUMP_ANSWERS = 1280  # offsets in the ring's header, from formats/FORMAT.md
PID, START_TICKS = 64, 72
ALL_ANSWERED, FROM_OUTSIDE, UNUSABLE, OTHERS_MISSING = 0, 1, 2, 3


def start_ticks(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


class Dump(node_jobs.NodeCase):
    def titan_dump(self, *arguments, **settings):
        return self.tool("titan-dump", *arguments, **settings)

    def outcomes(self, *arguments):
        done = self.titan_dump(*arguments, "--json")
        return done.status, json.loads(done.stdout)["dumps"], done.stderr

    # --- asking ------------------------------------------------------------------------------------------------------

    def test_only_the_one_that_is_asked_dumps(self):
        ranks = self.lingering_ranks(3)
        done = self.titan_dump(ranks[1].pid)
        self.assertEqual((done.status, done.stdout), (ALL_ANSWERED, f"{self.place.dumps}/e2e/0/rank00001.0.titan\n"),
                         done.stderr)
        self.assertEqual([path.name for path in self.place.dump_files()], ["rank00001.0.titan"])
        self.assertEqual(self.place.analyze(self.place.dumps, "--no-rings").json["run"]["ranks"], [1])
        again = self.titan_dump(ranks[1].pid)
        self.assertEqual(again.stdout, f"{self.place.dumps}/e2e/0/rank00001.1.titan\n",
                         "each question has an answer of its own")

    def test_several_processes(self):
        ranks = self.lingering_ranks(3)
        status, outcomes, stderr = self.outcomes(ranks[0].pid, ranks[2].pid, ranks[2].pid)
        self.assertEqual((status, [o["how"] for o in outcomes]), (ALL_ANSWERED, ["answered"] * 2), stderr)
        self.assertEqual(self.place.dumped_ranks(), {0, 2})

    def test_a_job(self):
        self.hung_job()
        status, outcomes, stderr = self.outcomes("--job", "e2e")
        self.assertEqual((status, [o["how"] for o in outcomes]), (ALL_ANSWERED, ["answered"] * 4), stderr)
        self.assertEqual(sorted(o["path"] for o in outcomes), sorted(map(str, self.place.dump_files())))
        analysis = self.place.analyze(self.place.dumps, "--no-rings")
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]),
                         ("rank_not_arrived", [2]))

    def test_other_jobs_are_not_asked(self):
        self.lingering_ranks(2)
        other = self.place.start_rank("e2e-processes", "linger", 0, 1, TITANTRACE_RUN_ID="another",
                                      E2E_MEET=self.place.tmp)
        other.wait_says("done")
        self.assertEqual(self.titan_dump("--job", "another").status, ALL_ANSWERED)
        self.assertEqual((self.place.dumped_ranks("another"), self.place.dumped_ranks("e2e")), ({0}, set()))
        wrong = self.titan_dump("--job", "e3e")
        self.assertEqual(wrong.status, UNUSABLE)
        self.assertIn("on this node: another, e2e", wrong.stderr)

    def two_nodes(self):
        """Another node here is another ring directory: its ranks share no job segment with ours."""
        rings = [self.place.path / f"node{node}" for node in (0, 1)]
        for ring in rings:
            ring.mkdir()
        ranks = [self.place.start_rank("e2e-processes", "linger", rank, 2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1,
                                       SIMGPU_HOST_INDEX=rank, TITANTRACE_RING_DIR=rings[rank]) for rank in (0, 1)]
        for rank in ranks:
            rank.wait_says("done")
        return ranks, rings

    def test_other_nodes_are_waited_for(self):
        _, rings = self.two_nodes()
        earlier = self.place.dumps / "e2e" / "0" / "rank00001.7.titan"  # is no answer
        earlier.parent.mkdir(parents=True)
        earlier.touch()
        os.utime(earlier, (time.time() - 60,) * 2)
        done = self.titan_dump("--job", "e2e", "--ring-dir", rings[0])
        self.assertEqual((done.status, done.stdout.splitlines()),
                         (ALL_ANSWERED, [f"{self.place.dumps}/e2e/0/rank00000.0.titan",
                                         f"{self.place.dumps}/e2e/0/rank00001.0.titan"]), done.stderr)
        again = self.titan_dump("--job", "e2e", "--ring-dir", rings[0])  # nodes are not asked twice within seconds
        self.assertEqual((again.status, again.stdout.splitlines()[1]), (ALL_ANSWERED, done.stdout.splitlines()[1]),
                         again.stderr)

    def test_ranks_of_other_nodes_that_do_not_answer_are_named(self):
        ranks, rings = self.two_nodes()
        stop(ranks[1].pid)
        done = self.titan_dump("--job", "e2e", "--ring-dir", rings[0], "--nodes-timeout", 3, "--json")
        said = json.loads(done.stdout)
        self.assertEqual((done.status, said["unanswered_ranks"], [o["how"] for o in said["dumps"]]),
                         (OTHERS_MISSING, [1], ["answered"]), done.stderr)
        self.assertIn(f"rank 1 of other nodes did not write to {self.place.dumps}/e2e within 3 s", done.stderr)
        os.kill(ranks[1].pid, signal.SIGCONT)
        stop(ranks[0].pid)
        done = self.titan_dump("--job", "e2e", "--ring-dir", rings[0])
        self.assertEqual(done.status, OTHERS_MISSING, done.stderr)
        self.assertIn("rank 1 of the job's other nodes was not asked", done.stderr)
        os.kill(ranks[0].pid, signal.SIGCONT)

    def test_no_signal_is_sent(self):
        for scenario, setting in (("sigaction-before", "off"), ("plain", "off"), ("sigaction-before", "USR1")):
            with self.subTest(scenario=scenario, setting=setting):
                self.place = self.new_place()
                ran = self.place.start_rank("e2e-signals", scenario, TITANTRACE_SIGNAL=setting)
                ran.wait_says("ready")
                self.assertEqual(self.titan_dump(ran.pid).status, ALL_ANSWERED)
                self.place.go()
                self.assertEqual((ran.wait(), ran.stdout), (0, "ready\nhandled 0\n"))
                self.assertEqual(len(self.place.dump_files()), 1)

    def test_causes_are_not_asked_for(self):
        rank, = self.lingering_ranks(1, TITANTRACE_DUMP_ON="none", TITANTRACE_STACKS="off")
        self.assertEqual(self.titan_dump(rank.pid).status, ALL_ANSWERED)

    def test_where_the_dump_went_instead(self):
        file_in_the_way = self.place.path / "file"
        file_in_the_way.touch()
        rank, = self.lingering_ranks(1, TITANTRACE_DIR=file_in_the_way)
        done = self.titan_dump(rank.pid)
        self.assertEqual(done.status, ALL_ANSWERED, done.stderr)
        self.assertTrue(done.stdout.startswith(str(self.place.tmp)) and os.path.exists(done.stdout.strip()),
                        done.stdout)

    def test_list(self):
        ranks = self.lingering_ranks(2)
        stop(ranks[1].pid)
        processes = {p["pid"]: p for p in json.loads(self.titan_dump("--list", "--json").stdout)["processes"]}
        self.assertEqual([(processes[r.pid]["rank"], processes[r.pid]["state"], processes[r.pid]["answers"])
                          for r in ranks],
                         [(0, "running", True), (1, "stopped", True)])
        text = self.titan_dump("--list").stdout.splitlines()
        self.assertEqual(len(text), 3, text)
        self.assertEqual(self.place.dump_files(), [])

    def test_list_shows_those_that_live(self):
        ranks = self.lingering_ranks(3)
        os.kill(ranks[0].pid, signal.SIGKILL)
        ranks[0].wait()
        pids = lambda done: [int(line.split()[0]) for line in done.stdout.splitlines()[1:]]
        living, everything = self.titan_dump("--list"), self.titan_dump("--list", "--all")
        self.assertEqual(pids(living), [ranks[1].pid, ranks[2].pid])
        self.assertIn("1 process that ended is not shown (--all)", living.stderr)
        self.assertEqual(pids(everything), [ranks[1].pid, ranks[2].pid, ranks[0].pid])
        in_json = [p["pid"] for p in json.loads(self.titan_dump("--list", "--json").stdout)["processes"]]
        self.assertEqual(in_json, pids(everything))

    # --- from outside ------------------------------------------------------------------------------------------------

    def test_stopped(self):
        pids = self.hung_job()
        stop(pids[3])
        status, outcomes, stderr = self.outcomes("--job", "e2e")
        self.assertEqual(status, FROM_OUTSIDE)
        stopped, = [o for o in outcomes if o["how"] != "answered"]
        self.assertEqual((stopped["rank"], stopped["how"], stopped["why"]), (3, "outside", "is stopped"))
        self.assertIn("rank 3", stderr)
        path = pathlib.Path(stopped["path"])
        self.assertEqual((path, path.stat().st_mode & 0o777),
                         (self.place.dumps / "e2e" / "0" / "rank00003.0.titan", 0o600))
        analysis = self.place.analyze(self.place.dumps, "--no-rings")
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"],
                          analysis.json["run"]["missing_ranks"]),
                         ("rank_not_arrived", [2], []))
        threads = {process["rank"]: process for process in self.place.stacks()}[3]
        self.assertEqual({thread["state"] for thread in threads["threads"]}, {"T"})
        self.assertIn("read from outside by titan-dump, as the process is stopped", threads["notes"][0])
        os.kill(pids[3], signal.SIGCONT)
        done = self.titan_dump(pids[3])
        self.assertEqual((done.status, done.stdout), (ALL_ANSWERED, f"{path.parent}/rank00003.1.titan\n"),
                         "and numbers go on")

    def expect_halted(self, words):
        """Of rank 3 of a job that trains: from its ring, and from what titan-dump wrote."""
        newest = lambda: max((call["entered_realtime_ns"] for call in self.place.show(self.place.rings, "--last", 1)),
                             default=0)
        harness.wait_for(lambda: time.time_ns() - newest() > 2e9, 30, "the others wait for it")
        from_ring = self.place.analyze(self.place.rings)
        status, outcomes, stderr = self.outcomes("--job", "e2e")
        self.assertEqual([(o["rank"], o["why"]) for o in outcomes if o["how"] != "answered"], [(3, f"is {words}")],
                         stderr)
        for analysis in (from_ring, self.place.analyze(self.place.dumps, "--no-rings")):
            verdict = analysis.json["verdict"]
            self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_stopped", [3]), analysis.stdout)
            self.assertIn(f" is {words}; ranks 0-2 wait", analysis.json["findings"][0]["summary"])
        report = self.place.tool("titan-analyze", self.place.dumps, "--no-rings")
        self.assertIn("1 read from outside while the process lived", " ".join(report.stdout.split()))

    def training_job(self):
        pids = self.start_job()
        harness.wait_for(lambda: min([*self.steps().values(), 0] if len(self.steps()) < 4 else self.steps().values())
                         > 5, 30, "they train")
        return pids

    def test_held_by_a_debugger(self):
        pids = self.training_job()
        libc = ctypes.CDLL(None, use_errno=True)
        ptrace_attach, ptrace_detach = 16, 17
        if libc.ptrace(ptrace_attach, pids[3], 0, 0) != 0:
            self.skipTest(f"no ptrace here: {os.strerror(ctypes.get_errno())}")
        try:
            harness.wait_for(lambda: state_of(pids[3]) == "t", 10, "it is held")
            self.expect_halted("stopped by a debugger")
        finally:
            libc.ptrace(ptrace_detach, pids[3], 0, 0)

    def test_frozen(self):
        pids = self.training_job()
        for group, switch, on, off in (("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"),
                                       ("/sys/fs/cgroup", "cgroup.freeze", "1", "0"),
                                       ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0")):
            group = pathlib.Path(group) / f"titan-e2e-{os.getpid()}"
            try:
                group.mkdir()
            except OSError as error:
                reason = str(error)
                continue
            if not (group / switch).exists():
                reason = f"{group.parent} has no {switch}"
                group.rmdir()
                continue
            try:
                (group / "cgroup.procs").write_text(str(pids[3]))
                (group / switch).write_text(on)
                self.expect_halted("frozen (cgroup freezer)")
            finally:
                (group / switch).write_text(off)
                (group.parent / "cgroup.procs").write_text(str(pids[3]))
                group.rmdir()
            return
        self.skipTest(f"no control group that freezes can be made here: {reason}")

    def test_python_of_a_stopped_process(self):
        program = self.place.path / "busy.py"
        program.write_text("import ctypes, time\n"
                           "ctypes.CDLL(None).titan_step(7)\n"
                           "def stands_here():\n"
                           "    print('ready', flush=True), time.sleep(1000)\n"  # it may be stopped in either
                           "stands_here()\n")
        ran = self.place.start([sys.executable, program], self.place.env(RANK=0, WORLD_SIZE=1))
        ran.wait_says("ready")
        stop(ran.pid)
        status, (outcome,), stderr = self.outcomes(ran.pid)
        self.assertEqual((status, outcome["how"]), (FROM_OUTSIDE, "outside"), stderr)
        process, = self.place.stacks()
        frames = [(frame["function"], frame["line"]) for frame in process["threads"][0]["python_frames"]]
        if not frames and "missing" in process["python"]:
            self.skipTest(f"this system does not let one process read another: {process['python']}")
        self.assertEqual(frames, [("stands_here", 4), ("<module>", 5)])
        self.assertIn("busy.py:4 in stands_here", outcome["threads"])

    def test_killed(self):
        pids = self.hung_job(TITANTRACE_DUMP_ON="none")
        os.kill(pids[1], signal.SIGKILL)
        harness.wait_for(lambda: not harness.alive(pids[1]), 5, "the rank is gone")
        status, (outcome,), stderr = self.outcomes(pids[1])
        self.assertEqual((status, outcome["how"]), (FROM_OUTSIDE, "outside"), stderr)
        self.assertIn(outcome["state"], ("dead", "zombie"))
        self.assertEqual(self.place.dumped_ranks(), {1})
        self.titan_dump("--job", "e2e")
        analysis = self.place.analyze(self.place.dumps, "--no-rings")
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]), ("rank_dead", [1]))

    def test_saved_by_another_rank(self):
        pids = self.hung_job()
        os.kill(pids[1], signal.SIGKILL)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1, 2, 3}, 15, "the others dump for it")
        # Of a process before it: numbers say nothing of time.
        earlier = self.place.dumps / "e2e" / "0" / "rank00001.7.titan"
        earlier.touch()
        os.utime(earlier, (time.time() - 60,) * 2)
        status, (outcome,), stderr = self.outcomes(pids[1])
        self.assertEqual((status, outcome["how"], outcome["path"]),
                         (FROM_OUTSIDE, "saved_before", f"{self.place.dumps}/e2e/0/rank00001.0.titan"), stderr)

    def test_zombie(self):
        rank, = self.lingering_ranks(1)
        os.kill(rank.pid, signal.SIGKILL)  # and nobody waits for it yet
        harness.wait_for(lambda: state_of(rank.pid) == "Z", 5, "it is a zombie")
        status, (outcome,), stderr = self.outcomes(rank.pid)
        self.assertEqual((status, outcome["how"], outcome["why"], outcome["state"]),
                         (FROM_OUTSIDE, "outside", "is a zombie", "zombie"), stderr)
        self.assertEqual(self.place.dumped_ranks(), {0})

    def test_a_tracer_that_cannot_answer(self):
        """It does not look at requests, or not yet."""
        rank, = self.lingering_ranks(1)
        with open(self.ring_of(rank.pid), "r+b", buffering=0) as ring:
            harness.wait_for(lambda: os.pread(ring.fileno(), 4, DUMP_ANSWERS) == struct.pack("<I", 1), 5, "it answers")
            ring.seek(DUMP_ANSWERS)
            ring.write(struct.pack("<I", 0))
        status, (outcome,), stderr = self.outcomes(rank.pid)
        self.assertEqual((status, outcome["how"]), (FROM_OUTSIDE, "outside"), stderr)
        self.assertIn("only a signal", outcome["why"])
        self.assertEqual(self.place.dumped_ranks(), {0})

    def test_no_answer_in_time(self):
        """A process that lives and whose ring says that it answers: it is another one's ring, with its name."""
        rank, = self.lingering_ranks(1)
        ring = self.ring_of(rank.pid)
        deaf = self.place.start(["sleep", "1000"], self.place.env(preload=False))
        copy = ring.with_name(f"{deaf.pid}-{start_ticks(deaf.pid)}.ring")
        shutil.copy(ring, copy)
        with open(copy, "r+b") as file:
            file.seek(PID)
            file.write(struct.pack("<i", deaf.pid))
            file.seek(START_TICKS)
            file.write(struct.pack("<Q", start_ticks(deaf.pid)))
        done = self.titan_dump(deaf.pid, "--timeout", "1.5")
        self.assertEqual(done.status, FROM_OUTSIDE, done.stderr)
        self.assertIn("did not answer within 1.5 s", done.stderr)
        self.assertIn(f"0 of 1 process has dumped, waiting for rank 0 (pid {deaf.pid})\n", done.stderr)
        self.assertIn("sleep is sleeping", done.stderr)

    def test_another_directory_for_outside_dumps(self):
        rank, = self.lingering_ranks(1)
        stop(rank.pid)
        into = self.place.path / "elsewhere"
        done = self.titan_dump(rank.pid, "--dir", into)
        self.assertEqual((done.status, done.stdout), (FROM_OUTSIDE, f"{into}/e2e/0/rank00000.0.titan\n"), done.stderr)
        self.assertEqual(self.place.dump_files(), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root may look after other users' processes")
    def test_root_acts_as_the_owner(self):
        nobody = 65534
        for path in (self.place.path, self.place.rings, self.place.dumps, self.place.meet):
            path.chmod(0o777)
        try:
            rank = self.place.start([harness.client("e2e-processes"), "linger"], self.place.env(RANK=0, WORLD_SIZE=1),
                                    user=nobody, group=nobody, extra_groups=[])
        except PermissionError:
            self.skipTest("another user may not read the build directory")
        rank.wait_says("done")
        self.assertEqual(self.titan_dump(rank.pid).status, ALL_ANSWERED)
        stop(rank.pid)
        self.assertEqual(self.titan_dump(rank.pid).status, FROM_OUTSIDE)
        owners = [(path.stat().st_uid, path.stat().st_mode & 0o777) for path in self.place.dump_files()]
        self.assertEqual(owners, [(nobody, 0o600)] * 2)
        stranger = self.place.run([harness.BUILD / "tools" / "titan-dump", rank.pid, "--ring-dir", self.place.rings],
                                  self.place.env(preload=False), user=nobody - 1, group=nobody, extra_groups=[])
        self.assertEqual(stranger.status, UNUSABLE)
        self.assertIn("only that user and root may ask it", stranger.stderr)

    # --- refused -----------------------------------------------------------------------------------------------------

    def expect_refusal(self, words, *arguments):
        done = self.titan_dump(*arguments)
        self.assertEqual((done.status, done.stdout), (UNUSABLE, ""))
        self.assertIn(words, done.stderr)

    def test_who_cannot_be_asked(self):
        untraced = self.place.start(["sleep", "1000"], self.place.env(preload=False))
        self.expect_refusal("is not traced", untraced.pid)
        idle = self.place.start([harness.client("e2e-processes"), "nothing"], self.place.env())
        idle.wait_says("done")
        self.expect_refusal("records nothing", idle.pid)
        self.expect_refusal("there is no process", 4194304)
        self.expect_refusal("name processes by PID", )
        self.expect_refusal("name processes by PID", "--job", "e2e", untraced.pid)
        self.expect_refusal("PID", "twelve")

    def test_a_ring_in_private_memory(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        ran = self.place.start([harness.client("e2e-processes"), "linger"], self.place.env(RANK=0, WORLD_SIZE=1),
                               preexec_fn=limit)
        ran.wait_says("done")
        # titan-dump knows a recorder by its thread, which a busy machine may start late.
        harness.wait_for(lambda: "titan-watch" in harness.threads_of(ran.pid), 10, "its thread has started")
        self.expect_refusal(f"kill -USR1 {ran.pid}", ran.pid)

    def test_hostile_job_segment(self):
        rank, = self.lingering_ranks(1)
        page, = self.place.rings.glob("titantrace-*/*.job")
        whole = page.read_bytes()
        link_target = self.place.path / "page"
        link_target.write_bytes(whole)
        cases = {"cut off": lambda: page.write_bytes(whole[:100]),
                 "no job segment": lambda: page.write_bytes(bytes(len(whole))),
                 "a link": lambda: page.symlink_to(link_target), "No such file": lambda: None,
                 "": lambda: page.write_bytes(whole[:64] + b"\xff" * (len(whole) - 64))}
        for words, make in cases.items():
            with self.subTest(words):
                page.unlink(missing_ok=True)  # the rank has its mapping
                make()
                done = self.titan_dump(rank.pid)
                self.assertEqual(done.status, ALL_ANSWERED, done.stderr)
                self.assertIn(words, done.stderr)
        self.assertEqual(link_target.read_bytes(), whole)

    def test_hostile_rings(self):
        rank, = self.lingering_ranks(1)
        ring = self.ring_of(rank.pid)
        directory = ring.parent
        (directory / "1000000-5.ring").write_bytes(b"TITANRNG")
        (directory / "1000001-5.ring").symlink_to(ring)
        os.link(ring, directory / "1000002-5.ring")
        (directory / "1000003-5.ring").write_bytes(os.urandom(9000))
        os.mkfifo(directory / "1000004-5.ring")
        header = bytearray(ring.read_bytes()[:4096])
        header[PID:PID + 4] = struct.pack("<i", 1000005)
        (directory / "1000005-5.ring").write_bytes(header)
        for pid, words in ((1000000, "too short"), (1000001, "link"), (1000002, "alone"), (1000003, "not a ring"),
                           (1000004, "alone"),
                           (1000005, "truncated or damaged")):
            self.expect_refusal(words, pid)
        listed = self.titan_dump("--list", "--all")
        self.assertEqual((listed.status, listed.stderr.count("\n")), (0, 6),
                         listed.stderr)  # and the hard link spoils its twin
        self.assertEqual(self.place.dump_files(), [])
        (directory / "1000002-5.ring").unlink()
        self.assertEqual(self.titan_dump(rank.pid).status, ALL_ANSWERED)

    def test_directory_that_others_can_enter(self):
        rank, = self.lingering_ranks(1)
        stop(rank.pid)
        self.ring_of(rank.pid).parent.chmod(0o755)
        done = self.titan_dump("--list")
        self.assertIn("not a private directory", done.stderr)
        self.assertEqual(self.titan_dump(rank.pid).status, UNUSABLE)
        self.assertEqual(self.place.dump_files(), [])

    def test_help_teaches(self):
        done = self.titan_dump("--help")
        self.assertEqual(done.status, 0)
        for words in ("--job", "examples:", "Exit status", "outside"):
            self.assertIn(words, done.stdout)


if __name__ == "__main__":
    harness.main(at_once=3, rings=harness.SMALL_RINGS)
