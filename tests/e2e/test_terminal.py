#!/usr/bin/env python3
"""titan-analyze as people see it: a screenful on a terminal, one line, one rank, tables; and names of any kind."""

import csv
import fcntl
import io
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "synth"))
import fr_files  # noqa: E402

DEFAULTS = {"COLUMNS": None, "NO_COLOR": None, "TZ": "UTC"}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Controls, directions of text, what has no width, separators, tags (base/printable.h).
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
                     "\U000e0000-\U000e0fff]")
HOSTILE = ("a'b\"c<script>\x1b[2J\x07\r\n`id`$(id)=é\u202eab\u200bc\u2066d\ufeff\x85\U000e0041" + "x" * 10_000)


class Terminal(harness.Case):
    def analyze(self, *arguments, status=None, **settings):
        done = self.place.run([harness.BUILD / "analyzer" / "titan-analyze", *arguments],
                              self.place.env(preload=False, **{**DEFAULTS, **settings}))
        if status is not None:
            self.assertEqual(done.status, status, done.stdout + done.stderr)
        return done

    def on_terminal(self, rows, columns, *arguments, **settings):
        """What the program writes to a terminal of that size."""
        env = self.place.env(preload=False, **{**DEFAULTS, "TERM": "xterm", **settings})
        main, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        program = subprocess.Popen([harness.BUILD / "analyzer" / "titan-analyze", *map(str, arguments)], env=env,
                                   stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL)
        os.close(terminal)
        written = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            written += part
        os.close(main)
        program.wait()
        return written.decode().replace("\r\n", "\n")

    def synthetic(self, *options):
        subprocess.run([harness.BUILD / "tests" / "synth" / "titan-synth", self.place.path / "records", *options],
                       check=True, stdout=subprocess.DEVNULL)
        return self.place.path / "records"

    def test_a_screenful_on_a_terminal_and_all_elsewhere(self):
        records = self.synthetic("--fault", "sleep", "--ranks", "64")
        whole = self.analyze(records, "--no-rings", status=1).stdout
        self.assertNotIn("\x1b", whole)
        self.assertNotIn("--all", whole)
        for rows, columns in ((24, 80), (24, 60), (12, 60), (24, 20), (50, 120)):
            screen = self.on_terminal(rows, columns, records, "--no-rings")
            lines = COLOUR.sub("", screen).splitlines()
            taken = sum(max(1, -(-len(line) // columns)) for line in lines)
            self.assertLess(taken, max(rows, 24), screen)
            self.assertEqual("--all" in screen, rows < 50, screen)
            verdict = next(number for number, line in enumerate(lines) if line.startswith("VERDICT"))
            self.assertTrue(all(not line or line.startswith(" ") for line in lines[1:verdict]), "the verdict first")
            self.assertTrue(columns < 60 or rows < 24 or "How we know" in screen, screen)
        more = next(line for line in self.on_terminal(24, 80, records, "--no-rings").splitlines() if "--all" in line)
        command = shlex.split(more, comments=True)
        self.assertEqual(command[0], "titan-analyze")
        self.assertEqual(self.analyze(*command[1:], status=1).stdout, whole)

    def test_colour_is_for_terminals_that_want_it(self):
        records = self.synthetic("--fault", "sleep")
        self.assertRegex(self.on_terminal(24, 80, records, "--no-rings"), COLOUR)
        for settings in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\x1b", self.on_terminal(24, 80, records, "--no-rings", **settings))
        self.assertNotIn("\x1b", self.on_terminal(24, 80, records, "--no-rings", "--oneline"))

    def test_one_line(self):
        records = self.synthetic("--fault", "sleep")
        line = self.analyze(records, "--no-rings", "--oneline", status=1).stdout
        self.assertRegex(line, r"^run synth attempt 0: rank_not_arrived \(certain\): rank 3 .* never called all_gather "
                               r"#10 on world; .*; on node-0 \(pid 1003\); since 2027-01-15 08:00:\d\d \+00:00\n$")
        self.assertIn("--json", self.analyze(records, "--oneline", "--json", status=2).stderr)

    def test_one_rank(self):
        records = self.synthetic("--fault", "sleep")
        told = self.analyze("why", "0", records, "--no-rings", status=1).stdout.splitlines()
        self.assertEqual(len(told), 3, told)
        self.assertRegex(told[0], r"^rank 0 .* on node-0 \(pid 1000\): inside cudaStreamSynchronize for ")
        self.assertRegex(told[1], r"^waits for: all_gather #10 on world, for .*: rank 3 has not called it$")
        self.assertRegex(told[2], r"^leads to: rank 3: rank_not_arrived \(certain\): ")
        self.assertIn("there is no rank 99 in run synth attempt 0; there are ranks 0-7",
                      self.analyze("why", "99", records, status=2).stderr)
        for wrong in ("-1", "3.5", "x", records):
            self.assertIn("titan-analyze", self.analyze("why", wrong, records, status=2).stderr)

    def test_other_calls(self):
        records = self.synthetic("--fault", "sleep")
        insert = ("--insert", "all_gather #10 on world")
        for edits, status, said in (
                (("--alive", "3"), 0, "ALL 7 RANKS GO ON if rank 3 goes on"),
                (("--rank", "3", *insert), 0, "if rank 3 makes all_gather #10 on world, too"),
                (("--alive", "0,2"), 1, "ranks 0-2,4-7 wait in all_gather #10 on world: for rank 3"),
                (("--rank", "3", "--insert", "broadcast #10 on world"), 1, "all are there, and their arguments differ"),
                (("--remove", "rank 0: all_gather #10 on world", "--alive", "3"), 0, "ALL 7 RANKS GO ON")):
            told = self.analyze("whatif", records, "--no-rings", *edits, status=status).stdout
            self.assertIn(said, " ".join(told.split()), edits)
        # The path may stand behind the edits, and what a report names can be pasted.
        self.analyze("whatif", "--rank", "3", *insert, records, "--no-rings", status=0)
        for wrong, said in ((("--rank", "9", *insert), "there is no rank 9 in run synth attempt 0; there are ranks"),
                            (insert, "whose call is it?"),
                            ((), "nothing is to be edited"),
                            (("--alive", "x"), "--alive takes ranks and ranges"),
                            (("--rank", "3", "--insert", "all_gather #10 on nowhere"),
                             "rank 3 is in no communicator 'nowhere'; it is in "),
                            (("--rank", "3", "--insert", "gather all"), "the number of the call is missing"),
                            (("--rank", "3", "--insert", "all_gather #12 on world"), "its next call there is #10"),
                            (("--rank", "3", "--remove", "all_gather #10 on world"), "its next call there is #10")):
            self.assertIn(said, self.analyze("whatif", records, "--no-rings", *wrong, status=2).stderr)

    def test_tables(self):
        records = self.synthetic("--timed", "--fault", "span", "--steps", "60", "--hosts", "2")
        rows = lambda *arguments: list(csv.DictReader(io.StringIO(
            self.analyze(*arguments, "--csv", "--no-rings").stdout)))
        ranks = rows("stragglers", records, "--all", "--sort=-rank")
        self.assertEqual([row["rank"] for row in ranks], list("76543210"))
        steps = [json.loads(line)["step"] for line in self.analyze(
            "show", records, "--steps", "40-41", "--json", "--no-rings", status=0).stdout.splitlines()]
        self.assertEqual(set(steps), {40, 41})
        hosts = [row["what"] for row in rows("summary", records, "--by", "host") if row["kind"] == "step"]
        self.assertEqual(sorted(hosts), ["node-0: step", "node-1: step"])
        self.assertEqual(len([row for row in rows("summary", records, "--by", "rank") if row["kind"] == "step"]), 8)
        groups = {row["what"] for row in rows("summary", records, "--by", "communicator") if row["kind"] == "GPU"}
        self.assertTrue(groups > {row["what"] for row in rows("summary", records) if "world" in row["what"]}, groups)
        for command in (("summary", records), ("stragglers", records), ("show", records), ("layout", records),
                        ("compare", records, records), ("fields",)):
            self.assertIn("there is no column 'rnak'",
                          self.analyze(*command, "--sort", "rnak", status=2).stderr, command)
        self.assertIn("did you mean 'rank'?", self.analyze("show", records, "--sort", "rnak", status=2).stderr)
        self.assertIn("did you mean host?", self.analyze("summary", records, "--by", "hots", status=2).stderr)
        self.assertIn("--json", self.analyze("show", records, "--csv", "--json", status=2).stderr)

    def test_one_delay_has_one_beginning(self):
        """In the cause, the table, the verdict and JSON."""
        records = self.synthetic("--timed", "--ranks", "16", "--hosts", "2", "--steps", "60", "--fault", "span",
                                 "--rank", "3", "--at", "20")
        told = json.loads(self.analyze("stragglers", records, "--json", "--no-rings", status=1).stdout)
        rank, = [rank for rank in told["ranks"] if rank["pattern"] != "none"]
        self.assertEqual((told["causes"][0]["since_step"], rank["since"]), (20, {"step": 20}))
        self.assertIn("since step 20: ", self.analyze(records, "--no-rings", "--oneline", status=1).stdout)
        text = self.analyze("stragglers", records, "--no-rings", status=1).stdout
        self.assertIn("since step 20: the step takes", text)
        self.assertRegex(text, r"(?m)^ +3 .* 20  GPU")

    def test_stragglers_of_some_ranks_and_steps(self):
        records = self.synthetic("--timed", "--hosts", "2", "--steps", "60", "--fault", "span", "--rank", "3", "--at",
                                 "20")
        rows = lambda *options: list(csv.DictReader(io.StringIO(
            self.analyze("stragglers", records, "--no-rings", "--csv", *options).stdout)))
        self.assertEqual([row["rank"] for row in rows()], ["3"])
        self.assertEqual(sorted(row["rank"] for row in rows("--rank", "1,3")), ["1", "3"])
        self.assertEqual([(row["host"], row["late ranks"], row["worst rank"]) for row in rows("--by", "host")][0],
                         ("node-0", "1 of 4", "3"))
        self.assertEqual(rows("--steps", "0-18"), [], "before the fault")
        self.assertEqual([row["since"] for row in rows("--steps", "30-59")], [""])
        self.assertIn("none of these steps is on record",
                      self.analyze("stragglers", records, "--steps", "1000-2000", status=2).stderr)

    def test_tables_fit_the_terminal(self):
        records = self.synthetic("--timed", "--fault", "span", "--hosts", "2", "--steps", "60")
        wide = self.analyze("show", records, "--no-rings", "--last", "3", status=0).stdout
        self.assertGreater(max(map(len, wide.splitlines())), 100)
        for command in (("show", "--last", "3"), ("summary",), ("show", "--work", "--last", "3")):
            whole = self.analyze(*command, records, "--no-rings").stdout
            for columns in (80, 60):
                screen = COLOUR.sub("", self.on_terminal(24, columns, *command, records, "--no-rings"))
                self.assertLessEqual(max(map(len, screen.splitlines())), columns, screen)
                self.assertEqual(sorted(screen.split()), sorted(whole.split()), "nothing is cut")
            self.assertEqual(self.analyze(*command, records, "--no-rings", COLUMNS=80).stdout,
                             COLOUR.sub("", self.on_terminal(24, 80, *command, records, "--no-rings")))

    def test_ranges(self):
        records = self.synthetic("--steps", "20")
        shown = lambda *options: {json.loads(line)["rank"] for line in self.analyze(
            "show", records, "--json", "--no-rings", *options, status=0).stdout.splitlines()}
        self.assertEqual(shown("--rank", "1,3,...,7"), {1, 3, 5, 7})  # as reports write them
        self.assertEqual(shown("--rank", "0,2-3"), {0, 2, 3})
        for option in ("--steps", "--seq", "--rank"):
            self.assertIn(f"{option} takes the smaller number of a range first, not '9-3'; did you mean 3-9?",
                          self.analyze("show", records, option, "9-3", status=2).stderr)
        for wrong in ("1-", "-1", "x", "...", "1,...,3", "1,3,...", "1,3,...,6", "1,3,...,...,7", "99999999999", "1 2"):
            self.assertIn("--rank takes ranks and ranges such as ",
                          self.analyze("show", records, f"--rank={wrong}", status=2).stderr)

    def test_help(self):
        self.assertEqual(self.analyze("help", status=0).stdout, self.analyze("--help", status=0).stdout)
        self.assertEqual(self.analyze("help", "show", status=0).stdout, self.analyze("show", "--help").stdout)
        self.assertIn("did you mean: titan-analyze help show", self.analyze("help", "shwo", status=2).stderr)

    def test_names_of_any_kind(self):
        """Of strangers: quotes, control characters, HTML, commands, 10 kB."""
        job = fr_files.Job(4)
        job.group("1", HOSTILE, [0, 1, 2, 3])
        job.everywhere("1", "all_reduce", [[64]])
        job.everywhere("1", "all_reduce", [[64]], without=[2], state="scheduled")
        records = self.place.path / HOSTILE[:100].replace("/", "").replace("\n", "")
        job.write(records)
        for arguments in ((records,), (records, "--oneline"), ("why", "0", records), ("show", records),
                          ("show", records, "--csv"), ("layout", records), ("layout", records, "--csv")):
            done = self.analyze(*arguments)
            self.assertIn(done.status, (0, 1), done.stderr)
            self.assertNotRegex(done.stdout.replace("\n", ""), CONTROL)
        self.assertEqual(self.analyze(records, "--oneline", status=1).stdout.count("\n"), 1)
        self.assertLess(len(self.analyze(records, "--oneline").stdout), 1500)
        self.assertEqual(self.analyze("why", "0", records, status=1).stdout.count("\n"), 3)
        shown = list(csv.reader(io.StringIO(self.analyze("show", records, "--csv", status=0).stdout)))
        self.assertEqual({len(row) for row in shown}, {len(shown[0])})
        for arguments in ((records, "--json"), ("show", records, "--json"), ("layout", records, "--json"),
                          (records, "--run", HOSTILE), ("show", records, "--comm", HOSTILE), (records / HOSTILE[:50],),
                          ("stacks", records), ("metrics", records), ("rings", "--ring-dir", records),
                          ("timeline", records, "-o", records / HOSTILE[:50]), ("report", records, "--json"),
                          (HOSTILE,)):
            done = self.analyze(*arguments)
            self.assertNotRegex((done.stdout + done.stderr).replace("\n", ""), CONTROL, arguments[0])
        screen = COLOUR.sub("", self.on_terminal(24, 80, records))
        self.assertNotRegex(screen.replace("\n", ""), CONTROL)
        self.assertLess(sum(max(1, -(-len(line) // 80)) for line in screen.splitlines()), 24, screen)


if __name__ == "__main__":
    harness.main()
