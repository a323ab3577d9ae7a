#!/usr/bin/env python3
"""titan-analyze sql: the questions of docs/use/sql.md, against what other commands say, and the command around them."""

import json
import re
import subprocess

import harness

PAGE = (harness.ROOT / "docs" / "use" / "sql.md").read_text()
QUESTIONS = re.findall(r"^([^\n]+\?)\n\n```sql\n(.*?)```", PAGE, re.S | re.M)


class Sql(harness.Case):
    def synth(self, name, *options):
        directory = self.place.path / name
        made = self.place.run([harness.BUILD / "tests" / "synth" / "titan-synth", directory, *options])
        self.assertEqual(made.status, 0, made.stderr)
        return directory

    def sql(self, directory, *arguments, status=0, text=None):
        command = [harness.BUILD / "analyzer" / "titan-analyze", "sql", directory, "--no-rings", *arguments]
        done = subprocess.run(command, input=text or "", capture_output=True, text=True, check=False,
                              env=self.place.env(preload=False))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def rows(self, directory, query):
        return [json.loads(line) for line in self.sql(directory, "--json", query).stdout.splitlines()]


class Questions(Sql):
    def ask(self, directory, start):
        query, = [query for question, query in QUESTIONS if question.startswith(start)]
        return self.rows(directory, query)

    def test_each_can_be_asked(self):
        self.assertEqual(len(QUESTIONS), 20)
        for directory in (self.synth("mixed", "--mixed"),
                          self.synth("slow", "--timed", "--ranks", "8", "--steps", "30", "--fault", "none")):
            for question, query in QUESTIONS:
                with self.subTest(question):
                    self.sql(directory, query)

    def test_of_a_hang(self):
        directory = self.synth("hang", "--ranks", "8", "--steps", "40", "--fault", "sleep", "--rank", "5", "--at", "20")
        waits = self.ask(directory, "Which ranks have not joined")
        self.assertEqual([row["not_joined"] for row in waits if row["communicator_name"] == "world"], ["5"])
        guilty, = self.ask(directory, "Host and process")
        culprit, = self.place.analyze(directory).json["findings"][0]["culprits"]
        self.assertEqual((guilty["rank"], guilty["pid"], guilty["host"]),
                         (culprit["rank"], culprit["pid"], culprit["host"]))
        self.assertIn(5, {row["last_rank"] for row in self.ask(directory, "Who comes last")})

    def test_of_a_slow_job(self):
        directory = self.synth("slow", "--timed", "--ranks", "16", "--hosts", "2", "--steps", "60", "--fault", "span",
                               "--rank", "3")
        self.assertEqual(self.ask(directory, "Who comes last")[0]["last_rank"], 3)
        self.assertEqual(self.ask(directory, "Whose data loader")[0]["rank"], 3)
        summary = {row["name"]: row for row in
                   map(json.loads, self.place.run([harness.BUILD / "analyzer" / "titan-analyze", "summary", "--json",
                                                   directory, "--no-rings"]).stdout.splitlines())}
        for row in self.rows(directory, "SELECT * FROM totals WHERE kind <> 'metric'"):
            with self.subTest(row["name"]):
                known = summary[row["name"]]
                self.assertEqual((row["count"], row["ranks"], row["bytes"]),
                                 (known["calls"] or known["count"], len(known["ranks"]), known["bytes"]))
                for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns"):
                    self.assertAlmostEqual(row[key], known[key], delta=1)


class Command(Sql):
    def setUp(self):
        super().setUp()
        self.directory = self.synth("mixed", "--mixed")

    def test_forms_of_an_answer(self):
        query = "SELECT rank, status AS \"how, it\" FROM ranks WHERE rank < 2"
        self.assertEqual(self.sql(self.directory, query).stdout, "rank  how, it\n   0  alive\n   1  alive\n")
        self.assertEqual(self.sql(self.directory, "--csv", query).stdout, 'rank,"how, it"\n0,alive\n1,alive\n')
        self.assertEqual(self.rows(self.directory, query),
                         [{"rank": 0, "how, it": "alive"}, {"rank": 1, "how, it": "alive"}])
        self.assertEqual(self.sql(self.directory, "--sort=-rank", query).stdout,
                         "rank  how, it\n   1  alive\n   0  alive\n")
        nothing = self.sql(self.directory, "SELECT 1 WHERE 0")
        self.assertEqual((nothing.stdout, nothing.stderr), ("", "titan-analyze: no rows\n"))

    def test_where_a_query_comes_from(self):
        file = self.place.path / "two.sql"
        file.write_text("SELECT 1 AS a;\nSELECT 'b' AS b; -- the end\n")
        two = "a\n1\n\nb\nb\n"
        self.assertEqual(self.sql(self.directory, "--file", file).stdout, two)
        self.assertEqual(self.sql(self.directory, text=file.read_text()).stdout, two)
        typed = "SELECT\n  1 AS a;\nSELECT x;\n\nSELECT 'b' AS b;\n.quit\n"
        asked = self.sql(self.directory, "--interactive", text=typed)
        self.assertIn("a\n1\n", asked.stdout)
        self.assertIn("b\nb\n", asked.stdout)
        self.assertIn("no such column: x", asked.stderr)
        self.assertIn("parts", self.sql(self.directory, "--interactive", text=".tables\n").stdout)

    def test_wrong_ones(self):
        for arguments, said in ((["SELECT rnk FROM ranks"], "no such column: rnk; did you mean rank? --tables lists"),
                                (["DELETE FROM ranks"], "may not be modified"),
                                (["CREATE TABLE x (a)"], "only SELECT is allowed"),
                                (["--file", self.place.path / "none.sql"], "none.sql: No such file or directory"),
                                (["--tables", "--interactive"], "excludes"),
                                (["--limit-s", "1", "SELECT count(*) FROM calls a, calls b, calls c, calls d, calls e"],
                                 "stopped after 1 s: ask for less, or raise --limit-s")):
            with self.subTest(arguments):
                self.assertIn(said, self.sql(self.directory, *arguments, status=2).stderr)
        self.assertIn('"error"', self.sql(self.directory, "--json", "SELECT x", status=2).stdout)
        self.assertIn("no such file", self.sql(self.place.path / "nothing", "SELECT 1", status=2).stderr)

    def test_tables(self):
        tables = [json.loads(line) for line in self.sql(self.directory, "--tables", "--json").stdout.splitlines()]
        self.assertIn("calls", [table["table"] for table in tables if not table["view"]])
        for table in tables:
            self.assertIn(f"`{table['table']}`", PAGE)
        self.assertIn("step_metrics", self.sql(self.directory, "--tables").stdout)


if __name__ == "__main__":
    harness.main()
