#!/usr/bin/env python3
"""scripts/gpu-check against the simulated GPU, and what it says where there is none."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

SCRIPT = harness.ROOT / "scripts" / "gpu-check"
NAMES = ["single", "ranks", "blocked", "missing", "graphs", "capture-safety", "kill", "cupti", "plugin",
         "health", "pytorch", "markers", "jax", "mistakes", "call-costs", "overhead"]
NEED_A_GPU = {"health", "markers", "jax", "mistakes"}
LIMIT_S = 240  # it takes 15 s; beside other tests several times as long


def gpu_check(*arguments, **variables):
    env = {key: value
           for key, value in os.environ.items() if not key.startswith(("TITANTRACE", "SIMGPU_", "NCCL_", "LD_"))}
    return subprocess.run([SCRIPT, "--no-setup", "--build-dir", harness.BUILD, "--slow", str(harness.SLOW), *arguments],
                          capture_output=True, text=True, check=False, timeout=LIMIT_S * harness.SLOW,
                          env={**env, **{key: str(value) for key, value in variables.items()}})


class DryRun(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="titan-gpu-check-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.results = self.directory / "results.json"

    def dry_run(self, *arguments, **variables):
        ran = gpu_check("--dry-run", "--json", self.results, *arguments, **variables)
        return ran, json.loads(self.results.read_text()) if self.results.exists() else None

    def test_everything(self):
        rings_before = set(pathlib.Path("/dev/shm").glob("titan-gpu-check-*"))
        ran, results = self.dry_run()
        outcomes = {row["name"]: (row["outcome"], row["why"]) for row in results["checks"]}
        self.assertEqual(list(outcomes), NAMES)
        for name, (outcome, why) in outcomes.items():
            with self.subTest(name):
                lacks_pytorch = name == "pytorch" and outcome == "skipped" and "PyTorch" in why
                self.assertEqual(outcome, "skipped" if name in NEED_A_GPU or lacks_pytorch else "passed", why)
            if outcome == "skipped":
                print(f"{name} was skipped: {why}", file=sys.stderr)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("simulated GPU", ran.stdout)
        self.expect_described(results)
        self.expect_overhead(results["checks"][-2]["figures"])
        self.assertEqual(set(pathlib.Path("/dev/shm").glob("titan-gpu-check-*")) - rings_before, set(), "left behind")

    def expect_described(self, results):
        self.assertIs(results["simulated"], True)
        self.assertIn("simulated", results["gpu"]["name"])
        self.assertEqual((results["schema"], results["nccl"], results["cudart"], results["driver"]),
                         (1, "2.32.3", "13.0", None))
        self.assertNotIn(str(harness.ROOT), json.dumps(results), "results are published: no paths")

    def expect_overhead(self, figures):
        settings = {"without_preload", "off", "events", "timing", "writes", "all_on"}
        self.assertEqual(set(figures["medians"]), settings)
        for name in settings:
            for figure in ("launch_host_ns", "all_reduce_host_ns", "all_reduce_device_ns", "step_ms",
                           "cudaLaunchKernel_host_ns"):
                self.assertGreater(figures["medians"][name][figure], 0, (name, figure))
        sampled = figures["sampled"]["gpu-client"]
        if "not_measured" in sampled:
            print(f"what is in the library was not sampled: {sampled['not_measured']}", file=sys.stderr)
        else:
            self.assertGreater(sampled["in_library_ms"], 0)
            self.assertGreater(sampled["on_processor_ms"], sampled["in_library_ms"])

    def test_older_nccl_shares_a_gpu_as_nodes(self):
        ran, results = self.dry_run("--only", "ranks", "--ranks", "3", SIMGPU_NCCL_VERSION=22907)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        figures = results["checks"][0]["figures"]
        self.assertEqual((figures["ranks"], figures["calls_finished"]), (3, 45))
        self.assertIn("NCCL_HOSTID", figures["way"])
        self.assertEqual(results["nccl"], "2.29.7")

    def test_a_failed_check_is_told(self):
        broken = self.broken_build()
        ran = gpu_check("--dry-run", "--json", self.results, "--only", "single", "--build-dir", broken)
        results = json.loads(self.results.read_text())
        self.assertEqual((ran.returncode, results["checks"][0]["outcome"]), (1, "failed"))
        self.assertNotEqual(results["checks"][0]["why"], "")
        self.assertIn("failed: single", ran.stdout)
        self.assertIn("gpu-client", (broken / "gpu-check.log").read_text())

    def broken_build(self):
        """The build, with a tracer that records nothing."""
        broken = self.directory / "broken"
        (broken / "interpose").mkdir(parents=True)
        for part in ("analyzer", "tests"):
            (broken / part).symlink_to(harness.BUILD / part)
        (broken / "interpose" / "libtitantrace.so").symlink_to(harness.BUILD / "tests" / "simgpu" / "libsimtrain.so")
        return broken

    def test_simulated_results_are_not_kept_as_real_ones(self):
        kept = harness.ROOT / "benchmarks" / "results" / "simulated.json"
        ran = gpu_check("--dry-run", "--only", "single", "--json", kept)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("benchmarks/results", ran.stderr)
        self.assertFalse(kept.exists())


class AsOnARealMachine(unittest.TestCase):
    """Everything but the dry run's short cuts: a driver that the loader finds, named as NVIDIA's is, NCCL and the
    runtime in $CUDA_HOME, and of the build only what can be brought along. Behind it is the simulated GPU, which the
    results tell."""

    def setUp(self):
        if harness.SLOW > 1:
            reason = "a sanitized stand-in of the driver cannot be loaded into this python"
            print(f"{self.id()} is skipped: {reason}", file=sys.stderr)
            self.skipTest(reason)
        directory = tempfile.TemporaryDirectory(prefix="titan-gpu-check-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.libraries = self.directory / "toolkit" / "lib64"
        self.libraries.mkdir(parents=True)
        for soname, file in (("libcuda.so.1", "libcuda.so.580.95.05"), ("libnccl.so.2", "libnccl.so.2.32.3"),
                             ("libcudart.so.13", "libcudart.so.13.0.96")):
            shutil.copy(harness.stand_ins() / soname, self.libraries / file)
            (self.libraries / soname).symlink_to(file)
        self.build = self.directory / "build"
        for part in ("interpose/libtitantrace.so", "analyzer/titan-analyze", "tests/gpu/gpu-client",
                     "tests/gpu/gpu-runtime-client", "tests/gpu/gpu-sampled"):
            (self.build / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(harness.BUILD / part, self.build / part)

    def gpu_check(self, *arguments, **variables):
        return gpu_check("--build-dir", self.build, *arguments, CUDA_HOME=self.directory / "toolkit",
                         LD_LIBRARY_PATH=self.libraries, **variables)

    def test_finds_and_uses_the_machine_s_libraries(self):
        path = self.directory / "new" / "results.json"
        ran = self.gpu_check("--only", "single", "--only", "ranks", "--only", "kill", "--json", path, "--commit", "abc")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("NCCL from: CUDA_HOME", ran.stderr)
        results = json.loads(path.read_text())
        self.assertEqual([row["outcome"] for row in results["checks"]], ["passed"] * 3)
        self.assertEqual((results["cudart"], results["tracer_commit"]), ("13.0", "abc"))
        self.assertEqual(results["checks"][1]["figures"]["way"], "a GPU for each rank")

    def test_the_simulated_gpu_is_not_taken_for_a_real_one(self):
        before = sorted((harness.ROOT / "benchmarks" / "results").iterdir())
        ran = self.gpu_check("--only", "single")
        self.assertEqual(ran.returncode, 2, ran.stdout)
        self.assertIn("benchmarks/results", ran.stderr)
        self.assertEqual(sorted((harness.ROOT / "benchmarks" / "results").iterdir()), before)

    def test_no_nccl(self):
        ran = self.gpu_check("--only", "single", "--nccl", self.directory / "nothing.so")
        self.assertEqual(ran.returncode, 2, ran.stdout)
        self.assertIn("nothing.so", ran.stderr)


class WithoutGpu(unittest.TestCase):
    def test_says_so(self):
        ran = gpu_check(CUDA_VISIBLE_DEVICES="")
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertIn("no GPU here", ran.stderr)
        self.assertIn("--dry-run", ran.stderr)
        self.assertNotIn("Traceback", ran.stderr)

    def test_list(self):
        ran = gpu_check("--list")
        self.assertEqual(ran.returncode, 0)
        self.assertEqual([line.split()[0] for line in ran.stdout.splitlines()], NAMES)


if __name__ == "__main__":
    harness.main()
