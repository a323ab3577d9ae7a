#!/usr/bin/env python3
"""Everything that titan-analyze prints with --json is what docs/reference/titan-analyze.schema.json says."""

import json
import subprocess
import sys
import unittest

import harness

try:
    import jsonschema
except ImportError:
    sys.path.append("/usr/lib/python3/dist-packages")  # Debian's package, for another python3 than Debian's
    try:
        import jsonschema
    except ImportError:
        jsonschema = None

sys.path[:0] = [str(harness.ROOT / "tests" / place) for place in ("synth", "fuzz")]
import corpus_witness  # noqa: E402
import fr_files  # noqa: E402

GOLDEN = harness.ROOT / "tests" / "golden" / "1.0"
SHOWN = ["cuda-calls", "work", "channels", "markers", "labels", "health", "step-sums", "step-calls",
         "health-extremes"]


@unittest.skipIf(jsonschema is None, "no jsonschema here: install python3-jsonschema")
class JsonSchema(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.schema = json.loads((harness.ROOT / "docs" / "reference" / "titan-analyze.schema.json").read_text())

    def answers(self, *arguments):
        """What a command prints, as values, and whether it printed one or lines of them."""
        done = self.place.run([harness.BUILD / "analyzer" / "titan-analyze", *arguments, "--json"],
                              self.place.env(preload=False, COLUMNS="80"))
        self.assertIn(done.status, (0, 1, 2, 3), done.stderr)
        if done.stdout.startswith("{\n"):
            return [json.loads(done.stdout)]
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check(self, name, *arguments, least=1):
        """`name`: of the command's definition."""
        answers = self.answers(*arguments)
        self.assertGreaterEqual(len(answers), least, arguments)
        validator = jsonschema.Draft202012Validator({**self.schema, "$ref": f"#/$defs/{name}"})
        for answer in answers:
            wrong = sorted(validator.iter_errors(answer), key=lambda error: len(error.path), reverse=True)
            self.assertFalse(wrong, wrong and f"{' '.join(map(str, arguments))}: {wrong[0].json_path}: "
                                              f"{wrong[0].message[:300]}")
        return answers

    def synthetic(self, name, *options):
        directory = self.place.path / name
        subprocess.run([harness.BUILD / "tests" / "synth" / "titan-synth", directory, *options], check=True,
                       stdout=subprocess.DEVNULL)
        return directory

    def test_the_file_is_sound_and_what_the_script_writes(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)
        subprocess.run([sys.executable, "-B", harness.ROOT / "scripts" / "write-schema", "--check"], check=True)

    def test_it_can_fail(self):
        answer, = self.answers(GOLDEN / "dumps", "--no-rings")
        validator = jsonschema.Draft202012Validator({**self.schema, "$ref": "#/$defs/diagnosis"})
        self.assertTrue(validator.is_valid(answer))
        for change in ({"findings": {}}, {"verdict": "none"}, {"schema": 2}):
            self.assertFalse(validator.is_valid({**answer, **change}), change)
        self.assertFalse(validator.is_valid({key: value for key, value in answer.items() if key != "run"}))

    def test_diagnoses(self):
        for directory in (GOLDEN / "dumps", GOLDEN / "digests",
                          *(self.synthetic(fault, "--fault", fault, "--odd-setting", "2")
                            for fault in ("sleep", "die", "none", "nan")),
                          self.synthetic("cycle", "--random", "p2p_cycle")):
            self.check("diagnosis", directory, "--no-rings")

    def test_logs_alone(self):
        samples = {name: content for name, content, _ in corpus_witness.witness_samples()}
        for log in ("torchrun-killed.log", "clog.log", "oom.log", "error-file.json"):
            (self.place.path / log).write_bytes(samples[log])
            alone, = self.check("diagnosis", self.place.path / log)
            self.assertTrue(alone["witnesses"], log)

    def test_one_rank(self):
        directory = self.synthetic("sleep", "--fault", "sleep")
        for rank in ("0", "3"):
            self.check("why", "why", rank, directory, "--no-rings")
        self.check("error", "why", "99", directory, "--no-rings")

    def test_other_calls(self):
        directory = self.synthetic("sleep", "--fault", "sleep")
        for edit in (("--alive", "3"), ("--alive", "2"), ("--rank", "3", "--insert", "all_gather #10 on world"),
                     ("--remove", "rank 0: all_gather #10 on world")):
            answer, = self.check("whatif", "whatif", directory, "--no-rings", *edit)
            self.assertEqual(len(answer["edits"]), 1, edit)
        self.check("error", "whatif", directory, "--no-rings", "--alive", "99")

    def test_errors_and_lists_of_runs(self):
        self.check("error", self.place.path / "nothing")
        self.check("error", "show", self.place.path / "nothing")
        self.synthetic("sleep", "--run", "r")
        self.check("list-runs", self.place.path, "--list-runs")

    def test_records(self):
        mixed = self.synthetic("mixed", "--mixed")
        self.check("show", "show", mixed, "--no-rings")
        self.check("show", "show", GOLDEN / "dumps", "--no-rings")
        for kind in SHOWN:
            shown = [self.check(f"show-{kind}", "show", directory, f"--{kind}", "--no-rings", least=0)
                     for directory in (mixed, GOLDEN / "dumps", GOLDEN / "markers", GOLDEN / "steps")]
            self.assertTrue(any(shown), kind)

    def test_flight_recorder(self):
        job = fr_files.Job(4)
        job.everywhere("0", "all_reduce", [[64]])
        job.everywhere("0", "all_reduce", [[64]], without=[2], state="scheduled")
        job.p2p(0, "0", "send", 1, [[8]])
        job.write(self.place.path / "fr")
        self.check("show-of-pytorch", "show", self.place.path / "fr")
        self.check("diagnosis", self.place.path / "fr")

    def test_tables(self):
        timed = self.synthetic("timed", "--timed", "--fault", "span", "--steps", "60")
        mixed = self.synthetic("mixed", "--mixed")
        for directory in (timed, mixed):
            self.check("summary", "summary", directory, "--no-rings")
            self.check("summary-goodput", "summary", directory, "--goodput", "--no-rings")
            self.check("stragglers", "stragglers", directory, "--no-rings")
            self.check("layout", "layout", directory, "--no-rings")
            self.check("layout-config", "layout", directory, "--config", "--no-rings")
            self.check("stacks", "stacks", directory, "--no-rings")
            self.check("compare", "compare", directory, timed, "--no-rings")
        self.check("summary", "summary", timed, "--by", "host", "--no-rings")
        self.check("metrics", "metrics", self.synthetic("nan", "--fault", "nan"), "--no-rings")
        self.check("stacks", "stacks", GOLDEN / "dumps", "--no-rings")
        self.check("fields", "fields", least=100)
        self.check("report", "report", timed, "--no-rings")

    def test_rings(self):
        (self.place.rings / "titantrace-0").mkdir(mode=0o700)
        self.check("rings", "rings", "--ring-dir", self.place.rings, least=0)


if __name__ == "__main__":
    harness.main()
