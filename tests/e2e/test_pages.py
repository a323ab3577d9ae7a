#!/usr/bin/env python3
"""Each command that README.md and docs/ show, pasted into a shell beside a job and the files that the pages speak of.

srun, torchrun and python are stand-ins that run the command behind them, or a small simulated job. What cannot run here
is a row of NOT_HERE.
"""

import re
import shutil
import tarfile

import harness

# The beginning of a command: why it is not pasted. A row that no page needs any more fails the test.
NOT_HERE = {
    "git clone": "the address of the copy that is read is not known here",
    "./scripts/wheel": "scripts/test --wheel runs it",
    "./scripts/demo": "test_demo.py runs it",
    "./scripts/test": "this is a part of it",
    "pip install": "scripts/test --wheel runs it",
    "flamegraph.pl": "no FlameGraph",
    "python -m torch.distributed.flight_recorder.fr_trace": "test_export.py runs it",
    "titan-analyze timeline outputs/structured_logs/": "test_structured_log.py runs it",
    "titan-analyze summary outputs/structured_logs/": "test_structured_log.py runs it",
    "titan-analyze timeline dumps/ --with": "test_timeline.py runs it",
    "titan-analyze compare dumps/ --attempt": "test_compare.py runs it",
    "titan-analyze compare dumps/ --step": "test_compare.py runs it",
    "titan-dump 4711": "a process of the page's example",
    "titan-analyze watch": "it goes on until it is ended; test_verdict.py runs it",
    'man -M "$VIRTUAL_ENV': "a wheel that is installed",
    'source "$VIRTUAL_ENV': "a wheel that is installed",
}

ANSWERS = (0, 1, 3)  # nothing wrong, findings, cannot tell: 2 and others mean that it did not run
WITHOUT_PAGE = "was built without the page"  # by npm, which a build need not have


def commands_of(block, language):
    """Of a block: its commands, continued lines as one; a script, or lines that need each other, as a whole."""
    if language == "console" or not language:
        return [line.lstrip("$ ") for line in block.splitlines()
                if line.startswith("$ ") or (not language and line.startswith("titan-"))]
    if re.search(r"(?m)^(?:#!|for |\w+=\S)", block) and not re.search(r"(?m)^TITANTRACE", block):
        return [block]
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]


def pages():
    return [harness.ROOT / "README.md", *sorted((harness.ROOT / "docs").rglob("*.md"))]


def commands_of_page(page):
    # A fence of any language, so that the text between two blocks is never taken for one.
    for language, block in re.findall(r"(?m)^```(\w*)\n(.*?)^```$", page.read_text(), re.S):
        if language in ("sh", "bash", "console", ""):
            yield from commands_of(block, language)


class Pages(harness.Case):
    def stand_in(self, name, text):
        path = self.place.path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def make_scene(self):
        """A job that hangs and lives, and beside its dumps what else the pages read."""
        job = "titan-sim --ranks 2 --dp 2 --steps 3 --checkpoint-every 0"
        self.stand_in("torchrun", f"exec {harness.stand_ins()}/{job}")
        self.stand_in("python", f'case $1 in *.py) exec {harness.stand_ins()}/{job} ;; *) exec python3 "$@" ;; esac')
        self.stand_in("srun", 'while [[ $1 == -* ]]; do shift; done; exec "$@"')
        self.place.start([harness.stand_ins() / "titan-sim", "--ranks", "8", "--dp", "2", "--tp", "2", "--pp", "2",
                          "--steps", "100000"],
                         self.place.env(SIMGPU_FAULTS="spin rank=5 step=40 comm=tp", TITANTRACE_TIMEOUT_S=2,
                                        TITANTRACE_RUN_ID="RUN", TITANTRACE_STACK_SAMPLES_S="0.1"))
        synth = harness.BUILD / "tests" / "synth" / "titan-synth"
        for name in ("before", "after", "main", "branch", "costs/without", "costs/with"):
            made = self.place.run([synth, self.place.path / name, "--timed", "--ranks", "16", "--hosts", "2",
                                   "--steps", "60", "--fault", "none"])
            self.assertEqual(made.status, 0, made.stderr)
        (self.place.path / "slurm-17.out").write_text("srun: error: node-0: task 5: Killed\n")
        harness.wait_for(lambda: len(self.place.dumped_ranks("RUN")) == 8, 30, "8 ranks dump")
        shared = self.place.path / "shared"
        shutil.copytree(self.place.dumps, shared / "dumps")
        exported = self.paste("python -m titantrace.export --flight-recorder /shared/fr/ dumps/")
        self.assertEqual(exported.status, 0, exported.stderr)
        with tarfile.open(self.place.path / "job.tar.gz", "w:gz") as archive:
            archive.add(shared / "fr", "fr")

    def paste(self, command):
        env = self.place.env(preload=False, SLURM_SUBMIT_DIR=self.place.path, SLURM_JOB_ID="17", NODE="0", COLUMNS=80,
                             PYTHONPATH=harness.ROOT / "python")
        env["PATH"] = ":".join([str(self.place.path / "bin"), str(harness.BUILD / "analyzer"),
                                str(harness.BUILD / "tools"), env["PATH"]])
        env.pop("TITANTRACE_DIR")
        return self.place.run(["bash", "-c", command.replace("/shared/", f"{self.place.path}/shared/")], env)

    def test_each_command(self):
        self.make_scene()
        used = set()
        pasted = 0
        for page in pages():
            for command in commands_of_page(page):
                row = next((row for row in NOT_HERE if command.startswith(row)), None)
                used.add(row)
                if row is None:
                    with self.subTest(page=page.name, command=command):
                        done = self.paste(command)
                        if WITHOUT_PAGE in done.stderr:
                            print(f"{command}: not tried, as this build is without the page")
                            continue
                        self.assertIn(done.status, ANSWERS, done.stderr)
                        pasted += 1
        self.assertGreater(pasted, 30)
        self.assertEqual(set(NOT_HERE) - used, set(), "no page shows these any more")


if __name__ == "__main__":
    harness.main()
