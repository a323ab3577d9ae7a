#!/usr/bin/env python3
"""Standard error that cannot be written changes nothing; a result that cannot be written shows in the status."""
import contextlib
import os
import re
import resource
import shlex
import signal

import guest
import harness


def close():
    os.close(2)


def full():
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)


def file_at_its_limit():
    """A log file that may not grow: the write raises SIGXFSZ."""
    limit_bytes = 1 << 40  # more than anything else that is written
    log = os.memfd_create("log")
    os.lseek(log, limit_bytes, os.SEEK_SET)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))


def pipe_without_reader():
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, 2)


def pipe_that_is_full():
    """Its reader is there and does not read."""
    read, write = os.pipe()
    os.set_inheritable(read, True)
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    os.set_blocking(write, True)
    os.dup2(write, 2)


def without_sigpipe():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    pipe_without_reader()


KINDS = (close, full, file_at_its_limit, pipe_without_reader, without_sigpipe)


def tool(name):
    return harness.BUILD / ("analyzer" if name == "titan-analyze" else "tools") / name


class TitanRun(guest.Case):
    def ends(self, kind, *program):
        """The same status with titan-run as without, and the program ran."""
        ends = []
        for words in ([], [tool("titan-run"), "--"]):
            ran = self.place.run([*words, *program], self.place.env(preload=False), preexec_fn=kind)
            ends.append((ran.status, ran.stdout))
        self.assertEqual(ends[1], ends[0])
        return ends[1]

    def test_a_program(self):
        for kind in (*KINDS, pipe_that_is_full):
            with self.subTest(kind.__name__):
                self.assertEqual(self.ends(kind, "sh", "-c", "echo ran; exit 5"), (5, "ran\n"))

    def test_a_program_that_is_not_there(self):
        ran = self.place.run([tool("titan-run"), "--", "no-such-program"], self.place.env(preload=False),
                             preexec_fn=close)
        self.assertEqual(ran.status, 127)

    def test_a_rank_whose_end_asks_for_a_verdict(self):
        for kind in KINDS:
            with self.subTest(kind.__name__):
                self.assertEqual(self.ends(kind, guest.program("ends"), "killed"), (-signal.SIGKILL, "ready\n"))

    def test_a_reader_that_leaves_meanwhile(self):
        for ignored in (False, True):
            with self.subTest(ignored=ignored):
                read, write = os.pipe()

                def streams():
                    signal.signal(signal.SIGPIPE, signal.SIG_IGN if ignored else signal.SIG_DFL)
                    os.dup2(write, 2)

                program = f"echo ready; while ! test -e {self.place.meet}/go; do sleep 0.02; done; exit 5"
                ran = self.place.start([tool("titan-run"), "--", "sh", "-c", program], self.place.env(preload=False),
                                       preexec_fn=streams)
                os.close(write)
                ran.wait_says("ready")
                os.close(read)
                self.place.go()
                self.assertEqual(ran.wait(), 5)
                (self.place.meet / "go").unlink()

    def test_no_descriptor_is_left_for_titan_run(self):
        """It cannot make the pipe that it would like to have; the program runs all the same."""
        limited = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
        self.assertEqual(self.ends(limited, "sh", "-c", "echo ran; exit 5"), (5, "ran\n"))

    def test_closed_descriptors_stay_closed(self):
        def closed():
            for standard in (0, 1, 2):
                os.close(standard)

        listed = self.place.path / "listed"
        for words in ([], [tool("titan-run"), "--"]):
            ran = self.place.run([*words, "sh", "-c", f"ls -l /proc/$$/fd > {listed} 2>&1; exit 5"],
                                 self.place.env(preload=False), preexec_fn=closed)
            self.assertEqual(ran.status, 5)
            self.assertNotIn("null", listed.read_text())


class Library(guest.Case):
    """Its messages, in a program that gives it something to say."""

    def said(self, scenario, **options):
        return self.host([guest.program("descriptor_2"), scenario], True, 1, TITANTRACE_COLLECTIVES="some", **options)

    def test_a_data_file_that_has_the_number_of_standard_error(self):
        self.both([guest.program("descriptor_2"), "data"], dumps=1, TITANTRACE_COLLECTIVES="some")
        self.assertEqual((self.place.meet / "data").read_text(), "record 1")

    def test_a_log_file_of_the_program(self):
        ran = self.said("log")
        self.assertEqual((ran.status, ran.stderr), (0, ""))
        self.assertIn("TITANTRACE_COLLECTIVES", (self.place.meet / "log").read_text())

    def test_a_message_that_cannot_be_written(self):
        for kind in (*KINDS, pipe_that_is_full):
            with self.subTest(kind.__name__):
                self.place = self.new_place()
                self.place.go()
                ran = self.place.run([guest.program("descriptor_2"), "unchanged"],
                                     self.place.env(**guest.IDENTITY, TITANTRACE_COLLECTIVES="some"), preexec_fn=kind)
                self.assertEqual((ran.status, ran.stdout), (0, "ready\n"))


class Tools(guest.Case):
    """Messages that cannot be written leave the status alone; a result that cannot be written does not."""

    COMMANDS = (("titan-analyze", "rings"), ("titan-analyze", "no-such-directory"), ("titan-dump", "--list"),
                ("titan-dump", "1"), ("titan-top", "--once"), ("titan-run", "--print-env"), ("titan-run", "--bogus"))

    # Of this place alone: other tests' rings come and go beside it.
    OF_RINGS = ("rings", "--list", "--once")

    def result_of(self, words, streams=None):
        name, *arguments = words
        where = ["--ring-dir", self.place.rings] if arguments[0] in self.OF_RINGS else []
        return self.place.run([tool(name), *arguments, *where], self.place.env(preload=False), preexec_fn=streams)

    def words_of(self, ran):
        """Without the time of day, which passes between two runs."""
        return re.sub(r"\d\d:\d\d:\d\d", "TIME", ran.stdout)

    def test_messages(self):
        for words in self.COMMANDS:
            expected = self.result_of(words)
            for kind in KINDS[:2] + KINDS[3:]:
                with self.subTest(f"{shlex.join(words)} {kind.__name__}"):
                    ran = self.result_of(words, kind)
                    self.assertEqual((ran.status, self.words_of(ran)), (expected.status, self.words_of(expected)))

    def test_results(self):
        for words in self.COMMANDS:
            if not self.result_of(words).stdout:
                continue
            for kind in (close, full):
                with self.subTest(f"{shlex.join(words)} {kind.__name__}"):
                    def streams(kind=kind):
                        kept = os.dup(2)
                        kind()
                        if kind is close:
                            os.close(1)
                        else:
                            os.dup2(2, 1)
                        os.dup2(kept, 2)
                        os.close(kept)

                    ran = self.result_of(words, streams)
                    self.assertEqual(ran.status, harness.UNUSABLE)
                    self.assertIn("cannot write to standard output", ran.stderr)

    def test_a_reader_that_has_enough(self):
        """As behind `| head`: ended by SIGPIPE, or where that is ignored without a word."""
        def streams(ignored):
            signal.signal(signal.SIGPIPE, signal.SIG_IGN if ignored else signal.SIG_DFL)
            read, write = os.pipe()
            os.close(read)
            os.dup2(write, 1)

        for ignored, status in ((False, -signal.SIGPIPE), (True, harness.UNUSABLE)):
            for words in (("titan-analyze", "--help"), ("titan-run", "--print-env"), ("titan-analyze", "rings"),
                          ("titan-dump", "--help")):
                ran = self.result_of(words, lambda: streams(ignored))
                self.assertEqual((ran.status, ran.stderr), (status, ""), words)


if __name__ == "__main__":
    harness.main()
