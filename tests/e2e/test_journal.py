#!/usr/bin/env python3
"""Markers of the whole job in files: none is lost when ranks end, are killed or change roles, and what is lost is
counted."""

import json
import re
import signal
import stat
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "synth"))
import titan_decode  # noqa: E402

RANKS = 3
CLOCKS_DIFFER_NS = 100_000  # a step takes ten times as long
PER_STEP = 1 + 2 * 10 + 1  # the step, ten spans, a metric


class Journal(harness.Case):
    def start(self, steps, pause_us=0, **settings):
        settings = {"TITANTRACE_JOURNAL_MIB": 64, "TITANTRACE_JOURNAL_S": 0.2, "TITANTRACE_MARKERS": 16384,
                    "TITANTRACE_DUMP_ON": "none", **settings}
        return [self.place.start([harness.client("e2e-journal"), str(steps), str(pause_us)],
                                 self.place.env(**{"RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_RANK": rank,
                                                   "LOCAL_WORLD_SIZE": RANKS, **settings})) for rank in range(RANKS)]

    def files(self):
        return sorted((self.place.dumps / "e2e" / "0").glob("*.journal"))

    def show(self, *options):
        done = self.place.tool("titan-analyze", "show", self.place.dumps, "--markers", "--json", "--ring-dir",
                               self.place.rings, *options, status=0)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def assert_whole(self, rank, markers, steps):
        """Every marker of every step, once and in order."""
        own = [marker for marker in markers if marker["rank"] == rank]
        self.assertEqual(len(own), PER_STEP * steps)
        self.assertEqual([marker["value"] for marker in own if marker["marker"] == "step"], list(range(steps)))
        self.assertEqual([round(2 - marker["value"], 3) for marker in own if marker["marker"] == "metric"],
                         [round(0.001 * step, 3) for step in range(steps)])
        begun = [marker["name"] for marker in own if marker["marker"] == "span_begin"]
        self.assertEqual(begun[:3] + begun[9:11], ["step", "data_loading", "forward", "gc", "step"])
        times = [marker["realtime_ns"] for marker in own]
        # A dump and each block of a journal have read the clock of the day for themselves.
        back_ns = max(earlier - later for earlier, later in zip(times, times[1:]))
        self.assertLess(back_ns, CLOCKS_DIFFER_NS)
        self.assertTrue(all("main" in marker["called_at"] for marker in own if marker["marker"] == "metric"))

    def test_a_job_that_ends_well(self):
        """Markers that fill the rings three times; rings and dumps are gone afterwards."""
        jobs = self.start(600, 1000, TITANTRACE_MARKERS=4096)
        for job in jobs:
            job.wait_says("marked", 60)
        self.place.go()
        for job in jobs:
            self.assertEqual(job.wait(), 0)
        self.assertEqual((self.place.ring_files(), self.place.dump_files()), ([], []))
        markers, _ = self.show("--no-rings")
        for rank in range(RANKS):
            self.assert_whole(rank, markers, 600)
        self.assertEqual({stat.S_IMODE(file.stat().st_mode) for file in self.files()}, {0o600})
        self.assert_second_reader_agrees(self.files(), markers)

    def assert_second_reader_agrees(self, files, markers):
        """One written from FORMAT.md alone. Blocks overlap where one writer took over from another."""
        names = {1: "step", 2: "span_begin", 3: "span_end", 5: "metric"}
        theirs = {(block["rank"], block["first_ticket"] + row, names[marker["kind"]], marker["step"], marker["span"],
                   marker["thread"], block["texts"][marker["name"]])
                  for file in files for block in titan_decode.read_journal(file.read_bytes())
                  for row, marker in enumerate(block["markers"])}
        ours = [(marker["rank"], marker["ticket"], marker["marker"], marker["step"], marker["span"], marker["thread"],
                 marker["name"]) for marker in markers]
        self.assertEqual(sorted(theirs), sorted(ours))

    def kill_the_writer(self, jobs):
        """Then the others go on to their end; returns the one that was killed."""
        # On a busy machine a writer that got no processor for seconds is relieved, and two write for a moment.
        writers = lambda: [job for job in jobs if "titan-journal" in harness.threads_of(job.pid)]
        writer, = harness.wait_for(lambda: (now := writers()) and len(now) == 1 and now, 20, "a single writer")
        writer.signal(signal.SIGKILL)
        for job in jobs:
            if job is not writer:
                job.wait_says("marked", 60)
        self.place.go()
        for job in jobs:
            job.wait()
        return writer

    def test_one_process_writes_and_the_next_goes_on(self):
        """The writer is killed in the middle; what nobody had written yet is in the rings."""
        jobs = self.start(400, 1000)
        harness.wait_for(lambda: self.files(), 20, "a journal")
        writer = self.kill_the_writer(jobs)
        self.assertIn(len(self.files()), (2, 3))  # the last rank to leave may be another than the next writer
        markers, _ = self.show()
        for rank, job in enumerate(jobs):
            if job is not writer:
                self.assert_whole(rank, markers, 400)
        of_writer = [marker for marker in markers if marker["rank"] == jobs.index(writer)]
        self.assertEqual([m["value"] for m in of_writer if m["marker"] == "step"],
                         list(range(sum(m["marker"] == "step" for m in of_writer))))

    def dump_in_the_middle(self, jobs, after_step):
        """Asks the job for dumps, which hold some of its markers."""
        rows = lambda: {row["rank"]: row["step"] for row in
                        self.place.show(self.place.rings, "--markers", "--last", "1", starting=True)}
        harness.wait_for(lambda: all(rows().get(rank, -1) >= after_step for rank in range(RANKS)), 20, "steps")
        jobs[0].signal(signal.SIGUSR1)
        harness.wait_for(lambda: self.place.dumped_ranks() == set(range(RANKS)), 20, "dumps")

    def test_a_dump_in_the_middle_of_a_job(self):
        """The journal has what the dump's ring had lost, and goes on after it."""
        jobs = self.start(600, 1000, TITANTRACE_DUMP_ON="signal", TITANTRACE_MARKERS=4096)
        self.dump_in_the_middle(jobs, 250)
        for job in jobs:
            job.wait_says("marked", 60)
        self.place.go()
        for job in jobs:
            self.assertEqual(job.wait(), 0)
        markers, said = self.show("--no-rings")
        for rank in range(RANKS):
            self.assert_whole(rank, markers, 600)
        self.assertEqual(said, "")
        told = self.place.tool("titan-analyze", "metrics", self.place.dumps, "--no-rings", "--json")
        self.assertEqual([json.loads(line)["step"] for line in told.stdout.splitlines()], list(range(600)))

    def test_the_writer_is_killed_after_a_dump(self):
        """The next one goes on where it stopped."""
        jobs = self.start(400, 1000, TITANTRACE_DUMP_ON="signal")
        self.dump_in_the_middle(jobs, 20)
        writer = self.kill_the_writer(jobs)
        markers, _ = self.show("--no-rings")
        for rank, job in enumerate(jobs):
            if job is not writer:
                self.assert_whole(rank, markers, 400)

    def test_a_job_that_is_cancelled(self):
        """It is written as it ends, although the next time to write is an hour off."""
        jobs = self.start(100000, 1000, TITANTRACE_JOURNAL_S=3600, TITANTRACE_DUMP_ON="end")
        harness.wait_for(lambda: any("titan-journal" in harness.threads_of(job.pid) for job in jobs), 20, "a writer")
        newest = lambda: self.place.show(self.place.rings, "--markers", "--last", "1", starting=True)
        harness.wait_for(lambda: len(rows := newest()) == RANKS and all(row["step"] > 20 for row in rows), 20, "steps")
        self.assertEqual(self.files(), [])
        for job in jobs:
            job.signal(signal.SIGTERM)
        for job in jobs:
            self.assertNotEqual(job.wait(), 0)
        written, _ = self.show("--no-rings")
        for rank in range(RANKS):
            self.assertGreater(sum(row["marker"] == "step" for row in written if row["rank"] == rank), 20)

    def test_what_is_lost_is_counted(self):
        """Three thousand markers between two looks into rings of 256."""
        jobs = self.start(400, 0, TITANTRACE_MARKERS=256)
        for job in jobs:
            job.wait_says("marked")
        self.place.go()
        for job in jobs:
            job.wait()
        markers, said = self.show("--no-rings")
        for rank in range(RANKS):
            own = [marker["ticket"] for marker in markers if marker["rank"] == rank]
            self.assertEqual(own, sorted(set(own)))
            lost = re.search(rf"rank {rank}: ([\d,]+) markers? (is|are) in no journal", said)
            self.assertEqual(len(own) + int(lost[1].replace(",", "")), PER_STEP * 400)
        self.assertIn(" of older steps are in no journal: ",
                      self.place.tool("titan-analyze", "summary", self.place.dumps, "--no-rings").stdout)

    def test_a_directory_that_cannot_be_written(self):
        self.place.dumps.rmdir()
        self.place.dumps.touch()
        jobs = self.start(100, 100)
        self.place.go()
        for job in jobs:
            self.assertEqual(job.wait(), 0)
        told = [job.stderr for job in jobs if "the journal cannot be written" in job.stderr]
        self.assertTrue(told)
        self.assertLess(max(text.count("\n") for text in told), 3)

    def test_sums_of_steps(self):
        """300 steps through a ring of 512 calls: each rank's calls of each step, as in the dump of a job whose ring
        holds them all."""
        def run(place, **settings):
            job = place.run([harness.stand_ins() / "titan-sim", "--ranks", "2", "--step-ms", "10", "--steps", "300"],
                            place.env(**settings), 60)
            self.assertEqual(job.status, 0, job.stderr)

        run(self.place, TITANTRACE_JOURNAL_MIB=64, TITANTRACE_JOURNAL_S=0.2, TITANTRACE_COLLECTIVES=512)
        self.assertEqual(self.place.dump_files(), [])
        whole = self.new_place()
        run(whole, TITANTRACE_DUMP_ON="exit")
        ours, theirs = (place.show(place.dumps, "--step-sums") for place in (self.place, whole))
        key = lambda row: (row["rank"], row["step"], row["calls"], row["bytes"])
        self.assertEqual([key(row) for row in ours if row["step"] >= 0],
                         [key(row) for row in theirs if row["step"] >= 0])
        self.assertEqual([row["step"] for row in ours if row["rank"] == 1 and row["step"] >= 0], list(range(300)))
        calls = whole.show(whole.dumps, "--step", "100", "--rank", "0")
        row, = [row for row in theirs if row["rank"] == 0 and row["step"] == 100]
        self.assertEqual((row["calls"], row["bytes"]), (len(calls), sum(call["count"] * 4 for call in calls)))
        self.assertEqual([row for row in ours if not 0 < row["host_ns"] < 1e9], [])
        self.assertEqual([row for row in ours if (row["calls_timed_on_gpu"] > 0) != (row["gpu_ns"] > 0)], [])
        self.assert_calls_of_steps(ours, whole)

    def assert_calls_of_steps(self, sums, whole):
        """By communicator and operation, of a job that ended well: they add up, and are those of the dump."""
        ours, theirs = ([row for row in place.show(place.dumps, "--step-calls") if row["step"] >= 0]
                        for place in (self.place, whole))
        key = lambda row: (row["rank"], row["step"], row["communicator_name"], row["communicator_size"], row["op"],
                           row["calls"], row["bytes"])
        self.assertEqual(sorted(map(key, ours)), sorted(map(key, theirs)))
        self.assertGreater(len({(row["communicator_name"], row["op"]) for row in ours}), 2)
        of_step = lambda row: (row["rank"], row["step"])
        for of in ("calls", "bytes", "calls_timed_on_gpu", "host_ns"):
            together = {}
            for row in ours:
                together[of_step(row)] = together.get(of_step(row), 0) + row[of]
            for row in sums:
                if row["step"] >= 0:
                    self.assertAlmostEqual(together[of_step(row)], row[of], delta=row[of] / 400 + 20)
        for row in ours:
            self.assertTrue(0 < row["longest_ns"] < 1e9, row)
        blocks = [block for file in self.files() for block in titan_decode.read_journal(file.read_bytes())]
        read, next_call = {}, {}
        # Blocks overlap where one writer took over from another.
        for block in sorted(blocks, key=lambda block: (block["rank"], block["calls"][0], -block["calls"][1])):
            if block["calls"][0] >= next_call.get(block["rank"], 0):
                next_call[block["rank"]] = block["calls"][1]
                for row in block["step_calls"]:
                    of_row = block["rank"], row["step"], row["name"], row["size"], row["op"]
                    read[of_row] = read.get(of_row, 0) + row["calls"]
        operations = {name: number for number, name in titan_decode.KINDS.items()}
        self.assertEqual({key: calls for key, calls in read.items() if key[1] >= 0},
                         {(*key(row)[:4], operations[row["op"]]): row["calls"] for row in ours})
        self.assert_summed(ours)
        self.assert_compared(whole)

    def assert_compared(self, whole):
        """`compare` has the calls of a journal, beside those of a dump."""
        done = self.place.tool("titan-analyze", "compare", self.place.dumps, whole.dumps, "--no-rings", "--json")
        compared = json.loads(done.stdout)
        self.assertEqual((compared["only_a"], compared["only_b"]), ([], []))
        calls = [row for row in compared["rows"] if row.get("kind") in ("GPU", "host")]
        self.assertGreater(len({row["name"] for row in calls}), 2)

    def assert_summed(self, ours):
        """The same in `summary` and in SQL."""
        ask = lambda *command: self.place.tool("titan-analyze", *command).stdout
        rows = [json.loads(line) for line in ask("summary", self.place.dumps, "--no-rings", "--json",
                                                 "--steps", "100-199").splitlines()]
        calls = [row for row in rows if row["kind"] in ("GPU", "host")]
        wanted = [row for row in ours if 100 <= row["step"] <= 199]
        self.assertEqual(sum(row["calls"] for row in calls), sum(row["calls"] for row in wanted))
        self.assertEqual(sum(row["bytes"] for row in calls), sum(row["bytes"] for row in wanted))
        sql = lambda text: [json.loads(line) for line in
                            ask("sql", self.place.dumps, "--no-rings", "--json", text).splitlines()]
        parts = sql("SELECT kind, sum(count) AS calls FROM step_parts WHERE step = 150 AND rank = 1 GROUP BY kind")
        self.assertEqual(sum(row["calls"] for row in parts if row["kind"] != "span"),
                         sum(row["calls"] for row in ours if row["step"] == 150 and row["rank"] == 1))
        late = sql("SELECT rank, min(late_ns) AS least, max(late_ns) AS most, max(ranks) AS ranks FROM late_ranks "
                   "GROUP BY rank")
        self.assertEqual([(row["rank"], row["ranks"]) for row in late], [(0, 2), (1, 2)])
        self.assertTrue(all(0 <= row["least"] <= row["most"] < 1e9 for row in late), late)
        extremes = self.place.show(self.place.dumps, "--health-extremes")
        self.assertIn("host.memory_available_mib", {row["name"] for row in extremes})
        self.assertEqual([row for row in extremes if not row["least"] <= row["greatest"]], [])

    def test_on_by_default_and_off_where_it_is_not_wanted(self):
        for mib, files in ((0, 0), (None, 1)):
            jobs = self.start(50, 100, TITANTRACE_JOURNAL_MIB=mib, TITANTRACE_JOURNAL_S=None)
            for job in jobs:
                job.wait_says("marked", 60)
            self.place.go()
            for job in jobs:
                self.assertEqual(job.wait(), 0)
            self.assertEqual(min(len(self.files()), 1), files)
            self.assertEqual(sum(job.stderr.count("markers are kept in") for job in jobs), files)
        markers, _ = self.show("--no-rings")
        self.assertEqual(len(markers), RANKS * PER_STEP * 50)

    def test_damage_is_said_and_the_rest_is_read(self):
        jobs = self.start(500, 20)
        for job in jobs:
            job.wait_says("marked")
        self.place.go()
        for job in jobs:
            job.wait()
        file = max(self.files(), key=lambda path: path.stat().st_size)  # another rank may have written the end
        whole, _ = self.show("--no-rings")
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 0xff
        file.write_bytes(data[:-7])
        rest, said = self.show("--no-rings")
        self.assertTrue(0 < len(rest) < len(whole))
        self.assertIn(file.name, said)


if __name__ == "__main__":
    harness.main()
