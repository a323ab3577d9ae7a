#!/usr/bin/env python3
"""titan-top: who waits for whom, read from rings that it leaves as they are; on a terminal and without one."""

import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import sys
import termios
import time

import harness
import node_jobs

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
ANSWERED, UNUSABLE = 0, 2


class OnTerminal:
    """The program with a terminal of its own as its controlling one."""

    def __init__(self, argv, env, lines=40, columns=120):
        self.said = ""
        may_start, start = os.pipe()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.read(may_start, 1)
            os.execve(argv[0], argv, env)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(self.terminal)
        os.write(start, b"x")
        os.close(start)
        os.close(may_start)

    def read(self, wait_s=0.05):
        while select.select([self.terminal], [], [], wait_s)[0]:
            try:
                got = os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:  # how Linux tells that the other side is closed
                return
            self.said += got

    def wait_says(self, text, limit_s=10):
        def says():
            self.read()
            return text in self.said
        harness.wait_for(says, limit_s, f"'{text}' on the terminal; it said {self.said[-500:]!r}")

    def type(self, keys):
        os.write(self.terminal, keys)

    def end(self):
        """Exit status and the terminal's settings afterwards."""
        deadline = time.monotonic() + 10 * harness.SLOW * harness.PATIENCE
        while time.monotonic() < deadline:
            self.read()
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.read()
                return os.waitstatus_to_exitcode(status), termios.tcgetattr(self.terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("titan-top does not leave")


class Top(node_jobs.NodeCase):
    def titan_top(self, *arguments):
        return self.tool("titan-top", *arguments)

    def pages(self, *arguments):
        done = self.titan_top("--json", *arguments)
        self.assertEqual(done.status, ANSWERED, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def job(self, *arguments):
        page, = self.pages("--once", *arguments)
        job, = page["jobs"]
        return job, {row["rank"]: row for row in job["ranks"]}

    def on_terminal(self, *arguments, **size):
        return OnTerminal(self.command(*arguments), self.place.env(preload=False, TERM="xterm"), **size)

    def command(self, *arguments):
        return [str(word)
                for word in (harness.BUILD / "tools" / "titan-top", "--ring-dir", self.place.rings, *arguments)]

    # --- what it shows -----------------------------------------------------------------------------------------------

    def test_names_the_rank_that_has_not_arrived(self):
        self.hung_job()  # rank 2 is member 1 of dp with rank 0, and of tp with rank 3
        job, ranks = self.job()
        self.assertEqual((job["run"], job["attempt"], job["world_size"], sorted(ranks)), ("e2e", 0, 4, [0, 1, 2, 3]))
        for rank in ranks.values():
            self.assertEqual((rank["state"], rank["step"]), ("running", 5))
            self.assertLess(rank["heartbeat_age_ns"], 5e9)
        self.assertEqual((ranks[2]["doing"], ranks[2]["waits_for"]), ("in program code", []))
        self.assertGreater(ranks[2]["doing_ns"], 1e9)
        waited = [call for call in job["calls"] if call["missing"]]
        self.assertEqual({tuple(call["missing"]) for call in waited}, {(2,)})
        self.assertTrue(all(call["pending_ns"] > 1e9 and 2 not in call["arrived"] for call in waited), waited)
        self.assertEqual({rank for call in waited for rank in call["arrived"]} & {0, 3}, {0, 3}, waited)
        self.assertEqual((ranks[3]["doing"], ranks[3]["waits_for"]), ("inside cudaStreamSynchronize", [2]))
        self.assertEqual(job["calls"][0]["pending_ns"], max(call["pending_ns"] or 0 for call in job["calls"]))
        text = self.titan_top().stdout
        self.assertRegex(text, r" 3 +\d+  running +5 +[0-9.]+  rank 2 +inside cudaStreamSynchronize for")
        self.assertRegex(text, r"all_reduce #\d+ on tp +missing: rank 2; arrived: rank 3")
        self.assertEqual(job["conclusion"]["ranks"], [2])
        self.assertRegex(job["conclusion"]["text"],
                         r"^rank 2: in program code for [0-9.]+ s.*; [23] ranks wait for it, ")
        self.assertRegex(text, r"^rank 2: in program code for .*\nrun e2e attempt 0 on ")

    def test_the_dumps_of_a_hang(self):
        """The verdict first, and the ranks as they were then; also when nobody lives any more."""
        pids = self.hung_job()
        self.tool("titan-dump", "--job", "e2e")
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        top = self.titan_top(self.place.dumps)
        self.assertRegex(top.stdout, r"^rank_not_arrived \((certain|likely)\): rank 2 .*\n"
                                     r"run e2e attempt 0 as recorded on ")
        self.assertRegex(top.stdout, r"\n +3 +\d+  running +5 .*  rank 2 .* inside cudaStreamSynchronize for ")
        job, ranks = self.job(self.place.dumps)
        self.assertEqual((job["ended"], job["conclusion"]["ranks"], ranks[3]["waits_for"]), (False, [2], [2]))

    def test_a_metric_that_is_no_number(self):
        """In one step of one rank, and the job goes on."""
        program = ("import time, titantrace\n"
                   "for step in range(100000):\n"
                   "    titantrace.step(step)\n"
                   "    titantrace.metric('loss', float('nan') if step == 3 else 2.0)\n"
                   "    time.sleep(0.5 if step > 5 else 0)\n")
        self.place.start([sys.executable, "-c", program],
                         self.place.env(RANK=0, WORLD_SIZE=1, PYTHONPATH=harness.ROOT / "python"))
        harness.wait_for(lambda: self.steps().get(0, 0) > 5, 20, "it steps")
        job, ranks = self.job()
        self.assertEqual((ranks[0]["metric_not_finite"], job["conclusion"]["alert"]), ("loss", "look"))
        self.assertRegex(self.titan_top().stdout, r"^metric loss is not finite on rank 0; step \d+")
        self.assertIn("metrics not finite: loss, rank 0, step 3", self.place.analyze(self.place.rings).stdout)

    def test_a_stopped_rank(self):
        """All wait for it, most of them for others that wait: only it is named."""
        pids = self.start_job(ranks=4)
        harness.wait_for(lambda: len(self.steps()) == 4 and min(self.steps().values()) > 5, 20, "they step")
        self.assertEqual(self.job()[0]["conclusion"]["ranks"], [])
        node_jobs.stop(pids[1])
        # A rank that all have come to, on GPUs that stopped with the process, waits for nobody.
        waits = re.compile(r"^rank 1: stopped; [23] ranks wait for it, ")
        harness.wait_for(lambda: waits.search(self.job()[0]["conclusion"]["text"]), 20, "the others wait")
        conclusion = self.job()[0]["conclusion"]
        self.assertEqual((conclusion["alert"], conclusion["ranks"]), ("alarm", [1]))
        self.assertRegex(self.titan_top().stdout, r"(?m)^ +1 +\d+  stopped ")

    def test_creation(self):
        pids = self.start_job(SIMGPU_FAULTS="no-init rank=3 comm=dp")
        self.assertEqual(len(pids), 4)

        def waits():
            page, = self.pages("--once") if len(self.steps()) == 4 else ({"jobs": []},)
            calls = [call for job in page["jobs"] for call in job["calls"] if call["operation"] == "comm_init"]
            # On a busy machine that of all four ranks takes a while, too.
            return [call for call in calls if call["size"] == 2 and call["pending_ns"] and call["pending_ns"] > 2e8]
        call, = harness.wait_for(waits, 20, "a creation that is not complete")
        self.assertIn("comm_init of", call["what"])
        self.assertEqual(call["arrived"], [1])

    def test_a_job_that_runs(self):
        self.start_job("--step-ms", "20")
        harness.wait_for(lambda: len(self.steps()) == 4 and min(self.steps().values()) > 10, 20, "some steps")

        def moved():
            """Three pages in which each rank made steps, however slowly."""
            pages = self.pages("--count", 3, "--interval", 0.5)
            seen = [[row["step"] for row in page["jobs"][0]["ranks"]] for page in pages]
            return pages if all(before < between < after for before, between, after in zip(*seen)) else None
        pages = harness.wait_for(moved, 20, "all ranks make steps")
        for row in pages[2]["jobs"][0]["ranks"]:
            self.assertGreater(row["steps_per_s"], 0)
            self.assertLess(row["steps_per_s"], 50, "a step takes 20 ms")
        self.assertGreater(pages[2]["realtime_ns"] - pages[0]["realtime_ns"], 0.9e9)
        self.assertEqual({call["communicator"] for call in pages[0]["jobs"][0]["calls"]} & {"dp", "tp", "world"},
                         {"dp", "tp", "world"})

    def test_spans(self):
        rank = self.place.start_rank("e2e-processes", "in-a-span")
        rank.wait_says("done")
        _, ranks = self.job()
        self.assertEqual([ranks[0][key] for key in ("state", "doing", "step", "span")],
                         ["running", "in program code", 3, "load batch"])
        self.assertIn("in program code, span load batch", self.titan_top().stdout)

    def test_processes_that_do_not_run(self):
        ranks = self.lingering_ranks(4, TITANTRACE_DUMP_ON="none")
        node_jobs.stop(ranks[0].pid)
        os.kill(ranks[1].pid, signal.SIGKILL)
        harness.wait_for(lambda: node_jobs.state_of(ranks[1].pid) == "Z", 5, "it is a zombie")
        os.kill(ranks[2].pid, signal.SIGKILL)
        ranks[2].wait()
        _, rows = self.job()
        self.assertEqual([rows[rank]["state"] for rank in range(4)], ["stopped", "zombie", "dead", "running"])
        for rank in (0, 3):
            os.kill(ranks[rank].pid, signal.SIGKILL)
            ranks[rank].wait()
        self.assertEqual(self.titan_top().status, UNUSABLE, "nobody lives")
        self.assertEqual([row["state"] for row in self.job("--dead")[0]["ranks"]][0], "dead")

    def test_only_one_job(self):
        self.lingering_ranks(2)
        other = self.place.start_rank("e2e-processes", "linger", 0, 1, TITANTRACE_RUN_ID="another",
                                      E2E_MEET=self.place.tmp)
        other.wait_says("done")
        self.assertEqual([job["run"] for job in self.pages("--once")[0]["jobs"]], ["another", "e2e"])
        self.assertEqual(self.job("--job", "another")[0]["run"], "another")
        wrong = self.titan_top("--job", "e3e")
        self.assertEqual(wrong.status, UNUSABLE)
        self.assertIn("no traced process of that run", wrong.stderr)

    # --- how it looks ------------------------------------------------------------------------------------------------

    def test_leaves_everything_as_it_is(self):
        ranks = self.lingering_ranks(3)
        for rank in ranks:
            node_jobs.stop(rank.pid)
        state = lambda: {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns,
                                     path.stat().st_ctime_ns,
                                     path.stat().st_blocks) for path in self.place.rings.rglob("*") if path.is_file()}
        before = state()
        self.assertEqual(len(before), 4, "three rings and a job segment")
        self.pages("--count", 3, "--interval", 0.1)
        self.assertEqual(state(), before)
        self.assertEqual(self.place.dump_files(), [])

    def test_hostile_rings(self):
        rank, = self.lingering_ranks(1)
        ring = self.ring_of(rank.pid)
        whole = ring.read_bytes()
        for number, content in enumerate((whole[:5000], os.urandom(200_000), b"",
                                          whole[:4096] + os.urandom(len(whole) - 4096))):
            (ring.parent / f"{1000000 + number}-5.ring").write_bytes(content)
        (ring.parent / "1000009-5.ring").symlink_to(ring)
        page, = self.pages("--once")
        self.assertEqual(len(page["problems"]), 4, page["problems"])
        self.assertIn(rank.pid, [row["pid"] for row in page["jobs"][0]["ranks"]])

    # --- a terminal --------------------------------------------------------------------------------------------------

    def test_on_a_terminal(self):
        self.hung_job()
        for leave in (lambda top: top.type(b"q"), lambda top: top.type(b"\x03"),
                      lambda top: os.kill(top.pid, signal.SIGTERM)):
            top = self.on_terminal("--interval", 0.2)
            top.wait_says("missing: rank 2")
            self.assertTrue(top.said.startswith(ENTER), top.said[:40])
            self.assertNotEqual(termios.tcgetattr(top.terminal)[3], top.before[3], "keys come one by one")
            pages = top.said.count("\x1b[H")
            harness.wait_for(lambda: top.read() or top.said.count("\x1b[H") >= pages + 3, 10, "it is drawn anew")
            leave(top)
            status, after = top.end()
            self.assertEqual((status, after), (0, top.before))
            self.assertEqual(top.said.count(ENTER), 1)
            self.assertTrue(top.said.endswith(LEAVE), top.said[-40:])

    def page_of(self, lines, columns):
        """The lines of one page, as a window of that size shows them, and their colours."""
        top = self.on_terminal("--interval", 0.2, "--count", 2, lines=lines, columns=columns)
        status, _ = top.end()
        self.assertEqual(status, 0)
        page = top.said.split("\x1b[H")[-1].split("\x1b[J")[0].replace("\x1b[K", "")
        painted = page.rstrip("\r\n").split("\r\n")
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in painted]
        self.assertLessEqual(len(plain), lines)
        self.assertTrue(all(len(line) <= columns for line in plain), plain)
        return plain, painted

    def test_windows(self):
        """Whatever the size: the rank to look at is in it, first and in red."""
        self.hung_job()
        for lines, columns in ((24, 80), (12, 60), (8, 40), (5, 20), (2, 20), (40, 200)):
            with self.subTest(f"{columns}x{lines}"):
                plain, painted = self.page_of(lines, columns)
                self.assertTrue(plain[0].startswith("rank 2: in progra"), plain)
                self.assertRegex(painted[0], r"^\x1b\[1;3[13]m")
                if lines >= 8:
                    row = next(line for line in painted if re.match(r"\x1b\[1;3[13]m +2 ", line))
                    self.assertIn("in program code", row if columns >= 60 else row + "in program code")
                if columns >= 60:
                    self.assertTrue(any("missing: rank 2" in line for line in plain), plain)
                    self.assertTrue(any("inside cudaStreamSynchronize for" in line for line in plain), plain)
        self.assertTrue(any("more" in line for line in self.page_of(6, 40)[0]))

    def test_several_runs_in_a_small_window(self):
        """Each has its line, the one that hangs first."""
        other = self.place.start_rank("e2e-processes", "linger", 0, 1, TITANTRACE_RUN_ID="a-run-that-works")
        other.wait_says("done")
        self.hung_job()
        plain, _ = self.page_of(12, 60)
        self.assertTrue(plain[0].startswith("rank 2: in program code"), plain)
        self.assertTrue(plain[-1].startswith("run a-run-that-works attempt 0 on "), plain)

    def test_stopped_by_the_shell(self):
        self.hung_job()
        command = shlex.join(self.command("--interval", "0.2"))
        line = f"{command}; until [ -e {self.place.meet}/go ]; do sleep 0.05; done; fg > /dev/null; echo left with $?"
        top = OnTerminal([shutil.which("bash"), "-mc", line], self.place.env(preload=False, TERM="xterm"))
        top.wait_says("missing: rank 2")
        top.type(b"\x1a")
        top.wait_says(LEAVE)
        harness.wait_for(lambda: termios.tcgetattr(top.terminal)[3] == top.before[3], 10, "the terminal is as before")
        self.assertEqual(top.said.count(ENTER), 1)
        self.place.go()
        harness.wait_for(lambda: top.read() or top.said.count(ENTER) == 2, 10, "it comes back")
        pages = top.said.count("\x1b[H")
        harness.wait_for(lambda: top.read() or top.said.count("\x1b[H") >= pages + 2, 10, "it is drawn anew")
        top.type(b"q")
        top.wait_says("left with 0")
        self.assertEqual(top.end(), (0, top.before))

    def test_arguments(self):
        self.assertEqual(self.titan_top("--interval", "never").status, UNUSABLE)
        empty = self.titan_top()
        self.assertEqual((empty.status, empty.stdout.count("no traced process")), (UNUSABLE, 1))
        done = self.titan_top("--help")
        for words in ("--once", "examples:", "Exit status"):
            self.assertIn(words, done.stdout)


if __name__ == "__main__":
    harness.main(at_once=3, rings=harness.SMALL_RINGS)
