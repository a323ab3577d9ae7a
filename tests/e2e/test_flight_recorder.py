#!/usr/bin/env python3
"""PyTorch's Flight Recorder dumps: invented ones of all kinds, and real ones that CPU PyTorch writes under torchrun."""

import json
import pathlib
import random
import shutil
import subprocess
import sys
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "synth"))
import fr_files  # noqa: E402

TORCH = harness.ROOT / ".venv" / "bin" / "python"


class Dumps(harness.Case):
    def diagnose(self, job, **how):
        self.directory = self.place.path / "fr"
        job.write(self.directory, **how)
        return self.place.analyze(self.directory)

    def check(self, job, kind, ranks, *words, confidence=None, **how):
        analysis = self.diagnose(job, **how)
        self.assertEqual(analysis.status, harness.FINDINGS, analysis.json)
        head = analysis.json["findings"][0]
        self.assertEqual((head["kind"], head["ranks"]), (kind, ranks), head)
        if confidence:
            self.assertEqual(head["confidence"], confidence, head)
        told = head["summary"] + "\n" + "\n".join(head["evidence"])
        for word in words:
            self.assertIn(word, told)
        return analysis

    @staticmethod
    def trained(size=4, **how):
        job = fr_files.Job(size, **how)
        for _ in range(5):
            job.everywhere("0", "all_reduce", [[1024]])
            job.everywhere("0", "_all_gather_base", [[4]], [[4 * size]])
        return job

    @staticmethod
    def exchanged(job, rows, **changes):
        """One all_to_all; `rows`: what each rank sends to each. changes: {(from, to): what `to` receives of it}."""
        changed = changes.pop("receives", {})
        for rank in job.ranks:
            received = [changed.get((peer, rank), rows[peer][rank]) for peer in job.ranks]
            job.call(rank, "0", "all_to_all", [[sum(rows[rank])]], [[sum(received)]], state="scheduled",
                     input_split_sizes=rows[rank], output_split_sizes=received, **changes)


class Verdicts(Dumps):
    def test_healthy(self):
        for how in ({}, {"as_json": True}, {"protocol": 0}, {"protocol": 5}):
            with self.subTest(**how):
                analysis = self.diagnose(self.trained(), **how)
                self.assertEqual((analysis.status, analysis.json["findings"]), (harness.HEALTHY, []))
                self.assertEqual(analysis.json["run"]["ranks"], [0, 1, 2, 3])
                self.assertIn("flight_recorder", [warning["kind"] for warning in analysis.json["warnings"]])

    def test_rank_missing_also_where_it_is_the_first(self):
        for culprit in (0, 2):
            with self.subTest(culprit=culprit):
                job = self.trained()
                job.everywhere("0", "all_reduce", [[1024]], without=(culprit,), state="scheduled")
                self.check(job, "rank_not_arrived", [culprit], "all_reduce #11 on default_pg",
                           "called at train.py:212 in step", confidence="likely")

    def test_file_of_an_earlier_run(self):
        yesterday = self.trained()
        yesterday.everywhere("0", "all_reduce", [[1024]], state="scheduled")
        for rank in yesterday.ranks:
            for entry in yesterday.rank[rank].entries:
                for key in ("time_created_ns", "time_discovered_completed_ns"):
                    entry[key] = entry[key] and entry[key] - 86400 * 10**9
        yesterday.now_ns -= 86400 * 10**9
        yesterday.write(self.place.path / "fr", without={0, 1, 2})
        job = self.trained()
        job.everywhere("0", "all_reduce", [[1024]], without=(3,), state="scheduled")
        analysis = self.check(job, "rank_not_arrived", [3], "left no dump", without={3})
        left_out = [warning for warning in analysis.json["warnings"] if warning["kind"] == "other_run"]
        self.assertEqual([warning["ranks"] for warning in left_out], [[3]])
        self.assertIn("nccl_trace_rank_3 is left out", left_out[0]["summary"])

    def test_newer_backends(self):
        for backend, prefix in (("nccl2", "nccl_trace_rank_container-node02_"), ("xccl", "comm_lib_trace_rank_")):
            with self.subTest(backend):
                job = self.trained(backend=backend)
                job.everywhere("0", "all_reduce", [[1024]], without=(2,), state="scheduled")
                shutil.rmtree(self.place.path / "fr", ignore_errors=True)
                analysis = self.check(job, "rank_not_arrived", [2], "all_reduce #11 on default_pg", prefix=prefix)
                self.assertEqual(analysis.json["run"]["hosts"], ["container-node02"] if backend == "nccl2" else [])

    def test_torchcomms(self):
        job = fr_files.Job(4, backend="ncclx")
        job.groups = {"main": {"name": "main", "desc": "ncclx", "ranks": [0, 1, 2, 3]},
                      "tp": {"name": "tp", "desc": "ncclx", "ranks": [0, 1]}}
        for _ in range(3):
            job.everywhere("tp", "all_gather_single", [[4]], [[8]])
            job.everywhere("main", "all_reduce", [[1024]])
        job.everywhere("main", "all_reduce", [[1024]], without=(3,), state="scheduled")
        for rank in job.ranks:  # one counter for all communicators
            for entry in job.rank[rank].entries:
                entry["collective_seq_id"] = entry["record_id"]
        self.check(job, "rank_not_arrived", [3], "all_reduce #4", as_json=True, prefix="comm_lib_trace_rank_")
        job.first_record = dict.fromkeys(job.ranks, 1)
        analysis = self.diagnose(job, as_json=True, prefix="comm_lib_trace_rank_")
        refused = [warning["summary"] for warning in analysis.json["warnings"]
                   if "TORCHCOMM_FR_BUFFER_SIZE" in warning["summary"]]
        self.assertEqual([summary.split(":")[0] for summary in refused],
                         ["comm_lib_trace_rank_0.json", "comm_lib_trace_rank_1.json"])

    def test_archives_are_read_in_place(self):
        job = self.trained()
        job.everywhere("0", "all_reduce", [[1024]], without=(2,), state="scheduled")
        files = self.place.path / "files"
        job.write(files / "node1", prefix="nccl_trace_rank_gpu-node1_", without={2, 3})
        job.write(files / "node2", prefix="nccl_trace_rank_gpu-node2_", without={0, 1}, as_json=True)
        for kind, ending in (("gztar", "tar.gz"), ("tar", "tar"), ("zip", "zip")):
            with self.subTest(ending):
                archive = pathlib.Path(shutil.make_archive(str(self.place.path / kind / "job"), kind, files))
                for path in (archive, archive.parent):  # named, and found in a directory
                    analysis = self.place.analyze(path)
                    head = analysis.json["findings"][0]
                    self.assertEqual((head["kind"], head["ranks"], head["confidence"]),
                                     ("rank_not_arrived", [2], "likely"))
                    self.assertEqual(analysis.json["run"]["hosts"], ["gpu-node1", "gpu-node2"])
                shown = subprocess.run([harness.BUILD / "analyzer" / "titan-analyze", "show", archive, "--rank", "3",
                                        "--last", "1"],
                                       capture_output=True, text=True, timeout=60, check=False)
                self.assertIn("all_reduce", shown.stdout)
        # A damaged member is named, and loses nothing else.
        broken = self.place.path / "broken.tar"
        (files / "node1" / "nccl_trace_rank_gpu-node1_0").write_bytes(b"\x80\x02}q\0(")
        shutil.make_archive(str(broken.with_suffix("")), "tar", files)
        analysis = self.place.analyze(broken)
        self.assertEqual(analysis.json["run"]["ranks"], [1, 2, 3])
        self.assertTrue(any("broken.tar:" in warning["summary"] and "nccl_trace_rank_gpu-node1_0" in warning["summary"]
                            for warning in analysis.json["warnings"]), analysis.json["warnings"])

    def test_stragglers_say_what_is_not_seen(self):
        job = self.trained()
        job.write(self.place.path / "fr")
        for options, empty in (([], "they cannot show who is late"), (["--json"], '"ranks": []')):
            told = subprocess.run([harness.BUILD / "analyzer" / "titan-analyze", "stragglers", self.place.path / "fr",
                                   *options], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(told.returncode, harness.HEALTHY, told.stderr)
            self.assertIn("they cannot show who is late", told.stdout)
            self.assertIn(empty, told.stdout)

    def timed(self, late_ms):
        """Calls that PyTorch timed: nobody leaves before the last has come, hosts then start the next together."""
        dice = random.Random(7)
        job = fr_files.Job(8)
        now_ns = fr_files.START_NS
        for call in range(200):
            delays = [dice.expovariate(1 / 2e6) + 30e6 + 1e6 * late_ms(rank, call) for rank in job.ranks]
            for rank in job.ranks:
                taken_ns = int(max(delays) - delays[rank]) + 1_000_000
                created_ns = now_ns + int(delays[rank]) + 5_000_000_000 * rank  # no two clocks agree
                discovered_ns = created_ns + taken_ns + dice.randrange(100_000_000)
                job.call(rank, "0", "all_reduce", [[1024]], time_created_ns=created_ns, duration_ms=taken_ns / 1e6,
                         time_discovered_completed_ns=discovered_ns)
            now_ns += int(max(delays)) + 1_000_000
        return job

    def test_straggler_among_timed_calls(self):
        job = self.timed(lambda rank, call: 40 if rank == 5 and call >= 50 else 0)
        self.check(job, "straggler", [5])

    def test_healthy_and_noisy_timed_calls(self):
        analysis = self.diagnose(self.timed(lambda rank, call: 0))
        self.assertEqual((analysis.status, analysis.json["findings"]), (harness.HEALTHY, []))

    def test_same_numbers_of_elements_in_another_shape_are_no_fault(self):
        job = self.trained()
        job.everywhere("0", "all_reduce", [[32, 32]], without=(0,))
        job.call(0, "0", "all_reduce", [[1024]])
        self.assertEqual(self.diagnose(job).json["findings"], [])

    def test_all_to_all_may_be_uneven(self):
        job = self.trained(2)
        job.call(0, "0", "all_to_all", [[3], [5]], [[3], [1]])
        job.call(1, "0", "all_to_all", [[1], [2]], [[5], [2]])
        self.assertEqual(self.diagnose(job).json["findings"], [])

    def test_all_to_all_whose_sums_differ(self):
        job = self.trained(3)
        job.everywhere("0", "all_to_all", [[9]], without=(0,), state="scheduled")
        job.call(0, "0", "all_to_all", [[12]], [[9]], state="scheduled")
        self.check(job, "size_mismatch", [0], "send 30 elements and receive 27")

    def test_a_member_that_left_out_an_all_to_all(self):
        """Experts pass other sizes in each call, and what all send is what all receive: so it is, behind the call that
        a rank left out, only if that rank's calls count as one later."""
        job = self.trained(3)
        sends = [[9, 5, 7], [4, 8, 3], [6, 1, 2], [2, 9, 9]]
        receives = [[7, 7, 7], [5, 5, 5], [1, 4, 4], [9, 9, 2]]
        for number in range(3):
            for rank in job.ranks:
                call = number + 1 if rank == 1 else number  # rank 1 left out the first
                job.call(rank, "0", "all_to_all", [[sends[call][rank]]], [[receives[call][rank]]])
        self.check(job, "size_mismatch", [1], "left out a call before all_to_all #11 on", confidence="likely")
        self.assertEqual(len(self.diagnose(job).json["findings"]), 1)

    def test_an_all_to_all_made_on_another_group_is_one_mistake(self):
        job = self.trained(3)
        job.group("1", "experts", range(3))
        sends = [[9, 5, 7], [4, 8, 3], [6, 1, 2], [2, 9, 9]]
        receives = [[7, 7, 7], [5, 5, 5], [1, 4, 4], [9, 9, 2]]
        job.call(1, "0", "all_to_all", [[sends[0][1]]], [[receives[0][1]]], state="scheduled")
        for number in range(3):
            for rank in job.ranks:
                call = number + 1 if rank == 1 else number
                job.call(rank, "1", "all_to_all", [[sends[call][rank]]], [[receives[call][rank]]])
        job.everywhere("0", "all_reduce", [[1024]], without=(1,), state="scheduled")
        findings = self.check(job, "op_mismatch", [1], "left out a call before all_to_all #1 on experts",
                              confidence="certain").json["findings"]
        self.assertEqual(len(findings), 1)

    def test_a_pair_whose_splits_disagree(self):
        """Schema 2.11 tells the splits. Totals that agree hide nothing, and no majority of even sizes is needed."""
        rows = [[4, 3, 9], [1, 7, 2], [5, 6, 8]]
        for changed, agree in (({(0, 1): 2}, 8), ({(0, 1): 2, (2, 2): 9}, 7)):
            with self.subTest(changed=changed):
                job = self.trained(3, version="2.11")
                self.exchanged(job, rows)  # has gone well
                for rank in job.ranks:
                    job.rank[rank].entries[-1].update(state="completed", time_discovered_completed_ns=job.now_ns)
                self.exchanged(job, rows, receives=changed)
                analysis = self.diagnose(job)
                head = analysis.json["findings"][0]
                self.assertEqual((head["kind"], head["confidence"]), ("size_mismatch", "possible"))
                self.assertIn("all_to_all #12", head["summary"])
                self.assertIn("rank 0 sends 3 elements to rank 1, which receives 2 of it", head["summary"])
                self.assertEqual(head["ranks"], [0, 1] if len(changed) == 1 else [0, 1, 2])
                told = "\n".join(head["evidence"])
                self.assertIn(f"{agree} other pairs of the call agree", told)
                self.assertIn("rank 1: sends 10 elements, receives 15, called at train.py:212 in step", told)
                self.assertEqual(len(analysis.json["findings"]), 1)
                digests = self.place.path / "digests"
                self.place.run([harness.BUILD / "analyzer" / "titan-analyze", "digest", self.directory, "--no-rings",
                                "--into", digests])
                self.assertEqual(self.place.analyze(digests).json["findings"], analysis.json["findings"])

    def test_the_rank_that_pairs_have_in_common(self):
        job = self.trained(4, version="2.11")
        self.exchanged(job, [[4, 3, 9, 1], [1, 7, 2, 2], [5, 6, 8, 3], [2, 2, 2, 2]],
                       receives={(0, 2): 8, (1, 2): 4, (3, 2): 5})
        self.check(job, "size_mismatch", [2], "rank 2 passes other sizes than ranks 0-1,3 in all_to_all #11",
                   "all pairs that differ have rank 2 in common", confidence="likely")

    def test_a_pair_beside_many_that_pass_one_size(self):
        for changed, odd in (({"receives": {(0, 1): 6}}, 1), ({}, 0)):
            with self.subTest(odd=odd):
                rows = [[4] * 4 for _ in range(4)]
                if odd == 0:
                    rows[0][1], changed = 6, {"receives": {(0, 1): 4}}
                job = self.trained(4, version="2.11")
                self.exchanged(job, rows, **changed)
                self.check(job, "size_mismatch", [odd], f"rank {odd} passes other sizes than rank {1 - odd}",
                           "15 other pairs of the call agree, most of them on 4 elements", confidence="likely")

    def test_splits_of_a_rank_that_left_no_dump(self):
        job = self.trained(4, version="2.11")
        self.exchanged(job, [[4, 3, 9, 1], [1, 7, 2, 2], [5, 6, 8, 3], [2, 2, 2, 2]], receives={(0, 2): 8})
        self.check(job, "size_mismatch", [0, 2], "rank 0 sends 9 elements to rank 2, which receives 8 of it",
                   without={3})

    def test_splits_that_are_no_element_counts_are_left_out(self):
        """Lists of another length, and such as do not add up to the tensors: the sums are compared, as before."""
        for splits in ([1, 2], [2, 2, 2], [9, "x", 0], "none", None, [3, 3, -3], [[3], [3], [3]]):
            with self.subTest(splits=splits):
                job = self.trained(3, version="2.11")
                job.everywhere("0", "all_to_all", [[9]], without=(0,), state="scheduled", input_split_sizes=splits)
                job.call(0, "0", "all_to_all", [[12]], [[9]], state="scheduled", output_split_sizes=splits)
                self.check(job, "size_mismatch", [0], "send 30 elements and receive 27")

    def test_a_version_that_nobody_knows_yet(self):
        for version, warned in (("2.11", False), ("2.12", True)):
            with self.subTest(version=version):
                job = self.trained(version=version)
                job.everywhere("0", "all_reduce", [[1024]], without=(1,), state="scheduled", flavour={"of": [1, 2]})
                analysis = self.check(job, "rank_not_arrived", [1])
                told = json.dumps(analysis.json["warnings"])
                self.assertEqual("of version 2.12, newer than the 2.11 that is known" in told, warned, told)

    def test_overwritten_records(self):
        job = self.trained()
        job.everywhere("0", "all_reduce", [[1024]], without=(0,), state="scheduled")
        job.first_record = {0: 6, 1: 7, 2: 6, 3: 8}
        analysis = self.check(job, "rank_not_arrived", [0])
        self.assertIn("TORCH_FR_BUFFER_SIZE", json.dumps(analysis.json["warnings"]))

    def test_only_what_is_active(self):
        """TORCH_INCLUDE_ONLY_ACTIVE: what a rank has finished is not in its file, but PyTorch's numbers tell of it."""
        job = self.trained()
        for rank in job.ranks:
            for _ in range(2):
                job.call(rank, "0", "all_reduce", [[1024]], state="scheduled" if rank == 2 else "completed")
            if rank != 2:
                job.call(rank, "0", "all_reduce", [[1024]], state="scheduled")
            active = [entry for entry in job.rank[rank].entries if entry["state"] == "scheduled"]
            numbers = {"last_enqueued_collective": active[-1]["collective_seq_id"], "last_started_collective": -1,
                       "last_completed_collective": active[0]["collective_seq_id"] - 1}
            job.rank[rank].entries = active
            job.rank[rank].extra = {"pg_status": {"0": numbers}}
        analysis = self.diagnose(job)
        findings = analysis.json["findings"]
        self.assertTrue(findings and all(finding["ranks"] == [2] for finding in findings), findings)
        self.assertNotIn("too small", findings[0]["summary"])

    def test_old_versions_and_what_they_lack(self):
        job = self.trained(version="2.2")
        job.everywhere("0", "all_reduce", [[1024]], without=(0,), state="scheduled")
        for rank in job.rank.values():
            for entry in rank.entries:
                for key in ("op_id", "is_p2p", "timeout_ms", "frames", "time_discovered_started_ns"):
                    del entry[key]
        self.check(job, "rank_not_arrived", [0])

    def test_keys_of_newer_versions(self):
        job = self.trained(version="2.11")
        for number, rank in job.rank.items():
            rank.extra = {"rank": 3 - number, "host_name": f"gpu-{number}", "novelty": [1, {"a": None}]}
        analysis = self.diagnose(job)
        self.assertEqual(analysis.json["run"]["hosts"], ["gpu-0", "gpu-1", "gpu-2", "gpu-3"])

    def test_gloo_lets_go_of_what_is_done(self):
        job = fr_files.Job(3, backend="gloo")
        job.everywhere("0", "all_reduce", [[8]], state="scheduled", retired=True)
        self.assertEqual(self.diagnose(job).json["findings"], [])


class PointToPoint(Dumps):
    def test_coalesced_calls_need_not_be_alike(self):
        job = fr_files.Job(3)
        for _ in range(4):
            job.batch(0, "0", [("send", 1, [[8]])])
            job.batch(1, "0", [("recv", 0, [[8]]), ("send", 2, [[8]])])
            job.batch(2, "0", [("recv", 1, [[8]])])
        self.assertEqual(self.diagnose(job).json["findings"], [])

    def test_coalesced_receive_missing(self):
        job = fr_files.Job(2)
        for _ in range(2):
            job.batch(0, "0", [("send", 1, [[8]]), ("recv", 1, [[8]])])
            job.batch(1, "0", [("recv", 0, [[8]]), ("send", 0, [[8]])])
        job.batch(0, "0", [("send", 1, [[8]]), ("recv", 1, [[8]])], state="scheduled")
        job.batch(1, "0", [("send", 0, [[8]])])
        self.check(job, "p2p_unmatched", [1], "rank 0 to rank 1")


class Coalesced(Dumps):
    def test_collectives_that_run_as_one(self):
        job = fr_files.Job(3)
        for rank in job.ranks:
            job.coalesced(rank, "0", [("broadcast", [[4]], [[4]]), ("broadcast", [[5]], [[5]])])
            job.call(rank, "0", "all_reduce", [[4]])
        self.assertEqual(self.diagnose(job).json["findings"], [])

    def test_one_of_them_differs(self):
        job = fr_files.Job(3)
        for rank in job.ranks:
            second = [[4]] if rank == 1 else [[5]]
            job.coalesced(rank, "0", [("_broadcast_oop", [[4]], [[4]]), ("_broadcast_oop", second, second)],
                          end="ALLGATHER_coalesced", state="scheduled")
        self.check(job, "size_mismatch", [1], "2 coalesced: _broadcast_oop")

    def test_on_one_rank_only(self):
        job = fr_files.Job(2)
        job.call(0, "0", "all_reduce", [[4]], state="scheduled")
        job.coalesced(1, "0", [("_reduce_oop", [[4]], [[4]])] * 2, end="REDUCE_SCATTER_coalesced", state="scheduled")
        self.check(job, "op_mismatch", [0, 1], "2 coalesced: _reduce_oop")


class Files(Dumps):
    def test_recognised_by_content(self):
        job = self.trained()
        job.write(self.place.path / "fr", prefix="any name at all ")
        (self.place.path / "fr" / "notes.txt").write_text("no dump")
        (self.place.path / "fr" / "results_3.json").write_text('{"loss": 1.5}')
        analysis = self.place.analyze(self.place.path / "fr")
        self.assertEqual(analysis.json["run"]["ranks"], [0, 1, 2, 3])
        self.assertNotIn("damaged_file", [warning["kind"] for warning in analysis.json["warnings"]])

    def test_a_file_that_would_run_code(self):
        job = self.trained()
        job.write(self.place.path / "fr", without={3})
        proof = self.place.path / "it ran"
        (self.place.path / "fr" / "nccl_trace_rank_3").write_bytes(
            b"\x80\x02cos\nsystem\nX" + len(f"touch '{proof}'").to_bytes(4, "little") + f"touch '{proof}'".encode()
            + b"\x85R.")
        analysis = self.place.analyze(self.place.path / "fr")
        self.assertFalse(proof.exists())
        self.assertIn("GLOBAL at byte 2: this file asks to run code", json.dumps(analysis.json["warnings"]))

    def test_cut_files(self):
        job = self.trained()
        job.write(self.place.path / "fr")
        path = self.place.path / "fr" / "nccl_trace_rank_2"
        path.write_bytes(path.read_bytes()[:-100])
        analysis = self.place.analyze(self.place.path / "fr")
        self.assertIn("nccl_trace_rank_2: ", json.dumps(analysis.json["warnings"]))
        self.assertEqual(analysis.json["run"]["missing_ranks"], [2])

    def test_show(self):
        job = self.trained(2)
        job.p2p(0, "0", "send", 1, [[8]], state="started")
        job.write(self.place.path / "fr")
        lines = self.place.show(self.place.path / "fr", "--rank", "0")
        self.assertEqual([line["collective_seq_id"] for line in lines[:10]], list(range(1, 11)))
        self.assertEqual((lines[-1]["profiling_name"], lines[-1]["state"], lines[-1]["called_at"]),
                         ("nccl:send 0->1", "started", "train.py:212 in step"))
        only = self.place.show(self.place.path / "fr", "--rank", "1", "--seq", "3-4", "--op", "all_reduce")
        self.assertEqual([line["collective_seq_id"] for line in only], [3])

    def test_show_splits(self):
        job = self.trained(2, version="2.11")
        self.exchanged(job, [[1, 3], [2, 2]])
        job.write(self.place.path / "fr")
        *others, line = self.place.show(self.place.path / "fr", "--rank", "0")
        self.assertEqual((line["input_splits"], line["output_splits"]), ([1, 3], [1, 2]))
        self.assertNotIn("input_splits", others[-1])

    def say(self, *arguments):
        return subprocess.run([harness.BUILD / "analyzer" / "titan-analyze", *arguments], capture_output=True,
                              text=True,
                              timeout=60, check=False)

    def test_show_says_what_there_is_where_nothing_fits(self):
        path = self.place.path / "fr"
        self.trained(2).write(path)
        for filters, status, words in ((["--op", "AllReduce"], harness.HEALTHY, ""),
                                       (["--op", "bogus"], harness.FINDINGS,
                                        "operation bogus; there are _all_gather_base, all_reduce"),
                                       (["--rank", "99"], harness.FINDINGS, "there are ranks 0-1"),
                                       (["--comm", "nope"], harness.FINDINGS, "communicators default_pg"),
                                       (["--work", "--op", "all_reduce"], harness.UNUSABLE,
                                        "only --rank and --last apply")):
            with self.subTest(filters=filters):
                told = self.say("show", path, *filters)
                self.assertEqual(told.returncode, status, told.stderr)
                self.assertIn(words, told.stderr)

    def test_misplaced_and_misspelt_commands(self):
        path = str(self.place.path / "fr")
        self.trained(2).write(path)
        for arguments, words in ((["shwo", path], f"did you mean: titan-analyze show {path}"),
                                 ([path, "stacks"], f"the command comes first: titan-analyze stacks {path}"),
                                 ([path, "--rank", "1"], f"titan-analyze show {path} --rank 1"),
                                 (["show", path, "--rnak=1"], "did you mean --rank?"),
                                 ([path, "--onelin"], "did you mean --oneline?"),
                                 (["version"], "did you mean: titan-analyze --version"),
                                 (["show", path, "--last", "0"], "must be a number above 0"),
                                 ([path, "--attempt", "-1"], "must be a number of at least 0")):
            with self.subTest(arguments=arguments):
                told = self.say(*arguments)
                self.assertEqual(told.returncode, harness.UNUSABLE, told.stderr)
                self.assertTrue(told.stderr.startswith("titan-analyze: "), told.stderr)
                self.assertIn(words, told.stderr)


@unittest.skipUnless((TORCH.parent / "torchrun").exists(), f"no PyTorch for {TORCH} (scripts/setup installs it)")
class RealDumps(Dumps):
    def hang(self, fault):
        self.directory = self.place.path / "fr"
        for name in ("json", "done"):
            (self.directory / name).mkdir(parents=True)
        program = harness.ROOT / "tests" / "e2e" / "clients" / "fr_hang.py"
        done = self.place.run([TORCH, program, self.directory, fault],
                              self.place.env(preload=False, LD_LIBRARY_PATH=None, OMP_NUM_THREADS="1"), limit_s=180)
        self.assertEqual(len(list((self.directory / "done").iterdir())), 3, done.stderr)
        pickled = [self.directory / f"nccl_trace_rank_{rank}" for rank in range(3)]
        return [self.place.analyze(*pickled), self.place.analyze(self.directory / "json")]

    @harness.at_night
    def test_missing_ranks(self):
        for fault in ("sleep", "skip"):
            with self.subTest(fault=fault):
                self.place = self.new_place()
                for analysis in self.hang(fault):
                    head = analysis.json["findings"][0]
                    self.assertEqual((head["kind"], head["ranks"], head["victims"]), ("rank_not_arrived", [1], [0, 2]))
                    self.assertIn("all_reduce #7 on default_pg", head["summary"])
                pickled = self.place.analyze(*sorted(self.directory.glob("nccl_trace_rank_*")))
                self.assertIn("fr_hang.py", json.dumps(pickled.json["findings"][0]["evidence"]))
                self.assertIn("in last_step", json.dumps(pickled.json["findings"][0]["evidence"]))

    def test_another_operation(self):
        for analysis in self.hang("op"):
            head = analysis.json["findings"][0]
            self.assertEqual((head["kind"], head["ranks"], head["victims"]), ("op_mismatch", [1], [0, 2]), head)

    @harness.at_night
    def test_healthy(self):
        for analysis in self.hang("none"):
            self.assertEqual(analysis.json["findings"], [])


if __name__ == "__main__":
    harness.main()
