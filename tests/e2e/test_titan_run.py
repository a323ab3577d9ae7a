#!/usr/bin/env python3
"""titan-run: a program under it is as it would be without it; what keeps it from being recorded is said in one line;
and after an end in failure the verdict follows."""

import os
import pathlib
import platform
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import unittest

import harness

SAYS = "titan-run: recording; dumps will be in "
MISSING = "titan-run: NOT RECORDED: "
NOTHING = "titan-run: nothing was recorded on this node"


class TitanRun(harness.Case):
    def start(self, *words, **settings):
        return self.place.start([harness.BUILD / "tools" / "titan-run", *words],
                                self.place.env(preload=False, **settings))

    def run_under(self, *words, **settings):
        started = self.start(*words, **settings)
        started.wait(60)
        return started

    def said(self, started):
        return [line for line in started.stderr.splitlines() if line.startswith("titan-run: ")]


class Transparent(TitanRun):
    def test_a_process_of_its_id_on_another_node(self):
        """Containers of several nodes number their processes alike, and share the directory."""
        other = 'mkdir "$TITANTRACE_DIR/.titan-run.$$"; exec "$0" -- true'
        done = self.place.run(["sh", "-c", other, harness.BUILD / "tools" / "titan-run"],
                              self.place.env(preload=False))
        self.assertEqual(done.status, 0)
        self.assertIn(SAYS, done.stderr)

    def test_exit_status(self):
        for status in (0, 1, 77):
            self.assertEqual(self.run_under("--", "sh", "-c", f"exit {status}").status, status)
        self.assertEqual(self.run_under("--", "no-such-program").status, 127)
        self.assertEqual(self.run_under("--", "/etc/passwd").status, 126)

    def test_ended_by_a_signal(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.assertEqual(self.run_under("--", "sh", "-c", f"kill -{int(number)} $$").status, -number)

    def test_signals_go_on_to_the_program(self):
        # None that whoever started this ignores (nohup): a shell cannot catch such a one.
        numbers = [name for name in ("TERM", "USR1", "HUP", "INT")
                   if signal.getsignal(getattr(signal, f"SIG{name}")) != signal.SIG_IGN]
        self.assertIn("USR1", numbers)
        for number in numbers:
            started = self.start("--", "sh", "-c",
                                 f'trap "echo caught; exit 5" {number}; echo ready; while :; do sleep 0.05; done')
            started.wait_says("ready")
            started.signal(getattr(signal, f"SIG{number}"))
            self.assertEqual(started.wait(), 5)
            self.assertIn("caught", started.stdout)

    def test_a_signal_to_all_of_a_group_comes_once(self):
        """As slurmstepd, mpirun and timeout send it; one to titan-run alone still comes."""
        # A signal that queues, and a byte for each delivery: nothing makes one of two.
        program = ("import os, signal, time\nread, write = os.pipe()\nos.set_blocking(read, "
                   "False)\nos.set_blocking(write, False)\n"
                   "signal.signal(signal.SIGRTMIN, lambda *_: None)\nsignal.set_wakeup_fd(write)\nprint('ready', "
                   "flush=True)\nseen = 0\n"
                   "while True:\n    time.sleep(0.05)\n    try: seen += len(os.read(read, 100))\n    except "
                   "BlockingIOError: pass\n"
                   "    print('seen', seen, flush=True)")
        started = self.start("--", sys.executable, "-c", program)
        started.wait_says("ready")
        for expected in (1, 2):
            os.killpg(started.pid, signal.SIGRTMIN)
            started.wait_says(f"seen {expected}\n")
            count = started.stdout.count("seen")
            harness.wait_for(lambda: started.stdout.count("seen") > count + 1, 20, "it goes on")
            # The end may be half a line: PYTHONUNBUFFERED makes print() write word by word.
            whole_lines = started.stdout.rpartition("\n")[0].splitlines()
            self.assertEqual(whole_lines[-1], f"seen {expected}", started.stdout)
        started.signal(signal.SIGRTMIN)
        started.wait_says("seen 3\n")

    def test_what_kills_it_kills_the_program(self):
        started = self.start("--", "sh", "-c", "echo $$; while :; do sleep 0.05; done")
        harness.wait_for(lambda: started.stdout.endswith("\n"), 20, "the program starts")
        started.signal(signal.SIGKILL)
        started.wait()
        harness.wait_for(lambda: not harness.alive(int(started.stdout)), 20, "the program ends")

    def test_terminal(self):
        """The program has the terminal, and one Ctrl-C is one SIGINT."""
        program = ("import signal, sys, time\nseen = []\nsignal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
                   "print('ready', sys.stdin.isatty(), flush=True)\nwhile not seen: time.sleep(0.02)\n"
                   "time.sleep(0.3)\nprint('caught', len(seen), flush=True)\nsys.exit(9)")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(harness.BUILD / "tools" / "titan-run", ["titan-run", "--", sys.executable, "-c", program],
                      self.place.env(preload=False))
        output = b""
        while not re.search(rb"caught \d+\r\n", output):
            output += os.read(terminal, 1000)
            if output.endswith(b"ready True\r\n"):
                os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        self.assertIn(b"caught 1", output)
        self.assertEqual(os.waitstatus_to_exitcode(status), 9)

    def test_output_is_the_programs_own(self):
        self.assertEqual(self.run_under("--", "echo", "--check", "-x").stdout, "--check -x\n")
        self.assertEqual(self.run_under("echo", "one").stdout, "one\n")

    def test_a_timeout_that_is_none(self):
        """It is refused before the program starts."""
        for wrong in ("abc", "-1", "3s", "1e3", "99999999999"):
            started = self.run_under(f"--timeout={wrong}", "--", "echo", "started")
            self.assertEqual((started.status, started.stdout), (2, ""), started.stderr)
            self.assertIn(f"--timeout takes seconds such as 300 or 0.5 (0: never), not '{wrong}'", started.stderr)
        self.assertEqual(self.run_under("--timeout", "0.5", "--", "echo", "started").stdout, "started\n")

    def test_preloads_are_kept_in_front(self):
        other = next(pathlib.Path("/usr/lib").rglob("libm.so.6"))
        ours = harness.tracer()
        show = ["--", "sh", "-c", "echo $LD_PRELOAD"]
        self.assertEqual(self.run_under(*show, LD_PRELOAD=other).stdout, f"{other}:{ours}\n")
        self.assertEqual(self.run_under(*show, LD_PRELOAD=f"{ours} {other}").stdout, f"{other}:{ours}\n")

    def test_inside_another(self):
        inner = [harness.BUILD / "tools" / "titan-run", "--", "sh", "-c", "echo $LD_PRELOAD; exit 3"]
        started = self.run_under("--", *inner)
        self.assertEqual((started.status, started.stdout), (3, f"{harness.tracer()}\n"))
        self.assertEqual(len([line for line in self.said(started) if line.startswith(SAYS)]), 1, started.stderr)

    def test_print_env(self):
        lines = self.run_under("--print-env", "--run", "a b", "--dir", "d").stdout
        shown = subprocess.run(["sh", "-c",
                                f"{lines}\nunset LD_PRELOAD; echo $TITANTRACE_RUN_ID; echo $TITANTRACE_DIR"],
                               capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown, f"a b\n{self.place.path}/d\n")
        self.assertIn(f"export LD_PRELOAD={harness.tracer()}\n", lines)

    def test_arguments(self):
        self.assertEqual(self.run_under().status, harness.UNUSABLE)
        self.assertEqual(self.run_under("--bogus", "--", "true").status, harness.UNUSABLE)
        self.assertIn("titan-run -- torchrun", self.run_under("--help").stdout)


class Obstacles(TitanRun):
    """The program runs all the same."""

    def expect(self, words, *command, **settings):
        started = self.run_under(*command, **settings)
        self.assertEqual((started.status, started.stdout), (0, "ran\n"), started.stderr)
        said = self.said(started)
        self.assertEqual(len(said), 1, said)
        self.assertIn(words, said[0])

    def test_another_architecture(self):
        library = self.place.path / "libtitantrace.so"
        image = bytearray(harness.tracer().read_bytes())
        image[18:20] = (243).to_bytes(2, "little")
        library.write_bytes(image)
        self.expect("libtitantrace.so for ELF machine 243", "--library", library, "--", "echo", "ran")

    def test_a_library_that_the_loader_refuses(self):
        library = self.place.path / "libtitantrace.so"
        library.write_bytes(harness.tracer().read_bytes()[:5000])
        self.expect(MISSING, "--library", library, "--", "echo", "ran")

    def test_a_library_for_a_newer_libc(self):
        source = self.place.path / "newer.c"
        source.write_text('__asm__(".symver open_, open@GLIBC_2.99");\nextern "C" int open_();\nint (*use)() = '
                          'open_;\n')
        made = self.place.path / "libc.so.6"
        version = self.place.path / "versions"
        version.write_text("GLIBC_2.99 { open; };\n")
        compiler = os.environ.get("TITAN_COMPILER", "g++").split()
        subprocess.run([*compiler, "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", made, "-Wl,-soname,libc.so.6",
                        f"-Wl,--version-script={version}"], input="int open() { return 0; }", text=True, check=True)
        library = self.place.path / "libtitantrace.so"
        subprocess.run([*compiler, "-shared", "-fPIC", "-nostdlib", "-o", library, source, made], check=True)
        self.expect("version `GLIBC_2.99' not found", "--library", library, "--", "echo", "ran")

    def test_no_library(self):
        self.expect("/nowhere/libtitantrace.so is not there", "--library", "/nowhere/libtitantrace.so", "--", "echo",
                    "ran")

    def compiled(self, *options):
        source = self.place.path / "ran.c"
        source.write_text('#include <stdio.h>\n#include <stdlib.h>\n'
                          'int main() { puts("ran"); return getenv("MUSL") != NULL && getenv("LD_PRELOAD") != NULL; '
                          '}\n')
        program = self.place.path / "ran"
        subprocess.run([*os.environ.get("TITAN_COMPILER", "g++").split(), "-x", "c++", source, "-o", program,
                        *options], check=True)
        return program

    def test_musl(self):
        """The name is what tells: the loader behind it is glibc's here, so that the program runs."""
        machine = platform.machine()
        loader = self.place.path / f"ld-musl-{machine}.so.1"
        loader.symlink_to("/lib64/ld-linux-x86-64.so.2" if machine == "x86_64" else f"/lib/ld-linux-{machine}.so.1")
        program = self.compiled(f"-Wl,--dynamic-linker={loader}")
        self.expect("uses musl", "--", program, MUSL=1)

    def test_linked_statically(self):
        self.expect("is linked statically", "--", self.compiled("-static"))

    def test_setuid(self):
        program = self.compiled()
        program.chmod(program.stat().st_mode | stat.S_ISUID)
        self.expect("is setuid", "--", program)

    def test_a_launcher_that_clears_the_environment(self):
        started = self.run_under("--", "env", "-i", "/bin/echo", "ran")
        self.assertEqual((started.status, started.stdout), (0, "ran\n"))
        self.assertTrue(any(line.startswith(NOTHING) and "clear the environment" in line
                            for line in self.said(started)), started.stderr)

    def test_no_write_permission(self):
        place = self.place.path / "locked"
        place.mkdir(mode=0o555)
        words = [harness.BUILD / "tools" / "titan-run", "--no-verdict", "--", "echo", "ran"]
        if os.geteuid() == 0:
            words = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search", *words]
        started = self.place.run(words, self.place.env(preload=False, TITANTRACE_DIR=place / "dumps"))
        self.assertEqual((started.status, started.stdout), (0, "ran\n"), started.stderr)
        self.assertIn("NO DUMPS: ", started.stderr)
        self.assertIn("cannot be written (Permission denied)", started.stderr)

    def test_a_directory_that_takes_no_files_of_root_either(self):
        started = self.run_under("--dir", "/proc/dumps", "--", "echo", "ran")
        self.assertEqual((started.status, started.stdout), (0, "ran\n"))
        self.assertRegex(started.stderr, r"NO DUMPS: /proc/dumps cannot be written \(.*\); set TITANTRACE_DIR")

    def test_full_disk(self):
        full = self.place.path / "full"
        full.mkdir()
        mounted = (f"mount -t tmpfs -o size=64k none {full} && "
                   f"exec {harness.BUILD}/tools/titan-run --no-verdict -- echo ran")
        started = self.place.run(["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh",
                                  "-c", mounted],
                                 self.place.env(preload=False, TITANTRACE_DIR=full))
        if "titan-run" not in started.stderr:
            self.skipTest(f"no mount here: {started.stderr.strip()}")
        self.assertEqual((started.status, started.stdout), (0, "ran\n"), started.stderr)
        self.assertRegex(started.stderr, r"NO DUMPS: .*full has only 64 kB free")


class Verdicts(TitanRun):
    def job(self, fault, *options, **settings):
        return self.run_under(*options, "--", harness.stand_ins() / "titan-sim", "--ranks", 4, "--tp", 2, "--steps",
                              60, "--step-ms", 2,
                              "--timeout-s", 6, SIMGPU_FAULTS=fault, **settings)

    def test_a_rank_that_is_killed(self):
        started = self.job("kill rank=2 step=40")
        self.assertNotEqual(started.status, 0)
        self.assertIn("VERDICT  rank_dead", started.stderr)
        self.assertIn("rank 2", started.stderr)
        self.assertNotIn("VERDICT", started.stdout)

    def test_a_hang(self):
        started = self.job("spin rank=1 step=40", "--timeout", 2, "--run", "hung", TITANTRACE_RUN_ID=None)
        self.assertNotEqual(started.status, 0)
        self.assertRegex(started.stderr, r"run hung attempt 0[\s\S]*VERDICT  .*\n.*rank 1 ")

    def test_a_healthy_job(self):
        started = self.job("")
        self.assertEqual(started.status, 0, started.stderr)
        self.assertEqual(self.said(started),
                         [f"{SAYS}{self.place.dumps}/",
                          f"titan-run: the record of its steps is in {self.place.dumps}/e2e (titan-analyze summary "
                          f"{self.place.dumps})"])
        self.assertRegex(started.stderr, r"\nrun e2e attempt 0: ended well after \d+ steps, \d of \d ranks")

    def test_a_healthy_job_without_a_journal(self):
        started = self.job("", TITANTRACE_JOURNAL_MIB=0)
        self.assertEqual(self.said(started), [f"{SAYS}{self.place.dumps}/"])

    def test_no_verdict(self):
        self.assertNotIn("VERDICT", self.job("kill rank=2 step=40", "--no-verdict").stderr)

    def test_only_the_first_task_of_a_node_speaks(self):
        self.assertEqual(self.said(self.job("kill rank=2 step=40", SLURM_LOCALID=3)), [])


class Check(TitanRun):
    def test_table(self):
        started = self.run_under("--check")
        topics = ("library", "switched on", "other preloads", "NVIDIA driver", "CUDA runtime", "NCCL", "PyTorch",
                  "profilers, plugins", "GPU progress",
                  "stacks", "rings", "dumps", "limits", "titan-analyze")
        for topic in topics:
            self.assertRegex(started.stdout, rf"(?m)^(ok|note|NO) +{topic} ")
        missing = [line for line in started.stdout.splitlines() if line.startswith("NO")]
        self.assertEqual(started.status, 1 if missing else 0)
        self.assertEqual(started.stdout.count("->"),
                         sum(not line.startswith((" ", "ok")) for line in started.stdout.splitlines()))

    def test_the_switch_is_read_as_the_tracer_reads_it(self):
        for off in ("0", "no", "OFF", "False"):
            self.assertIn(f"NO    switched on         TITANTRACE={off}\n",
                          self.run_under("--check", TITANTRACE=off).stdout)
        for on in ("1", "yes", "ON", "2", ""):
            self.assertIn("ok    switched on         yes\n", self.run_under("--check", TITANTRACE=on).stdout)

    def test_each_no_says_what_to_do(self):
        started = self.run_under("--check", "--library", "/etc/passwd", TITANTRACE="0", TITANTRACE_DIR="/etc/passwd/x",
                                 LD_PRELOAD="libm.so.6", NCCL_PROFILER_PLUGIN="x")
        self.assertEqual(started.status, 1)
        for words in ("NO    library", "NO    switched on         TITANTRACE=0", "-> unset TITANTRACE",
                      "note  other preloads      libm.so.6",
                      "NCCL_PROFILER_PLUGIN=x", "NO    dumps"):
            self.assertIn(words, started.stdout)


if __name__ == "__main__":
    harness.main(at_once=4)
