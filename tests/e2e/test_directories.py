#!/usr/bin/env python3
"""Directories that are full, read-only, files, links or somebody else's: the job is unharmed and says where things
went."""

import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import time
import unittest

import harness

ROOT_NEEDED = "needs root: a small tmpfs is mounted, files are given away"
is_root = os.geteuid() == 0


@contextlib.contextmanager
def tmpfs(directory, size):
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "titan-e2e", str(directory)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise unittest.SkipTest(f"cannot mount a tmpfs: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=False)


class Case(harness.Case):
    def fallback_dumps(self):
        return sorted(self.place.tmp.glob("titantrace-*/e2e/0/*.titan"))

    def expect_fallback(self, run):
        self.assertEqual((run.status, run.stdout), (0, "dump 0\n"))
        self.assertEqual(len(self.fallback_dumps()), 1)
        self.assertIn(str(self.place.tmp), run.stderr, "it says where the dump went")
        self.assertEqual(self.place.analyze(self.fallback_dumps()[0]).status, harness.HEALTHY)


class DumpDirectory(Case):
    def test_below_a_file(self):
        (self.place.path / "file").write_text("")
        self.expect_fallback(self.place.run_rank("e2e-processes", "dump-by-hand",
                                                 TITANTRACE_DIR=self.place.path / "file" / "x"))

    def test_read_only(self):
        """On proc nobody may create a directory, not even root."""
        self.expect_fallback(self.place.run_rank("e2e-processes", "dump-by-hand", TITANTRACE_DIR="/proc/titan-e2e"))

    def test_a_name_that_a_terminal_would_act_on(self):
        """The message says the path, and does nothing to who reads it."""
        hostile = self.place.path / "du\x1b[31m\u202emps\u200b"
        run = self.place.run_rank("e2e-processes", "dump-by-hand", TITANTRACE_DIR=hostile)
        self.assertEqual((run.status, run.stdout), (0, "dump 0\n"))
        self.assertTrue(list(hostile.rglob("*.titan")))
        self.assertIn("/du?[31m?mps?/", run.stderr)
        self.assertTrue(run.stderr.replace("\n", "").isprintable(), run.stderr)

    def test_nowhere_to_go(self):
        run = self.place.run_rank("e2e-processes", "dump-by-hand", TITANTRACE_DIR="/proc/titan-e2e",
                                  TMPDIR="/proc/titan-e2e-too")
        fallen = pathlib.Path(f"/tmp/titantrace-{os.geteuid()}/e2e")
        self.assertEqual((run.status, run.stdout), (0, "dump -1\n"), fallen)
        self.assertIn("/proc/titan-e2e", run.stderr)

    def test_dangling_link_to_a_dump_is_not_followed(self):
        """Somebody guessed the temporary name."""
        run = self.place.start_rank("e2e-processes", "linger")
        run.wait_says("done")
        directory = self.place.dumps / "e2e" / "0"
        directory.mkdir(parents=True)
        bait = self.place.path / "bait"
        (directory / f".rank00000.titan.{run.pid}.tmp").symlink_to(bait)
        (directory / "rank00000.0.titan").symlink_to(bait)
        run.signal(signal.SIGUSR1)
        harness.wait_for(lambda: [path for path in self.place.dump_files() if path.is_file()], 10, "a dump")
        self.assertFalse(bait.exists())
        self.place.go()
        self.assertEqual(run.wait(), 0)


class RingDirectory(Case):
    def private(self):
        return self.place.rings / f"titantrace-{os.geteuid()}"

    def expect_unharmed(self, words, **settings):
        """The job runs, the rings lie elsewhere, and it is said once. Its name is its own: ranks of any other test that
        bears it would join the job that they find in /tmp."""
        name = f"in-tmp-{os.getpid()}"
        run = self.place.start_rank("e2e-processes", "linger", TITANTRACE_RUN_ID=name, **settings)
        run.wait_says("done")
        lines = [line for line in run.stderr.splitlines() if words in line]
        self.assertEqual(len(lines), 1, run.stderr)
        self.assertEqual([line for line in run.stderr.splitlines() if not line.startswith("titantrace: ")], [])
        run.signal(signal.SIGUSR1)
        harness.wait_for(lambda: self.place.dump_files(name), 10, "dumps work nevertheless")
        self.place.go()
        self.assertEqual(run.wait(), 0)
        in_tmp = pathlib.Path(f"/tmp/titantrace-{os.geteuid()}")
        ring, = in_tmp.glob(f"{run.pid}-*.ring")
        for left in (ring, *in_tmp.glob(f"{name}.0.*.job")):
            left.unlink()

    @unittest.skipUnless(is_root, ROOT_NEEDED)
    def test_of_another_user(self):
        self.private().mkdir(mode=0o700)
        os.chown(self.private(), 12345, 12345)
        self.expect_unharmed(str(self.private()))
        self.assertEqual(list(self.private().iterdir()), [])

    def test_missing(self):
        self.expect_unharmed("is not used", TITANTRACE_RING_DIR=self.place.path / "nowhere")

    def test_stale_rings_of_dead_processes_survive_until_they_are_old(self):
        """A ring of a killed rank is evidence: the next start must not remove it."""
        run = self.place.start_rank("e2e-processes", "linger")
        run.wait_says("done")
        run.signal(signal.SIGKILL)
        run.wait()
        killed = self.place.ring_files()
        self.place.run_rank("e2e-nccl-use", "healthy", TITANTRACE_RUN_ID="next")
        self.assertEqual(self.place.ring_files(), killed)


class Clean(harness.Case):
    """titan-analyze clean."""

    def clean(self, *arguments, status=harness.HEALTHY):
        done = self.place.tool("titan-analyze", "clean", *arguments, "--ring-dir", self.place.rings)
        self.assertEqual(done.status, status, done.stderr)
        return done

    def left(self):
        return sorted(str(path.relative_to(self.place.dumps)) for path in self.place.dumps.rglob("*") if path.is_file())

    def dump(self, run):
        self.place.run_rank("e2e-processes", "dump-by-hand", TITANTRACE_RUN_ID=run)

    def grow_old(self, run, days):
        then = time.time() - days * 86400
        for path in (self.place.dumps / run).rglob("*.titan"):
            os.utime(path, (then, then))

    def test_by_age(self):
        for run in ("old", "new"):
            self.dump(run)
        self.grow_old("old", 8)
        of_a_user = self.place.dumps / "new" / "notes.txt"
        of_a_user.write_text("mine\n")
        everything = self.left()
        self.assertIn("old/README", everything)
        told = self.clean(self.place.dumps, "--older-than", 7, "--dry-run").stdout
        self.assertEqual(self.left(), everything)
        self.assertRegex(told, r"old/0/rank00000.0.titan\nwould remove 1 file, ")
        self.clean(self.place.dumps, "--older-than", 7)
        self.assertEqual(self.left(), [path for path in everything if path.startswith("new/")])
        self.assertFalse((self.place.dumps / "old").exists())
        self.clean(self.place.dumps, "--run", "new", "--yes")
        self.assertEqual(self.left(), ["new/README", "new/notes.txt"])

    def test_what_lives_stays(self):
        living, dead = self.place.start_ranks("e2e-processes", "linger", 2)
        for rank in (living, dead):
            rank.wait_says("done")
        dead.signal(signal.SIGKILL)
        dead.wait()
        self.place.tool("titan-dump", "--job", "e2e", "--ring-dir", self.place.rings)
        harness.wait_for(lambda: self.place.dumped_ranks() == {0, 1}, 20, "both have dumps")
        dumps = self.left()
        self.clean(self.place.dumps, "--older-than", 0, "--yes")
        self.assertEqual(self.left(), dumps)
        self.assertEqual([path.name.split("-")[0] for path in self.place.ring_files()], [str(living.pid)])

    def test_files_of_others_with_our_ending_stay(self):
        self.dump("mine")
        theirs = [self.place.dumps / "mine" / "0" / "model.titan", self.place.dumps / "step100" / "notes.titan"]
        for path in theirs:
            path.parent.mkdir(exist_ok=True)
            path.write_text("weights\n")
        self.clean(self.place.dumps, "--older-than", 0, "--no-rings")
        self.assertEqual(self.left(), ["mine/0/model.titan", "mine/README", "step100/notes.titan"])

    def test_rings_go_with_dumps_only_where_that_is_said(self):
        """The ring of a killed rank is the evidence of somebody who may not know of this clean."""
        self.dump("old")
        killed = self.place.start_rank("e2e-processes", "linger", TITANTRACE_RUN_ID="killed")
        killed.wait_says("done")
        killed.signal(signal.SIGKILL)
        killed.wait()
        before = (self.left(), len(self.place.ring_files()))
        done = self.clean(self.place.dumps, "--older-than", 0, status=harness.UNUSABLE)
        self.assertIn("nothing removed: 2 rings, ", done.stderr)
        self.assertIn("--yes", done.stderr)
        for refusal in ("\n", "n\n", ""):
            self.assertEqual(self.answered(refusal), harness.UNUSABLE)
        self.assertEqual((self.left(), len(self.place.ring_files())), before)
        self.assertEqual(self.answered("y\n"), harness.HEALTHY)
        self.assertEqual((self.left(), self.place.ring_files()), ([], []))

    def answered(self, answer):
        """The status, with a person at the terminal who answers so."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(harness.BUILD / "analyzer" / "titan-analyze",
                      ["titan-analyze", "clean", str(self.place.dumps), "--older-than", "0",
                       "--ring-dir", str(self.place.rings)], self.place.env(preload=False))
        said = b""
        while b"[y/N]" not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, answer.encode() or b"\x04")
        try:
            while os.read(terminal, 1000):
                pass
        except OSError:  # the other side has left
            pass
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        return os.waitstatus_to_exitcode(status)

    def test_it_wants_to_be_told(self):
        done = self.clean(self.place.dumps, status=harness.UNUSABLE)
        self.assertIn("--older-than DAYS", done.stderr)


if __name__ == "__main__":
    harness.main()
