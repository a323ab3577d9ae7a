#!/usr/bin/env python3
"""Every way to reach NCCL is recorded, once, and reaches the library that the caller meant."""

import sys

import harness


class Interposition(harness.Case):
    def calls_of(self, scenario, *filters, state=None, **settings):
        """The calls in the ring while the program holds still; those of `state` that are to be."""
        self.client = self.place.start_rank("e2e-nccl-use", scenario, **settings)
        self.client.wait_says("done")
        if state:  # the GPU is asked every 20 ms
            harness.wait_for(lambda: {call["state"] for call in self.place.show(self.place.rings, *filters)}
                             == {state}, 10, f"all are {state}")
        calls = self.place.show(self.place.rings, *filters)
        self.place.go()
        self.assertEqual(self.client.wait(), 0)
        return calls

    def test_bcast_is_recorded_once(self):
        """ncclBcast calls ncclBroadcast through the PLT."""
        calls = self.calls_of("broadcast-once", "--op", "broadcast")
        self.assertEqual([call["seq"] for call in calls], [0, 1])

    def test_init_all_is_recorded_once(self):
        """It calls ncclGetUniqueId, and in some versions ncclCommInitRank, through the PLT."""
        calls = self.calls_of("init-all")
        self.assertEqual([call["op"] for call in calls], ["comm_init_all"] + ["all_reduce"] * 4)
        reduces = calls[1:]
        self.assertEqual(sorted(call["comm_rank"] for call in reduces), [0, 1, 2, 3])
        self.assertEqual({call["seq"] for call in reduces}, {0})
        self.assertEqual(len({call["communicator"] for call in calls}), 1)
        self.assertEqual(len({call["group"] for call in reduces}), 1)

    def test_concurrent_threads_lose_nothing(self):
        calls = self.calls_of("concurrent", "--op", "all_reduce")
        communicators = {call["communicator"] for call in calls}
        self.assertEqual((len(calls), len(communicators)), (8 * 200, 8))
        for communicator in communicators:
            own = [(call["seq"], call["count"]) for call in calls if call["communicator"] == communicator]
            self.assertEqual(own, [(seq, seq + 1) for seq in range(200)])

    def test_nonblocking_communicator(self):
        calls = self.calls_of("nonblocking")
        reduces = [call for call in calls if call["op"] == "all_reduce"]
        self.assertEqual([call["seq"] for call in reduces], [0, 1, 2])
        self.assertEqual({call["communicator_name"].split(":")[0] for call in reduces}, {"nonblocking"})

    def test_capture_stays_valid_and_is_flagged(self):
        calls = self.calls_of("capture", "--op", "all_reduce")
        plain = self.place.run([harness.client("e2e-nccl-use"), "capture"], self.place.env(preload=False))
        self.assertEqual(self.client.stdout, plain.stdout)  # the graph has as many nodes as without us
        # Captured once, which is no execution, and then issued by each of three launches.
        self.assertEqual([call["count"] for call in calls], [16, 32, 32, 32, 32, 16])
        self.assertEqual([call["seq"] for call in calls], [0, None, 1, 2, 3, 4])
        flags = [call["flags"] for call in calls]
        self.assertEqual(flags[0], flags[5])
        self.assertNotEqual(flags[0], flags[1])
        self.assertIsNone(calls[1]["gpu_finished_ticks"], "no event is recorded in a capture")

    def test_failures_are_recorded_and_passed_on(self):
        calls = self.calls_of("failing-calls")
        plain = self.place.run([harness.client("e2e-nccl-use"), "failing-calls"], self.place.env(preload=False))
        self.assertEqual(self.client.stdout, plain.stdout)
        results = [str(call["result"]) for call in calls if call["op"] in ("all_reduce", "broadcast")]
        self.assertEqual(results, self.client.stdout.splitlines()[0].split())
        self.assertNotIn("0", results)
        self.assertEqual({call["state"] for call in calls if call["op"] in ("all_reduce", "broadcast")}, {"failed"})

    def test_memory_of_nccl_and_what_it_tells_of_errors(self):
        """ncclMemAlloc and ncclMemFree may block: they are calls like cudaMalloc. An error's text is kept once."""
        client = self.place.start_rank("e2e-nccl-use", "memory-and-errors")
        client.wait_says("done")
        calls = {call["call"]: call for call in self.place.show(self.place.rings, "--cuda-calls")}
        labels = [(marker["name"], marker["text"]) for marker in self.place.show(self.place.rings, "--markers")]
        self.place.go()
        self.assertEqual(client.wait(), 0)
        plain = self.place.run([harness.client("e2e-nccl-use"), "memory-and-errors"], self.place.env(preload=False))
        self.assertEqual(client.stdout, plain.stdout)
        for name in ("ncclMemAlloc", "ncclMemFree"):
            self.assertEqual(calls[name]["result"], 0)
            self.assertIsNotNone(calls[name]["returned_ticks"])
        self.assertNotEqual(calls["ncclMemFree"]["object"], 0)
        self.assertEqual(labels, [("nccl_last_error", "a call with an invalid datatype or root")])

    def test_arguments(self):
        call = self.calls_of("broadcast-once", "--op", "broadcast", state="finished")[0]
        wanted = {"rank": 0, "count": 16, "datatype": "float32", "peer": 0, "comm_rank": 0, "result": 0,
                  "state": "finished"}
        self.assertEqual({key: call[key] for key in wanted}, wanted)

    def test_two_copies_reach_their_own(self):
        users = [harness.client(f"libtiny_user{number}.so") for number in (1, 2)]
        run = self.same_but_for_the_tracer([harness.client("e2e-two-copies"), *users])
        self.assertEqual(run.stdout.splitlines(), ["version 21801 reduce 1", "version 21802 reduce 2"] * 2)

    def test_function_that_an_old_copy_lacks(self):
        users = [harness.client(f"libtiny_user{number}.so") for number in (1, 2)]
        run = self.place.run([harness.client("e2e-two-copies"), *users, "newer"], self.place.env(RANK="0"))
        self.assertEqual(run.status, 0)
        self.assertEqual(run.stdout.splitlines()[-1], "newer fails")
        self.assertEqual(run.stderr.count("ncclAlltoAll"), 1, run.stderr)

    def test_loaded_privately_through_another_library(self):
        """As PyTorch's libtorch_cuda.so: dlopen RTLD_LOCAL from Python, NCCL as its NEEDED."""
        code = ("import ctypes, sys; lib = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL);"
                "print(lib.user_version(), lib.user_reduce(), lib.user_reduce())")
        run = self.same_but_for_the_tracer([sys.executable, "-c", code, harness.client("libtiny_user2.so")], RANK="0",
                                           TITANTRACE_DUMP_ON="exit")
        self.assertEqual(run.stdout, "21802 2 2\n")
        self.assertEqual([call["op"] for call in self.place.show(self.place.dumps)], ["all_reduce"] * 2)


if __name__ == "__main__":
    harness.main()
