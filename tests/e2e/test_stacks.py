#!/usr/bin/env python3
"""Stacks of all threads in a dump: real threads in known places, named by the analyzer."""

import pathlib
import platform
import subprocess
import sys
import unittest

import harness


class Stacks(harness.Case):
    def dump(self, scenario, **settings):
        ran = self.place.run_rank("e2e-stacks", scenario, **settings)
        self.assertEqual((ran.status, ran.stdout), (0, "done\n"), ran.stderr)
        return self.place.stacks()[0]

    def threads_in(self, process, function):
        """Chains of function names, innermost first, of the threads that stand in a function."""
        chains = [[frame["function"] for frame in thread["frames"]] for thread in process["threads"]]
        return [chain for chain in chains if any(function in name for name in chain)]

    def test_every_thread_says_where_it_stands(self):
        process = self.dump("kinds")
        main = process["threads"][0]
        self.assertEqual(main["tid"], process["pid"])
        self.assertEqual(main["outcome"], "unwound")
        self.assertTrue(any("titan_dump" in frame["function"] for frame in main["frames"]), main)
        self.assertIn("_start", main["frames"][-1]["function"])
        deep, = [chain for chain in self.threads_in(process, "asleep") if sum("asleep" in name for name in chain) > 1]
        self.assertEqual(sum("asleep" in name for name in deep), 21)
        for function in ("spinning", "in_the_heap", "in_the_linker"):
            self.assertEqual(len(self.threads_in(process, function)), 1, function)
        deaf, = [thread for thread in process["threads"] if thread["name"] == "deaf"]
        self.assertEqual((deaf["outcome"], deaf["state"], deaf["frames"]), ("blocks_signal", "R", []))
        self.assertEqual(len(self.threads_in(process, "deaf_and_waiting")), 1,
                         "one that waits is read without a signal")
        ours = {thread["name"] for thread in process["threads"] if thread["outcome"] == "ours"}
        self.assertIn("titan-watch", ours)

    def test_inlined_functions_have_lines_of_their_own(self):
        source = (pathlib.Path(__file__).parent / "clients" / "stacks.cpp").read_text().splitlines()
        line_of = {comment: next(i for i, line in enumerate(source, 1) if line.endswith("// " + comment))
                   for comment in ("the line inside", "the line around it")}
        process = self.dump("kinds")
        frame, = [frame for thread in process["threads"] for frame in thread["frames"]
                  if "around_an_inlined_function" in frame["function"]]
        self.assertEqual((pathlib.Path(frame["file"]).name, frame["line"]),
                         ("stacks.cpp", line_of["the line around it"]))
        inlined, = frame["inlined"]
        self.assertIn("put_into_its_caller", inlined["function"])
        self.assertEqual(inlined["line"], line_of["the line inside"])
        merged, = [thread["merged"] for thread in process["threads"]
                   if any("put_into" in text for text in thread["merged"])]
        place = next(i for i, text in enumerate(merged) if "put_into" in text)
        self.assertIn(f"stacks.cpp:{line_of['the line inside']} (e2e-stacks, inlined)", merged[place])
        self.assertIn(f"stacks.cpp:{line_of['the line around it']} (e2e-stacks)", merged[place + 1])

    def test_text(self):
        self.dump("kinds")
        for arguments, wanted in (((), "main"), (("--all-threads",), "spinning at"),
                                  (("--list",), "blocks all signals")):
            done = self.place.tool("titan-analyze", "stacks", self.place.dumps, "--no-rings", *arguments)
            self.assertIn(wanted, done.stdout)

    @unittest.skipUnless(platform.machine() == "x86_64", "the generated code is for x86-64")
    def test_generated_code_with_frame_pointers(self):
        chain, = self.threads_in(self.dump("generated"), "in_generated_code")
        place = next(i for i, name in enumerate(chain) if "in_generated_code" in name)
        self.assertEqual(chain[place - 1], "", "a frame without a name between its caller and what it calls")
        self.assertIn("asleep", chain[place - 2])

    @unittest.skipUnless(platform.machine() == "x86_64", "elsewhere these stacks are cut")
    def test_frame_pointers_that_nobody_saved(self):
        process = self.dump("frame-pointers")
        for function, threads in (("calls_polls", 2), ("calls_through_pointer", 1), ("calls_realigned", 1)):
            self.assertEqual(len(self.threads_in(process, function)), threads, function)
        self.assertEqual({thread["outcome"] for thread in process["threads"]}, {"unwound", "ours"})

    def test_without_libunwind(self):
        hidden = self.place.path / "hidden"
        hidden.mkdir()
        for name in ("libunwind-x86_64.so.8", "libunwind-aarch64.so.8"):
            (hidden / name).touch()
        process = self.dump("kinds", LD_LIBRARY_PATH=f"{hidden}:{harness.stand_ins()}")
        self.assertIn("libunwind is not installed", process["notes"][0])
        self.assertEqual(process["threads"][0]["outcome"], "unwound")
        self.assertIn("_start", process["threads"][0]["frames"][-1]["function"])
        for function in ("asleep", "spinning", "deaf_and_waiting",
                         "around_an_inlined_function"):  # not interrupted in a stub
            self.assertTrue(self.threads_in(process, function), function)

    def test_without_process_vm_readv(self):
        """As containers' filters deny it: stacks are as whole as ever."""
        done = self.place.run([sys.executable, pathlib.Path(__file__).parent / "clients" / "deny_call.py",
                               "process_vm_readv",
                               harness.client("e2e-stacks"), "kinds"], self.place.env(RANK=0, WORLD_SIZE=1))
        self.assertEqual((done.status, done.stdout), (0, "done\n"), done.stderr)
        main = self.place.stacks()[0]["threads"][0]
        self.assertEqual(main["outcome"], "unwound")
        self.assertIn("_start", main["frames"][-1]["function"])

    def test_many_threads(self):
        process = self.dump("many", THREADS=2000)
        silent = [thread for thread in process["threads"] if thread["outcome"]
                  == "no_answer"]  # of a machine under load
        # What a busy machine does not read in two seconds is left out.
        left_out = sum(int(note.split()[0]) for note in process["notes"]
                       if note.endswith("more threads are not in the dump"))
        self.assertEqual(len(self.threads_in(process, "asleep")) + len(silent) + left_out, 2000)
        self.assertLess(len(silent), 1000)
        self.assertLess(process["took_ns"], 8e9)
        print(f"stacks of {len(process['threads'])} threads in {process['took_ns'] / 1e6:.0f} ms")

    def test_uninterruptible_thread(self):
        """It takes no signal, and is read where it waits."""
        process = self.dump("uninterruptible")
        deep, = [thread for thread in process["threads"] if thread["state"] == "D"]
        self.assertEqual(deep["outcome"], "unwound")
        self.assertEqual(len(self.threads_in(process, "waiting_for_a_child")), 1)
        self.assertEqual(len(self.threads_in(process, "asleep")), 1)
        self.assertLess(process["took_ns"], 2e9)

    def test_interrupted_in_locks(self):
        """While libgcc installs the registers of the function that catches, those of the caller are gone: nobody can
        unwind from there."""
        process = self.dump("busy")
        installing = [thread for thread in process["threads"] if thread["outcome"] == "cut"
                      and any("_Unwind_RaiseException" in frame for frame in thread["merged"])]
        self.assertLessEqual(len(installing), 1)
        self.assertEqual(len(self.threads_in(process, "in_the_")) + len(installing), 4)

    def test_no_signal_left(self):
        process = self.dump("no-signal-left")
        self.assertEqual({thread["outcome"] for thread in process["threads"]} - {"ours"}, {"unwound", "not_asked"})
        self.assertEqual(process["threads"][0]["outcome"], "unwound", "it waits")
        self.assertEqual(self.threads_in(process, "spinning"), [])
        self.assertIn("real-time signals", process["notes"][0])

    def test_signals_off(self):
        process = self.dump("kinds", TITANTRACE_SIGNAL="off")
        self.assertIn("TITANTRACE_SIGNAL=off", process["notes"][0])
        self.assertEqual(self.threads_in(process, "spinning"), [])
        self.assertEqual(len(self.threads_in(process, "deaf_and_waiting")), 1)

    def test_interrupted_waits(self):
        """Those that a signal would end are read without one."""
        ran = self.place.run_rank("e2e-stacks", "waits")
        self.assertEqual((ran.status, ran.stdout), (0, "done\n0 interrupted\n"), ran.stderr)
        self.assertEqual({thread["outcome"] for thread in self.place.stacks()[0]["threads"]}, {"unwound", "ours"})

    def test_off(self):
        process = self.dump("kinds", TITANTRACE_STACKS="off")
        self.assertEqual(process["threads"], [])
        self.assertIn("TITANTRACE_STACKS=off", process["notes"][0])

    def test_other_build_of_a_file(self):
        program = self.place.path / "program"
        program.write_bytes(harness.client("e2e-stacks").read_bytes())
        program.chmod(0o755)
        ran = self.place.run([program, "kinds"], self.place.env(RANK="0", WORLD_SIZE="1"))
        self.assertEqual(ran.status, 0, ran.stderr)
        self.assertEqual(len(self.threads_in(self.place.stacks()[0], "spinning")), 1)
        subprocess.run(["objcopy", "--remove-section", ".note.gnu.build-id", program], check=True)
        self.assertTrue(self.threads_in(self.place.stacks()[0], "spinning"))
        program.unlink()
        self.assertEqual(self.threads_in(self.place.stacks()[0], "spinning"), [])


if __name__ == "__main__":
    harness.main()
