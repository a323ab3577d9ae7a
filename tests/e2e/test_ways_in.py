#!/usr/bin/env python3
"""Callers that dodge the PLT are seen, each call once, with the same results: dlsym, private scopes, a static runtime,
and a library whose own calls find its own dependencies first."""

import collections
import shutil
import sys
import textwrap

import cuda_records
import harness

FROM_PLUGIN = 64
# What clients/ways_in.c does; `blocking` and `work` by the functions that a dynamic runtime has in front.
COLLECTIVES = ["comm_init"] + ["all_reduce"] * 3 + ["comm_destroy"]
WORK = {"kernel": 3, "memory_set": 3, "host_function": 3, "event_record": 3, "event_wait": 3}

CTYPES = textwrap.dedent("""
    import ctypes, os, sys
    nccl, cuda, driver = (ctypes.CDLL(path) for path in (*sys.argv[1:3], "libcuda.so.1"))
    class Id(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 128)]
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    body = ctypes.CFUNCTYPE(None, pointer)(lambda arguments: None)
    class Kernel(ctypes.Structure):  # simgpu.h
        _fields_ = [("name", ctypes.c_char_p), ("body", type(body)), ("arg_count", ctypes.c_uint),
                    ("bytes", ctypes.c_uint * 8)]
    class Binary(ctypes.Structure):
        _fields_ = [("magic", ctypes.c_uint), ("count", ctypes.c_uint), ("kernels", ctypes.POINTER(Kernel))]
    binary = Binary(0x4d495347, 1, ctypes.pointer(Kernel(b"ctypes_kernel", body)))
    driver.cuModuleGetFunction.argtypes = [pointer, pointer, ctypes.c_char_p]
    driver.cuLaunchKernel.argtypes = [pointer] + [ctypes.c_uint] * 7 + [pointer] * 3
    nccl.ncclCommInitRank.argtypes = [pointer, ctypes.c_int, Id, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [pointer, pointer, size, ctypes.c_int, ctypes.c_int, pointer, pointer]
    nccl.ncclCommDestroy.argtypes = [pointer]
    cuda.cudaMalloc.argtypes = [pointer, size]
    cuda.cudaMemsetAsync.argtypes = [pointer, ctypes.c_int, size, pointer]
    cuda.cudaMemcpy.argtypes = [pointer, pointer, size, ctypes.c_int]
    cuda.cudaStreamSynchronize.argtypes = [pointer]
    identity, comm, stream, device = Id(), pointer(), pointer(), pointer()
    results = [nccl.ncclGetUniqueId(ctypes.byref(identity)), nccl.ncclCommInitRank(ctypes.byref(comm), 1, identity, 0),
               cuda.cudaStreamCreate(ctypes.byref(stream)), cuda.cudaMalloc(ctypes.byref(device), 64)]
    module, function = pointer(), pointer()
    results += [driver.cuModuleLoadData(ctypes.byref(module), ctypes.byref(binary)),
                driver.cuModuleGetFunction(ctypes.byref(function), module, b"ctypes_kernel")]
    results += [driver.cuFuncLoad(function)]
    for i in range(3):
        results += [driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, None, None)]
        results += [cuda.cudaMemsetAsync(device, i, 64, stream),
                    nccl.ncclAllReduce(device, device, 16, 2, 0, comm, stream),
                    cuda.cudaStreamSynchronize(stream)]
    words = (ctypes.c_int * 16)()
    results += [cuda.cudaMemcpy(words, device, 64, 2), nccl.ncclCommDestroy(comm)]
    print(results, list(words))
""")


class WaysIn(harness.Case):
    def traced(self, argv, **settings):
        """Runs it with and without the preload; returns (operations recorded, records) of the traced one."""
        self.ran = self.same_but_for_the_tracer(argv, RANK="0", WORLD_SIZE="1", TITANTRACE_DUMP_ON="exit", **settings)
        return self.recorded()

    def recorded(self):
        self.assertEqual(self.ran.status, 0, self.ran.stdout)
        dump, = self.place.dump_files()
        self.calls = self.place.show(self.place.dumps)
        return [call["op"] for call in self.calls], cuda_records.Records(dump)

    def libraries(self):
        return [harness.stand_ins() / "libnccl.so.2", harness.stand_ins() / "libcudart.so.13"]

    def assert_seen(self, operations, records, synchronise="cudaStreamSynchronize"):
        self.assertEqual(operations, COLLECTIVES)
        self.assertEqual(collections.Counter(work.kind for work in records.work()), WORK)
        blocking = collections.Counter(call.call for call in records.blocking())
        self.assertEqual(blocking[synchronise], 3, blocking)
        self.assertTrue(all(call.finished and call.result == 0 for call in records.blocking()))
        self.assertEqual(records.counted(), (sum(WORK.values()), 3))
        self.assert_kernel_in_front("ways_in_add_one")

    def assert_kernel_in_front(self, name):
        """Of each collective, on its stream."""
        kernels = [work for work in self.place.show(self.place.dumps, "--work") if work["work"] == "kernel"]
        collectives = [call for call in self.calls if call["op"] == "all_reduce"]
        self.assertEqual([kernel["name"] for kernel in kernels], [name] * len(collectives))
        self.assertEqual([kernel["stream"] for kernel in kernels], [call["stream"] for call in collectives])
        times = [one["entered_ticks"] for pair in zip(kernels, collectives) for one in pair]
        self.assertEqual(times, sorted(times))

    def test_ctypes(self):
        """As vLLM's pynccl: no PLT at all."""
        operations, records = self.traced([sys.executable, "-c", CTYPES, *self.libraries()])
        self.assertEqual(operations, COLLECTIVES)
        self.assertEqual(collections.Counter(work.call for work in records.work()),
                         {"cudaMemsetAsync": 3, "cuLaunchKernel": 3})
        self.assertEqual(collections.Counter(call.call for call in records.blocking()),
                         {"cudaMalloc": 1, "cudaStreamSynchronize": 3, "cudaMemcpy": 1, "cuModuleLoadData": 1,
                          "cuFuncLoad": 1})
        self.assert_kernel_in_front("ctypes_kernel")

    def test_local_and_deepbind(self):
        for flags in ("local", "deepbind"):
            with self.subTest(flags=flags):
                self.place = self.new_place()
                operations, records = self.traced([harness.client("e2e-ways-in"), flags, *self.libraries()])
                self.assert_seen(operations, records)

    def library(self, flags):
        """It has a PLT of its own, and links libnccl and libcudart itself."""
        return [harness.client("e2e-ways-in"), flags, harness.client("libways_in.so")]

    def test_library_with_its_own_plt(self):
        operations, records = self.traced(self.library("local"))
        self.assert_seen(operations, records)

    def test_library_that_finds_its_own_dependencies_first(self):
        """No name of ours comes into its sight: NCCL's profiler interface is what is left, and tells of collectives."""
        operations, records = self.traced(self.library("deepbind"))
        self.assertEqual(operations, ["all_reduce"] * 3)
        self.assertEqual([(call["seq"], call["flags"] & FROM_PLUGIN) for call in self.calls],
                         [(seq, FROM_PLUGIN) for seq in range(3)])
        self.assertEqual((list(records.work()), list(records.blocking()), records.counted()), ([], [], (0, 0)))

    def test_library_that_finds_its_own_dependencies_first_without_the_plugin(self):
        self.same_but_for_the_tracer(self.library("deepbind"), RANK="0", WORLD_SIZE="1", TITANTRACE_DUMP_ON="exit",
                                     TITANTRACE_NCCL_PLUGIN="off")
        self.assertEqual(self.place.dump_files(), [])

    def test_cupti_sees_what_such_a_library_does(self):
        if not list(harness.stand_ins().glob("libcupti.so*")):
            self.skipTest("the toolkit has no CUPTI headers, so that there is no stand-in CUPTI")
        operations, records = self.traced(self.library("deepbind"), TITANTRACE_CUDA="cupti")
        self.assertEqual(operations, ["all_reduce"] * 3)
        self.assertEqual(collections.Counter(work.kind for work in records.work()), WORK)
        self.assert_kernel_in_front("ways_in_add_one")

    def test_static_runtime(self):
        """Nothing of the runtime is exported: its calls are seen in the driver, whose functions it looks up."""
        print("static runtime: simgpu's archive (with NVIDIA's the stand-in driver lacks functions: error 36)")
        extension = [harness.client("e2e-ways-in"), "local", harness.client("libways_in_static.so")]
        for argv in ([harness.client("e2e-ways-in-static")], extension):
            with self.subTest(argv=argv[-1].name):
                self.place = self.new_place()
                operations, records = self.traced(argv)
                self.assert_seen(operations, records, "cuStreamSynchronize")
                self.assertLessEqual({work.call for work in records.work() if work.kind == "event_wait"},
                                     {"cuStreamWaitEvent"})

    def test_preloaded_twice(self):
        """The same file, and a copy of it (say, of the system's and of a virtual environment's installation)."""
        copy = self.place.path / "libtitantrace.so"
        shutil.copy(harness.tracer(), copy)
        for second in (harness.tracer(), copy):
            with self.subTest(second=second):
                self.place = self.new_place()
                self.ran = self.place.run([harness.client("e2e-ways-in"), "local", *self.libraries()],
                                          self.place.env(RANK="0", WORLD_SIZE="1", TITANTRACE_DUMP_ON="exit",
                                                         LD_PRELOAD=f"{harness.tracer()}:{second}"))
                self.assert_seen(*self.recorded())

    def test_two_copies_by_dlsym(self):
        copies = [harness.client(f"libtiny_nccl{number}.so") for number in (1, 2)]
        operations, _ = self.traced([harness.client("e2e-ways-copies"), *copies])
        self.assertEqual(self.ran.stdout.splitlines(), ["version 21801 reduces to 1", "version 21802 reduces to 2"] * 3)
        self.assertEqual(operations, ["all_reduce"] * 6)

    def test_off_leaves_collectives(self):
        operations, records = self.traced([harness.client("e2e-ways-in"), "local", *self.libraries()],
                                          TITANTRACE_CUDA="off")
        self.assertEqual(operations, COLLECTIVES)
        self.assertEqual((list(records.work()), list(records.blocking()), records.counted()), ([], [], (0, 0)))

    def test_sampled_launches_keep_what_orders_streams(self):
        for every, sets in ((0, 0), (2, None)):
            with self.subTest(every=every):
                self.place = self.new_place()
                _, records = self.traced([harness.client("e2e-ways-in"), "local", *self.libraries()],
                                         TITANTRACE_LAUNCHES=every)
                kinds = collections.Counter(work.kind for work in records.work())
                self.assertEqual((kinds["event_record"], kinds["event_wait"]), (3, 3))
                others = kinds["kernel"] + kinds["memory_set"] + kinds["host_function"]
                self.assertEqual(others, 0) if sets == 0 else self.assertIn(others, range(1, 9))
                self.assertEqual(records.counted().launches, sum(WORK.values()))


if __name__ == "__main__":
    harness.main()
