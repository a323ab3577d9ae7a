#!/usr/bin/env python3
"""titantrace.export --flight-recorder: hangs of simulated jobs, written as Flight Recorder files and read by PyTorch's
own fr_trace."""

import ast
import collections
import json
import pickle
import re
import sys
import time
import unittest

import fault_cases
import harness
import test_faults
from test_fr_scenarios import FR_TRACE, Scenarios  # noqa: F401: tests, too, of the one process that imports PyTorch

TORCHRUN = harness.ROOT / ".venv" / "bin" / "torchrun"
PREFIX = "nccl_trace_rank_"
CASES = {case.name: case for case in fault_cases.CASES}


class Export(harness.Case):
    def export(self, *options, status=harness.HEALTHY):
        self.into = self.place.path / "fr"
        done = self.place.export(self.into, *options)
        self.assertEqual(done.status, status, done.stderr)
        return done

    def dumps(self):
        """rank -> what a program that trusts the file reads."""
        return {int(path.name[len(PREFIX):]): pickle.loads(path.read_bytes()) for path in self.into.iterdir()}

    def collectives(self):
        return [call for call in self.place.show(self.place.dumps) if not call["op"].startswith("comm_")]

    def train(self, *options, **settings):
        self.place.sim("--steps", "5", *options, TITANTRACE_DUMP_ON="exit", **settings)


class Files(Export):
    def test_says_what_show_says(self):
        self.train("--ranks", "4", "--tp", "2")
        done = self.export()
        dumps = self.dumps()
        self.assertEqual(sorted(dumps), [0, 1, 2, 3])
        calls = collections.Counter((call["rank"], call["communicator_name"], call["seq"] + 1)
                                    for call in self.collectives())
        entries = collections.Counter((rank, entry["process_group"][1], entry["collective_seq_id"])
                                      for rank, dump in dumps.items() for entry in dump["entries"])
        self.assertGreater(len(calls), 50)
        self.assertEqual(entries, calls)
        self.assertIn(f"4 files, {sum(calls.values())} calls", done.stdout)
        for rank, dump in dumps.items():
            self.assertEqual((dump["version"], dump["rank"]), ("2.10", rank))
            for group in dump["pg_config"].values():
                self.assertIn(rank, ast.literal_eval(group["ranks"]))
            self.assertEqual([entry["record_id"] for entry in dump["entries"]], list(range(len(dump["entries"]))))
            for entry in dump["entries"]:
                self.assertIn(entry["process_group"][0], dump["pg_config"])
                self.assertEqual(entry["state"], "completed")
                self.assertGreater(entry["time_created_ns"], 0)
                self.assertGreaterEqual(entry["time_discovered_completed_ns"] or entry["time_created_ns"],
                                        entry["time_created_ns"])

    def test_files_are_private_and_a_used_directory_is_refused(self):
        self.train("--ranks", "2")
        begun_ns = time.time_ns()
        self.export()
        times = [path.stat().st_mtime_ns for path in self.into.iterdir()]
        self.assertLess(max(times), begun_ns, "readers take a file's time for the moment of the dump")
        self.assertEqual({path.stat().st_mode & 0o777 for path in self.into.iterdir()}, {0o600})
        again = self.export(status=harness.UNUSABLE)
        self.assertIn("not empty", again.stderr)

    def test_what_does_not_hold_our_calls_is_refused(self):
        self.train("--ranks", "2")
        self.export()
        digests = self.place.path / "digests"
        self.place.tool("titan-analyze", "digest", self.place.dumps, "--into", digests, status=0)
        again = self.place.path / "again"
        for source, words in ((self.into, "these are Flight Recorder dumps already"),
                              (digests, "a digest does not hold all calls in full: export the dumps"),
                              (self.place.path / "nowhere", "nowhere")):
            done = self.place.export(again, dumps=source)
            self.assertEqual((done.status, done.stdout), (harness.UNUSABLE, ""), done.stderr)
            self.assertIn(words, done.stderr)
            self.assertFalse(again.exists())

    def export_odd(self, *calls, ranks=(0,), issued_by_last=None):
        """What comes of calls of a process in a communicator of three, of whom the second has no known rank."""
        layout = {"processes": [{"ranks": ranks, "host": "h", "source": "dump", "dumped_realtime_ns": 9,
                                 "timeout_ms": 7}],
                  "communicators": [{"id": "c", "ids": ["c"], "name": "", "size": 3,
                                     "all_ranks": [*ranks, None, 5] if ranks else [None, None, 5],
                                     "issued": [0, None, issued_by_last]}]}
        usual = {"rank": 0, "communicator": "c", "comm_rank": 0, "peer": -1, "state": "started", "progress": "started",
                 "seq": 0, "op": "all_gather", "count": 2, "datatype": "float32", "entered_realtime_ns": 1,
                 "gpu_started_realtime_ns": 2, "gpu_finished_realtime_ns": None}
        rows = "".join(json.dumps({**usual, **call}) + "\n" for call in calls)
        analyzer = self.place.path / "analyzer"
        analyzer.write_text("#!/bin/sh\n"
                            f"if [ $1 = layout ]; then cat << E\n{json.dumps(layout, indent=2)}\nE\n"
                            f"else cat << E\n{rows}E\nfi\n")
        analyzer.chmod(0o755)
        return self.export("--titan-analyze", analyzer, status=harness.HEALTHY if ranks else harness.FINDINGS)

    def test_what_has_no_place_there_is_said(self):
        done = self.export_odd({"count": 2 ** 63}, {"op": "put_signal"}, {"op": "comm_init"}, {"op": "send", "peer": 1},
                               {"op": "send", "peer": 0}, {"op": "recv", "peer": 2}, {"seq": 1, "state": "captured"},
                               {"seq": 1, "communicator": "d"})
        gather, receive = self.dumps()[0]["entries"]
        self.assertEqual((gather["input_sizes"], gather["output_sizes"]), ([[2 ** 63 - 1]], [[2 ** 63 - 1]]))
        self.assertEqual((gather["state"], gather["time_discovered_started_ns"], gather["timeout_ms"]),
                         ("started", 9, 7))
        self.assertEqual((receive["profiling_name"], receive["process_group"]),
                         ("nccl:recv 0<-1", ("c.0-2", "undefined 0-2")))
        self.assertEqual(done.stderr, """\
titantrace.export: left out: calls of put_signal, which Flight Recorder does not have (1)
titantrace.export: left out: sends and receives whose peer is not known, or is the caller itself (2)
""")

    def test_member_whose_calls_are_all_overwritten(self):
        self.export_odd(*({"seq": seq} for seq in range(6)), issued_by_last=4)
        self.assertEqual([entry["collective_seq_id"] for entry in self.dumps()[0]["entries"]], [5, 6])

    def test_process_without_a_rank(self):
        done = self.export_odd({"rank": -1}, ranks=())
        self.assertEqual(done.stderr, "titantrace.export: left out: processes without a rank (1)\n")
        self.assertEqual((done.stdout, list(self.into.iterdir())), ("", []))

    def test_prefix(self):
        self.train("--ranks", "2")
        self.export("--prefix", "job_")
        self.assertEqual(sorted(path.name for path in self.into.iterdir()), ["job_0", "job_1"])

    def test_members_of_one_process_get_a_file_each(self):
        self.train("--ranks", "4", "--threads")
        self.export()
        self.assertEqual(sorted(self.dumps()), [0, 1, 2, 3])

    def test_what_a_small_ring_has_overwritten(self):
        """Records begin with the same call of each communicator on all of its members."""
        self.train("--ranks", "4", "--tp", "2", "--steps", "200", TITANTRACE_COLLECTIVES="256")
        self.export()
        first = collections.defaultdict(set)
        for rank, dump in self.dumps().items():
            for group in dump["pg_config"]:
                numbers = [entry["collective_seq_id"] for entry in dump["entries"]
                           if entry["process_group"][0] == group]
                first[group].add(min(numbers))
        self.assertEqual([len(numbers) for numbers in first.values()], [1] * len(first))
        self.assertTrue(all(min(numbers) > 1 for numbers in first.values()), first)


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch: {TORCHRUN} is missing (scripts/setup installs it)")
class FrTrace(Export):
    def fr_trace(self):
        return FR_TRACE.ask(self.into, PREFIX)

    def hang(self, name):
        test_faults.let_it_happen(self.place, CASES[name])
        self.export()
        return self.fr_trace()

    def test_healthy_job_matches_whole(self):
        self.train("--ranks", "8", "--tp", "2")
        self.export()
        _, matched = self.fr_trace()
        calls = collections.Counter((call["communicator"], call["seq"]) for call in self.collectives())
        self.assertEqual(len(matched), len(calls))
        self.assertEqual({passed for _, passed, _ in matched}, {True})

    def test_rank_not_arrived(self):
        said, _ = self.hang("sleep")
        self.assertRegex(said, r"Not all ranks joining collective, sequence number: 11\n(.*\n)*missing ranks: \{5\}")

    def test_mismatches(self):
        for name, rank, error in (("other_op", 2, "COLLECTIVE_TYPE_MISMATCH"),
                                  ("other_count", 6, "SIZE_OR_SYNTAX_MISMATCH"),
                                  ("other_datatype", 1, "COLLECTIVE_DTYPE_MISMATCH")):
            with self.subTest(name):
                self.place = self.new_place()
                said, _ = self.hang(name)
                self.assertRegex(said, rf"sequence number: 16 has errors\n(.*\n)*.*Culprit rank {rank}; Error type: "
                                 rf"{error}")

    def test_blames_everybody_else_where_its_first_rank_is_wrong(self):
        """Known of fr_trace: it takes the first rank for right. Our own verdict on the same dumps goes by majority."""
        said, _ = self.hang("other_op_of_rank_0")
        first = re.search(r"collective: nccl:reduce\n(?:.*\n)*?.*error msg: (.*)", said).group(1)
        self.assertEqual(sorted(set(re.findall(r"Culprit rank (\d+)", first))), ["1", "2", "3"])
        self.assertEqual(self.place.analyze(self.place.dumps).json["verdict"]["ranks"], [0])

    def test_pairs_match_however_they_are_grouped(self):
        """The first stage sends and receives in one NCCL group, the others one by one."""
        self.train("--ranks", "8", "--pp", "4")
        self.export()
        names = {entry["profiling_name"] for dump in self.dumps().values() for entry in dump["entries"]}
        self.assertLessEqual({"nccl:send 0->1", "nccl:recv 1<-0", "nccl:send 1->0", "nccl:recv 0<-1"}, names)
        said, matched = self.fr_trace()
        self.assertNotIn("Not all ranks", said)
        pairs = sum(call["op"] == "send" for call in self.collectives())
        self.assertGreater(pairs, 10)
        self.assertEqual(sum("send" in name or "recv" in name for name, _, _ in matched), pairs)
        self.assertEqual({passed for _, passed, _ in matched}, {True})

    def test_pairs_whose_beginning_is_overwritten_on_one_side_only(self):
        self.train("--ranks", "4", "--pp", "4", "--steps", "150", "--step-ms", "1", TITANTRACE_COLLECTIVES="256")
        self.export()
        said, matched = self.fr_trace()
        self.assertNotIn("Not all ranks", said)
        self.assertGreater(len(matched), 100)
        self.assertEqual({passed for _, passed, _ in matched}, {True})

    def test_missing_receive(self):
        said, _ = self.hang("receive_missing")
        self.assertRegex(said, r"Not all ranks joining collective(.*\n)*missing ranks: ")


if __name__ == "__main__":
    if not TORCHRUN.exists():
        print(f"fr_trace is not asked: {TORCHRUN} is missing (scripts/setup installs PyTorch)", file=sys.stderr)
    harness.main(at_once=2, rings=harness.SMALL_RINGS)
