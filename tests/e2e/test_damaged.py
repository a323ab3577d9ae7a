#!/usr/bin/env python3
"""Damaged, foreign and too many files: what is whole of them is used, the rest is named, and only nothing at all is an
error."""

import os
import random
import shutil
import struct
import sys
import time

import harness
import nightly
import test_faults
from fault_cases import FaultCase

sys.path.insert(0, str(harness.ROOT / "tests" / "synth"))
from titan_file import fnv1a64  # noqa: E402

FAULT = FaultCase("other_count", "--ranks 4 --tp 4", "count rank=2 comm=tp step=5 factor=0.5", ("size_mismatch",),
                  (2,), "tp", 15, "all_reduce")
HEADER_BYTES, SECTION_BYTES = 32, 40


def boundaries(data):
    """Where headers and sections of a dump begin and end (formats/FORMAT.md)."""
    places, at = [HEADER_BYTES], HEADER_BYTES
    while at + SECTION_BYTES <= len(data):
        stored = struct.unpack_from("<II Q", data, at)[2]
        places.append(at + SECTION_BYTES)
        at += SECTION_BYTES + stored
        places.append(at)
    return sorted(set(places))


def with_major(data, major):
    head = bytearray(data[:HEADER_BYTES])
    struct.pack_into("<H", head, 8, major)
    struct.pack_into("<Q", head, 24, fnv1a64(bytes(head[:24])))
    return bytes(head) + data[HEADER_BYTES:]


class Damaged(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.source = harness.Place()
        cls.addClassCleanup(cls.source.close)
        test_faults.let_it_happen(cls.source, FAULT)

    def setUp(self):
        """One dump of each rank, the newest: on a busy machine a rank may have more than that of the fault."""
        directory = self.place.dumps / "e2e" / "0"
        directory.mkdir(parents=True)
        for path in sorted(self.source.dump_files(), key=lambda path: path.stat().st_mtime_ns):
            shutil.copy2(path, directory / f"{path.name.split('.')[0]}.0.titan")
        self.files = self.place.dump_files()
        self.assertEqual(len(self.files), 4)

    def expect_verdict(self, *paths, ranks=(2,)):
        analysis = self.place.analyze(*(paths or [self.place.dumps]))
        self.assertEqual(analysis.status, harness.FINDINGS, analysis.stderr)
        self.assertEqual((analysis.json["verdict"]["kind"], tuple(analysis.json["verdict"]["ranks"])),
                         ("size_mismatch", ranks))
        return analysis

    def warned(self, analysis, words):
        return [warning for warning in analysis.json["warnings"] if words in warning["summary"]]

    def warning_kinds(self, analysis):
        """Without what a machine that tests run on may rightly be told."""
        kinds = [warning["kind"] for warning in analysis.json["warnings"]]
        return [kind for kind in kinds if kind != "overcommitted_host"]

    def expect_unusable(self, *paths):
        analysis = self.place.analyze(*(paths or [self.place.dumps]))
        self.assertEqual(analysis.status, harness.UNUSABLE)
        self.assertIn(analysis.json["error"], analysis.stderr)
        self.assertTrue(analysis.stderr.startswith("titan-analyze: "), analysis.stderr)
        self.assertLess(len(analysis.stderr), 2000)
        return analysis

    def test_all_files_empty(self):
        for path in self.files:
            path.write_bytes(b"")
        self.expect_unusable()

    def test_truncated_at_every_boundary(self):
        data = self.files[3].read_bytes()
        places = boundaries(data)
        self.assertGreater(len(places), 4)
        self.assertEqual(places[-1], len(data))
        for number, place in enumerate(places[:-1]):
            for end in (place, place - 1, place + 1) if nightly.IS_ON else (place + number % 3 - 1,):
                with self.subTest(end=end, of=len(data)):
                    self.files[3].write_bytes(data[:end])
                    analysis = self.expect_verdict()
                    self.assertTrue(self.warned(analysis, self.files[3].name), analysis.json["warnings"])

    def test_flipped_bits(self):
        chance = random.Random(20)
        data = self.files[3].read_bytes()
        for _ in range(40 if nightly.IS_ON else 15):
            broken = bytearray(data)
            at = chance.randrange(len(broken))
            broken[at] ^= 1 << chance.randrange(8)
            with self.subTest(byte=at, of=len(data)):
                self.files[3].write_bytes(broken)
                self.assertTrue(self.warned(self.expect_verdict(), self.files[3].name))

    def test_noise_in_every_file(self):
        chance = random.Random(21)
        for path in self.files:
            path.write_bytes(bytes(chance.randrange(256) for _ in range(5000)))
        self.expect_unusable()

    def test_newer_version(self):
        self.files[3].write_bytes(with_major(self.files[3].read_bytes(), 99))
        warnings = self.warned(self.expect_verdict(), self.files[3].name)
        self.assertIn("99", warnings[0]["summary"])
        self.assertIn("is not the 1.0", warnings[0]["summary"])

    def test_only_newer_versions(self):
        for path in self.files:
            path.write_bytes(with_major(path.read_bytes(), 99))
        self.assertIn("is not the 1.0", self.expect_unusable().stderr)

    def test_two_runs_in_one_directory(self):
        """The newest is meant; the other one is mentioned or listed."""
        shutil.move(str(self.place.dumps / "e2e"), str(self.place.dumps / "older"))
        for path in (self.place.dumps / "older").rglob("*"):
            os.utime(path, (1, 1))
        self.place.run_rank("e2e-processes", "dump-by-hand", TITANTRACE_RUN_ID="newer")
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual((analysis.status, analysis.json["run"]["id"]), (harness.HEALTHY, "newer"))
        # What a record says of itself counts, not the name of its directory.
        self.expect_verdict(self.place.dumps, "--run", "older")

    def test_two_runs_in_one_flat_directory(self):
        self.place.run_rank("e2e-processes", "dump-by-hand", TITANTRACE_RUN_ID="newer")
        flat = self.place.path / "flat"
        flat.mkdir()
        for number, path in enumerate(sorted(self.place.dumps.rglob("*.titan"))):
            shutil.copy2(path, flat / f"rank{number:05}.0.titan")
        analysis = self.place.analyze(flat)
        self.assertEqual((analysis.status, analysis.json["run"]["id"]), (harness.HEALTHY, "newer"))
        self.assertEqual(self.warning_kinds(analysis), ["other_run"])

    def test_file_by_file(self):
        self.expect_verdict(*self.files)

    def test_foreign_files_beside(self):
        directory = self.files[0].parent
        (directory / "README.txt").write_text("not a dump\n")
        (directory / "rank00001.0.titan.swp").write_text("nor this\n")
        (directory / "sub").mkdir()
        (directory / "link.titan").symlink_to("/dev/zero")
        os.mkfifo(directory / "fifo.titan")
        self.expect_verdict()

    def test_newer_files_that_are_none(self):
        """Beside the runs, and as a run of their own."""
        for name in ("stray.titan", "newer/0/rank00000.0.titan"):
            path = self.place.dumps / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(random.Random(7).randbytes(5000))
            os.utime(path, (time.time() + 60, time.time() + 60))
            self.assertTrue(self.warned(self.expect_verdict(), f"{path.name}: not a titantrace dump"))
        self.assertTrue(self.warned(self.expect_verdict(), "run newer is newer, and none of its files can be read"))

    def test_unreadable_file_as_argument(self):
        self.expect_unusable("/dev/null")

    def test_bad_arguments(self):
        done = self.place.tool("titan-analyze", "--no-such-option")
        self.assertEqual((done.status, done.stdout), (harness.UNUSABLE, ""))
        done = self.place.tool("titan-analyze", self.place.dumps, "--ring-dir", "/none")
        self.assertEqual((done.status, done.stdout), (harness.UNUSABLE, ""))
        self.assertIn("--ring-dir: Directory does not exist: /none", done.stderr)

    def test_a_text_alone(self):
        log = self.place.path / "job.log"
        for text in ("step 1\n", "step 1: loss 2.5\n" * 100):
            log.write_text(text)
            self.assertIn("job.log: a text, no titantrace dump; texts are read where", self.expect_unusable(log).stderr)

    def test_a_directory_of_texts_that_are_not_known_says_that_they_were_seen(self):
        place = self.place.path / "logs"
        place.mkdir()
        (place / "notes").write_text("step 1\n")
        self.assertIn("1 other file is there (notes)", self.expect_unusable(place).stderr)
        for rank in range(2):
            (place / f"rank{rank}.log").write_text("step 1: loss 2.5\n")
        self.assertIn("2 logs are there (one is rank0.log): none of their lines is one that titan-analyze knows",
                      self.expect_unusable(place).stderr)

    def test_runs_are_listed(self):
        analysis = self.place.analyze(self.place.dumps, "--list-runs")
        self.assertEqual(analysis.status, harness.HEALTHY)
        self.assertEqual([(run["run"], run["attempt"], run["files"]) for run in analysis.json["runs"]],
                         [("e2e", 0, len(self.files))])
        done = self.place.tool("titan-analyze", self.place.dumps, "--list-runs")
        self.assertRegex(done.stdout, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d  e2e attempt 0")


if __name__ == "__main__":
    harness.main(rings=harness.SMALL_RINGS)
