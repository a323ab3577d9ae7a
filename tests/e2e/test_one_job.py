#!/usr/bin/env python3
"""The ranks of one node are one job: wherever their rings found room, whoever was there before, and beside another
version of titantrace, whose files are left alone."""

import contextlib
import mmap
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

import harness
from test_directories import ROOT_NEEDED, is_root, tmpfs

METHOD_OFFSET, EVENTS, WRITES = 592, 1, 3  # of the ring's header: formats/FORMAT.md

# Maps a file, then reads its last byte until it is told to end: whoever shortens the file kills it by SIGBUS.
READ_THE_END = """
import mmap, sys, time
with open(sys.argv[1], "r+b") as file:
    page = mmap.mmap(file.fileno(), 0)
print("mapped", flush=True)
while True:
    page[len(page) - 1]
    time.sleep(0.002)
"""

IN_TMP = f"in-tmp-{os.getpid()}"  # the name of runs whose rings lie in /tmp


class OneJob(harness.Case):
    def private(self):
        return self.place.rings / f"titantrace-{os.geteuid()}"

    def pages(self):
        return sorted(self.place.rings.glob("titantrace-*/*.job"))

    def kill_one_of_two(self, ranks, victim=0, run="e2e"):
        """The other one notices, dumps, and saves the dead one's ring."""
        ranks[victim].signal(signal.SIGKILL)
        harness.wait_for(lambda: self.place.dumped_ranks(run) == {0, 1}, 20,
                         "a dump of the one, and one of the other by it")
        self.assertIn(f"rank {victim} (pid", ranks[1 - victim].stderr)

    def two_ranks(self, **settings):
        for left in self.place.meet.iterdir():
            left.unlink()  # the unique id of those before
        ranks = self.place.start_ranks("e2e-processes", "linger", 2, **settings)
        for rank in ranks:
            rank.wait_says("done")
        return ranks

    def page_of_other(self, name, content):
        """A page that a process of another version uses."""
        self.private().mkdir(mode=0o700, exist_ok=True)
        path = self.private() / name
        path.write_bytes(content)
        user = self.place.start([sys.executable, "-c", READ_THE_END, path], self.place.env(preload=False))
        user.wait_says("mapped")
        return path, user

    def test_beside_another_version(self):
        """Another one has another version or size in its page's name."""
        in_use = b"TITNTJOB" + os.urandom(48) + struct.pack("<Q", time.time_ns()) + os.urandom(80000)
        others = [self.page_of_other(name, in_use)
                  for name in ("e2e.0.v1-63048.job", "e2e.0.v2-80008.job")]
        before = [path.read_bytes() for path, _ in others]
        self.kill_one_of_two(self.two_ranks())
        self.assertEqual([path.read_bytes() for path, _ in others], before)
        self.assertEqual([user.status for _, user in others], [None] * len(others), "they live")

    def library_of_another_version(self):
        """A copy that calls its job segment by another version: one letter of the name's pattern differs."""
        pattern = b"%s.%d.v%u-%zu.job"
        library = harness.tracer().read_bytes()
        self.assertEqual(library.count(pattern), 1)
        path = self.place.path / "other-version" / "libtitantrace.so"
        path.parent.mkdir()
        path.write_bytes(library.replace(pattern, pattern.replace(b".v", b".w")))
        return path

    def test_two_versions_in_one_job(self):
        """Half of the ranks are recorded by another version: each half keeps its own page, and a dump asked of one half
        reaches the other by way of the shared directory."""
        other = self.library_of_another_version()
        ranks = [self.place.start_rank("e2e-processes", "linger", rank, 4,
                                       **({"LD_PRELOAD": other} if rank % 2 else {}))
                 for rank in range(4)]
        for rank in ranks:
            rank.wait_says("done")
        self.assertEqual(sorted(page.name[:7] for page in self.pages()), ["e2e.0.v", "e2e.0.w"])
        for victim, witness in ((0, 2), (1, 3)):
            ranks[victim].signal(signal.SIGKILL)
            # Both may have dumped before, when the other half asked.
            told = re.compile(rf"rank {victim} \(pid|dump of rank {victim} written")
            harness.wait_for(lambda: told.search(ranks[witness].stderr) and
                             {victim, witness} <= self.place.dumped_ranks(), 20, "its half notices its death")
        verdict = self.place.analyze(self.place.dumps).json["verdict"]
        self.assertEqual((verdict["kind"], verdict["ranks"]), ("rank_dead", [0, 1]))
        self.assertEqual([ranks[rank].status for rank in (2, 3)], [None, None], "the others live")

    def test_a_page_of_our_name_that_is_none(self):
        """Damaged, cut off, or of a version that nobody numbered: its users keep it, we make our own."""
        ranks = self.two_ranks()
        name = self.pages()[0].name
        for rank in ranks:
            rank.signal(signal.SIGKILL)
            rank.wait()
        for content in (os.urandom(300000), os.urandom(100), b"", b"\0" * self.pages()[0].stat().st_size):
            with self.subTest(size=len(content)):
                self.place = self.new_place()
                if content:
                    path, user = self.page_of_other(name, content)
                else:
                    self.private().mkdir(mode=0o700)
                    (self.private() / name).touch()
                self.kill_one_of_two(self.two_ranks())
                self.assertTrue(not content or user.status is None)

    def test_the_page_of_a_dead_job_is_not_cleared(self):
        """Somebody may still have it mapped: titan-top, or a rank that is about to die."""
        for rank in self.two_ranks():
            rank.signal(signal.SIGKILL)
            rank.wait()
        page, = self.pages()
        with open(page, "r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        before = mapped[:]
        self.kill_one_of_two(self.two_ranks())
        self.assertEqual(mapped[:], before)

    @contextlib.contextmanager
    def second_ring_in_tmp(self):
        """The directory of the rings is full once rank 0 has its own; its job segment stays there. All tools look into
        /tmp: with the name of other tests' runs, its ring would be one of theirs."""
        run = {"TITANTRACE_RUN_ID": IN_TMP}
        with tmpfs(self.place.rings, "64m") as directory:
            ranks = [self.place.start_rank("e2e-processes", "linger", 0, 2, **run)]
            harness.wait_for(lambda: self.pages() and self.place.ring_files(), 20, "rank 0 has its ring")
            with open(directory / "filler", "wb") as filler, contextlib.suppress(OSError):
                while True:
                    filler.write(b"x" * (1 << 20))
                    filler.flush()
            ranks.append(self.place.start_rank("e2e-processes", "linger", 1, 2, **run))
            for rank in ranks:
                rank.wait_says("done")
            elsewhere = list(pathlib.Path(f"/tmp/titantrace-{os.geteuid()}").glob(f"{ranks[1].pid}-*.ring"))
            try:
                self.assertEqual((len(self.place.ring_files()), len(elsewhere), len(self.pages())), (1, 1, 1))
                yield ranks
            finally:
                for path in elsewhere:
                    path.unlink(missing_ok=True)

    @unittest.skipUnless(is_root, ROOT_NEEDED)
    def test_a_rank_whose_ring_found_no_room_notices_a_death(self):
        with self.second_ring_in_tmp() as ranks:
            self.kill_one_of_two(ranks, run=IN_TMP)

    @unittest.skipUnless(is_root, ROOT_NEEDED)
    def test_a_rank_whose_ring_found_no_room_is_noticed_dead(self):
        with self.second_ring_in_tmp() as ranks:
            self.kill_one_of_two(ranks, victim=1, run=IN_TMP)

    def test_all_tools_look_where_rings_may_lie(self):
        """A rank that found no room has its ring in /tmp."""
        settings = {"TITANTRACE_RING_DIR": self.place.path / "nowhere", "TITANTRACE_RUN_ID": IN_TMP}
        rank = self.place.start_rank("e2e-processes", "linger", **settings)
        rank.wait_says("done")
        ring, = pathlib.Path(f"/tmp/titantrace-{os.geteuid()}").glob(f"{rank.pid}-*.ring")
        env = self.place.env(preload=False, **settings)
        try:
            for tool in (["analyzer/titan-analyze", "rings"], ["tools/titan-dump", "--list"],
                         ["tools/titan-top", "--once"]):
                done = self.place.run([harness.BUILD / tool[0], *tool[1:]], env)
                self.assertIn(settings["TITANTRACE_RUN_ID"], done.stdout, tool)
            rank.signal(signal.SIGKILL)
            rank.wait()
            done = self.place.run([harness.BUILD / "analyzer/titan-analyze", self.place.dumps], env)
            self.assertEqual(done.status, harness.FINDINGS, done.stderr)
        finally:
            for left in [ring, *ring.parent.glob(f"{settings['TITANTRACE_RUN_ID']}.*.job")]:
                left.unlink(missing_ok=True)

    @harness.at_night
    def test_places_are_given_again(self):
        """One rank lives on, 500 short ones come and go under the same name."""
        ranks = self.two_ranks()
        short = "\n".join(["i=0; while [ $i -lt 500 ]; do i=$((i + 1))",
                           f"{harness.client('e2e-nccl-use')} healthy >/dev/null || exit 1", "done"])
        done = self.place.run(["sh", "-c", short], self.place.env(TITANTRACE_STACKS="off"), 120)
        self.assertEqual(done.status, 0)
        lines = done.stderr.splitlines()
        self.assertEqual([line for line in lines if not line.startswith("titantrace: removed 1 ring of ")], [])
        self.assertLessEqual(len(self.place.ring_files()), 480)
        self.kill_one_of_two(ranks)

    def test_on_a_disk_no_device_writes(self):
        """Said once, and observed by events instead."""
        disk = self.place.path / "disk"
        disk.mkdir()
        kind = subprocess.run(["stat", "-f", "-c", "%T", disk], capture_output=True, text=True,
                              check=True).stdout.strip()
        if kind in ("tmpfs", "ramfs"):
            self.skipTest(f"{disk} lies in memory ({kind})")
        for rings, method, said in ((disk, EVENTS, 1), (self.place.rings, WRITES, 0)):
            run = self.place.start_rank("e2e-processes", "linger", TITANTRACE_RING_DIR=rings,
                                        TITANTRACE_GPU_PROGRESS="writes")
            run.wait_says("done")
            self.assertEqual(run.stderr.count("where no device may write"), said)
            ring, = rings.glob(f"titantrace-*/{run.pid}-*.ring")
            self.assertEqual(struct.unpack_from("<I", ring.read_bytes(), METHOD_OFFSET), (method,))


if __name__ == "__main__":
    harness.main()
