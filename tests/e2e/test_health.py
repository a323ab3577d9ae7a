#!/usr/bin/env python3
"""GPUs in records and verdicts: NVML is a stand-in (tests/simgpu/nvml), whose readings the test writes."""

import json
import os
import re

import harness

RANKS = 4
# As on an H100 that computes.
WELL = {"power_mw": 640000, "power_limit_mw": 700000, "temperature_c": 61, "utilization": 100, "sm_clock": 1755,
        "max_sm_clock": 1980, "clock_limits": 4, "performance_state": 0, "ecc_uncorrected": 0, "pcie_width": 16,
        "max_pcie_width": 16, "nvlinks_up": 18, "nvlink_replays": 3, "nvlink_recoveries": 0, "memory_used": 40 << 30}
SAID = r"GPU 1 of rank 1 \(dp rank 1\) on host \S+ (.*?)(?: since|, the last in| in) step \d+$"


def nvml():
    return harness.stand_ins() / "nvml"


class Health(harness.Case):
    def setUp(self):
        if not (nvml() / "libnvidia-ml.so.1").exists():
            self.skipTest("no nvml.h: the stand-in for NVML is not built")
        self.readings = self.place.path / "nvml"
        self.gpus = [dict(WELL) for _ in range(RANKS)]
        self.write()

    def write(self):
        """All at once: a rank may be reading."""
        fresh = self.readings.with_suffix(".new")
        fresh.write_text("".join(f"{gpu} {key} {value}\n" for gpu, state in enumerate(self.gpus)
                                 for key, value in state.items()))
        os.replace(fresh, self.readings)

    def start(self, *options, **settings):
        settings = {"TITANTRACE_HEALTH_S": 0.2, "TITANTRACE_TIMEOUT_S": 2, "SIMGPU_NVML": self.readings, **settings}
        libraries = f"{harness.stand_ins()}:{nvml()}"
        return self.place.start([harness.stand_ins() / "titan-sim", "--ranks", str(RANKS), "--step-ms", "20", *options],
                                self.place.env(LD_LIBRARY_PATH=libraries, **settings))

    def health(self, rank, name, source=None):
        return [row for row in self.place.show(source or self.place.dumps, "--health", "--rank", str(rank))
                if row["name"] == f"gpu.{rank}.{name}"]

    def hang(self, **settings):
        """Rank 2 falls asleep in step 30; GPU 3 gets hot in step 10 or so."""
        job = self.start("--steps", "100000", SIMGPU_FAULTS="sleep rank=2 comm=world step=60 ms=60000", **settings)
        newest = lambda: self.place.show(self.place.rings, "--last", "1", starting=True)
        harness.wait_for(lambda: any(row["step"] >= 10 for row in newest()), 20, "step 10")
        self.gpus[3]["clock_limits"] = 0x40 | 0x8
        self.gpus[3]["temperature_c"] = 91
        self.gpus[2].update(utilization=0, power_mw=71000)
        self.write()
        harness.wait_for(lambda: self.place.dumped_ranks() == set(range(RANKS)), 30, "a dump of each rank")
        job.end()
        return self.place.analyze(self.place.dumps)

    def test_in_a_hang(self):
        analysis = self.hang()
        head = analysis.json["findings"][0]
        self.assertEqual((head["kind"], head["ranks"]), ("rank_not_arrived", [2]))
        self.assertIn("GPU 2 of rank 2: 0 % busy at 71 W of 700 W: nothing runs there; 61 C, 1755 of 1980 MHz",
                      head["evidence"])
        fault, = [finding for finding in analysis.json["findings"] if finding["kind"] == "hardware_fault"]
        self.assertEqual((fault["ranks"], fault["confidence"]), ([3], "certain"))
        self.assertRegex(fault["summary"], r"^GPU 3 of rank 3 \(dp rank 3\) on host \S+ is throttled "
                         r"\(hardware slowdown, too hot \(hardware\)\) since step \d+$")
        self.assertIn("that GPU now: 100 % busy at 640 W of 700 W; 91 C, 1755 of 1980 MHz", fault["evidence"])
        limits = self.health(3, "clock_limits")
        self.assertEqual([row["value"] for row in limits], [4, 0x48])
        self.assertGreaterEqual(limits[1]["since_step"], 10)
        # What does not change is written once.
        self.assertEqual([row["value"] for row in self.health(3, "max_sm_clock_mhz")], [1980])
        self.assertEqual([row["value"] for row in self.health(0, "nvlinks_up")], [18])

    def test_faults_of_a_job_that_runs_on(self):
        job = self.start("--steps", "100000", TITANTRACE_TIMEOUT_S=60)
        harness.wait_for(lambda: all(self.place.show(self.place.rings, "--health", "--rank", str(rank), starting=True)
                                     for rank in range(RANKS)), 20, "readings")
        self.gpus[1].update(xid=79, ecc_uncorrected=2, pcie_width=8, nvlinks_up=17, nvlink_recoveries=1)
        self.write()
        said = harness.wait_for(self.faults_of_rank_1, 20, "all faults")
        self.assertEqual(said, {
            "has 17 of 18 NVLinks left", "has 8 of 16 PCIe lanes",
            "has counted 1 nvlink_recoveries since the process began",
            "has had 2 uncorrected memory errors since the process began",
            "reported Xid 79 (the GPU has fallen off the bus)"})
        job.end()

    def test_an_xid_that_the_program_may_have_brought(self):
        """Its GPU then removes the work, which is another Xid, and the program ends at once."""
        job = self.start("--steps", "100000", TITANTRACE_TIMEOUT_S=60, TITANTRACE_HEALTH_S=60)
        harness.wait_for(lambda: all(self.place.show(self.place.rings, "--health", "--rank", str(rank), starting=True)
                                     for rank in range(RANKS)), 20, "readings")
        for xid in (31, 45):
            self.gpus[1]["xid"] = xid
            self.write()
            # Although the rest is read once a minute here.
            harness.wait_for(lambda number=xid: self.health(1, f"xid_{number}", self.place.rings), 10, f"Xid {xid}")
        error, = self.place.analyze(self.place.rings).json["findings"]
        self.assertEqual((error["kind"], error["ranks"], error["confidence"]), ("gpu_error", [1], "likely"))
        self.assertRegex(error["summary"], r"reported Xid 31 \(memory page fault\) in step \d+: usually a fault of the "
                         "program, not of the GPU$")
        job.end()

    def test_the_control_group_is_read_or_is_said_not_to_be(self):
        job = self.start("--steps", "60", TITANTRACE_DUMP_ON="exit")
        self.assertEqual(job.wait(), 0, job.stderr)
        for rank in range(RANKS):
            names = {row["name"] for row in self.place.show(self.place.dumps, "--health", "--rank", str(rank))}
            self.assertEqual(len(names & {"cgroup.oom_kills", "cgroup.memory_events_readable"}), 1, names)

    def faults_of_rank_1(self):
        """What is said of its GPU, once all of it is."""
        faults = [finding for finding in self.place.analyze(self.place.rings).json["findings"]
                  if finding["kind"] == "hardware_fault"]
        for fault in faults:
            self.assertEqual(fault["ranks"], [1])
            self.assertRegex(fault["summary"], SAID)
        return {re.match(SAID, fault["summary"]).group(1) for fault in faults} if len(faults) == 5 else None

    def test_titan_top_shows_it(self):
        job = self.start("--steps", "100000", TITANTRACE_TIMEOUT_S=60)
        harness.wait_for(lambda: all(self.place.show(self.place.rings, "--health", "--rank", str(rank), starting=True)
                                     for rank in range(RANKS)), 20, "readings")
        self.gpus[3]["clock_limits"] = 0x40
        self.write()
        ranks = harness.wait_for(self.throttled_in_titan_top, 20, "a GPU that is throttled")
        self.assertEqual([rank["gpu_throttled"] for rank in ranks], [False, False, False, True])
        self.assertEqual({rank["gpu"] for rank in ranks}, {"640 W 61 C 100 %"})
        text = self.titan_top("--once").stdout
        self.assertRegex(text, r"(?m)^ +3 .*640 W 61 C 100 % throttled")
        job.end()

    def titan_top(self, *options):
        return self.place.tool("titan-top", "--ring-dir", self.place.rings, *options)

    def throttled_in_titan_top(self):
        ranks = json.loads(self.titan_top("--json", "--once").stdout)["jobs"][0]["ranks"]
        return ranks if any(rank["gpu_throttled"] for rank in ranks) else None

    def test_a_healthy_job_says_nothing(self):
        job = self.start("--steps", "60", TITANTRACE_DUMP_ON="exit")
        self.assertEqual(job.wait(), 0, job.stderr)
        self.assert_healthy(self.place.analyze(self.place.dumps))
        uuids = {row["name"]: row["text"] for row in self.place.show(self.place.dumps, "--markers")
                 if row["marker"] == "label"}
        self.assertNotIn("gpu.0.uuid", uuids)  # it is the tracer's own, and in the table of labels alone

    def test_nvml_that_hangs_keeps_nobody(self):
        """Each of its calls takes 5 s: the job ends when it ends."""
        job = self.start("--steps", "5", SIMGPU_NVML_SLOW_MS=5000)
        self.assertEqual(job.wait(), 0, job.stderr)

    def test_switched_off(self):
        job = self.start("--steps", "20", TITANTRACE_HEALTH_S=0, TITANTRACE_DUMP_ON="exit")
        self.assertEqual(job.wait(), 0, job.stderr)
        self.assertEqual(self.place.show(self.place.dumps, "--health"), [])


if __name__ == "__main__":
    harness.main(at_once=3, rings=harness.SMALL_RINGS)
