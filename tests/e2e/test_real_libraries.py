#!/usr/bin/env python3
"""NVIDIA's own libnccl.so.2 and libcudart on a machine without a GPU: the same failures with and without the preload,
and the recorder wrote them down."""

import os
import pathlib
import unittest

import harness


def find_library(name, *patterns):
    places = [harness.ROOT / ".venv" / "nvidia-wheels", harness.ROOT / ".venv" / "lib",
              pathlib.Path("/usr/local/cuda/lib64"),
              pathlib.Path("/usr/lib/x86_64-linux-gnu")]
    if "CUDA_HOME" in os.environ:
        places.insert(0, pathlib.Path(os.environ["CUDA_HOME"]) / "lib64")
    for place in places:
        for pattern in patterns:
            for path in sorted(place.rglob(pattern) if "wheels" in place.name
                               or place.name == "lib" else place.glob(pattern)):
                return path
    return None


NCCL = find_library("NCCL", "libnccl.so.2")
# The client was linked against the stand-in's libcudart.so.13: only that major can take its place.
CUDART = find_library("libcudart", "libcudart.so.13")


class RealLibraries(harness.Case):
    def libraries(self, *files):
        """A directory of links to the given libraries; the stand-ins fill in for what is missing."""
        directory = self.place.path / "lib"
        directory.mkdir(exist_ok=True)
        for file in files:
            (directory / file.name).symlink_to(file)
        return f"{directory}:{harness.stand_ins()}"

    def compare(self, path):
        """A fatal line of NCCL's own log names the pid: only results are compared."""
        traced = self.same_but_for_the_tracer([harness.client("e2e-api-results")], LD_LIBRARY_PATH=path,
                                              NCCL_DEBUG="NONE",
                                              RANK="0", WORLD_SIZE="1", TITANTRACE_DUMP_ON="exit")
        self.assertEqual(traced.status, 0)
        results = {}
        for line in traced.stdout.splitlines():
            if line.startswith(("nccl", "cuda")) and " = " in line:
                call, result = line.rsplit(" = ", 1)
                results.setdefault(call.split("(")[0], []).append(int(result))
        recorded = {}
        for call in self.place.show(self.place.dumps):
            recorded.setdefault(call["op"], []).append(call["result"])
        self.assertEqual(recorded["all_reduce"], results["ncclAllReduce"])
        self.assertEqual(recorded["broadcast"], results["ncclBroadcast"] + results["ncclBcast"])
        self.assertEqual(recorded["reduce_scatter"], results["ncclReduceScatter"])
        self.assertEqual(recorded["recv"], results["ncclRecv"])
        self.assertEqual(recorded["comm_abort"], results["ncclCommAbort"])
        self.assertEqual(recorded["comm_split"], results["ncclCommSplit"])
        self.assertEqual(len(recorded["comm_init"]), len(results["ncclCommInitRank"]) + 1)
        return results

    @unittest.skipUnless(NCCL, "no libnccl.so.2 of NVIDIA on this machine")
    def test_real_nccl(self):
        results = self.compare(self.libraries(NCCL))
        self.assertNotEqual(results["ncclAllReduce"], [0])

    @unittest.skipUnless(CUDART, "no libcudart.so.13 of the CUDA toolkit on this machine")
    def test_real_cudart(self):
        self.compare(self.libraries(CUDART))

    @unittest.skipUnless(NCCL and CUDART, "needs NVIDIA's libnccl.so.2 and libcudart.so.13")
    def test_real_nccl_and_cudart(self):
        results = self.compare(self.libraries(NCCL, CUDART))
        self.assertNotEqual(results["cudaStreamSynchronize"], [0])

    def test_stand_ins(self):
        self.compare(str(harness.stand_ins()))


if __name__ == "__main__":
    harness.main()
