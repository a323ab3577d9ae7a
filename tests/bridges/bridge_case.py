"""What the tests of the bridges share. Each runs one program, which knows only the bridged library, with the stand-in
beside this file, or with --real with the real package."""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "python"))
import package_case  # noqa: E402

REAL = "--real" in sys.argv
STAND_INS = ROOT / "tests" / "bridges" / "stand_ins"


def real_python():
    """The Python that has the real packages, as scripts/setup --bridges makes it."""
    return os.environ.get("TITAN_BRIDGES_PYTHON") or str(ROOT / ".venv-bridges" / "bin" / "python")


def packages():
    return [str(ROOT / "python")] + ([] if REAL else [str(STAND_INS)])


class Case(package_case.Case):
    def bridged(self, name, program, preload=True, **variables):
        """What the program prints as JSON, run as rank 3 by the Python of the packages."""
        *_, python = [argparse.Namespace(command=[real_python()])] if REAL else self.each_python()
        return self.run_program(python, name, preload, program, **{
            "RANK": "3", "WORLD_SIZE": "8", "PYTHONPATH": os.pathsep.join(packages()), **variables})

    def run_theirs(self, name, words, preload=True, status=0, **variables):
        """Runs a program of the package in a directory of its own, with its dumps below: they are made as it exits.
        What it prints."""
        place = self.place / name
        place.mkdir(exist_ok=True)
        environment = self.environment_of(name, preload, **{
            "TITANTRACE_DIR": str(place / "dumps"), "TITANTRACE_DUMP_ON": "exit", "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(packages()), "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(place / "hub"), "DO_NOT_TRACK": "1", **variables})
        done = subprocess.run([real_python(), *words], cwd=place, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, status, done.stdout[-8000:])
        return done.stdout

    def markers_by_rank(self, name):
        """Of a program that run_theirs has run."""
        dumps = (self.place / name / "dumps").rglob("rank*.titan")
        return {int(dump.name[4:9]): self.markers_in(dump) for dump in dumps}

    def same_without_tracer(self, program, *path):
        """What the program prints beside whether it has dumped. Without the tracer it is the same. Its spans, by their
        ids, are in self.begun and self.ended: each has ended."""
        path = {"PYTHONPATH": os.pathsep.join(map(str, [ROOT / "python", *path]))}
        dumped, results = self.bridged("run", program, **path)
        self.assertTrue(dumped)
        self.assertEqual(self.bridged("plain", program, preload=False, **path), [False, results])
        self.markers = self.markers_of("run")
        self.begun, self.ended = begun(self.markers), ended(self.markers)
        self.assertEqual({span: marker["name"] for span, marker in self.begun.items()},
                         {span: marker["name"] for span, marker in self.ended.items()})
        return results

    def spans_of(self, name):
        """(begin, end) of each."""
        return [(begin, self.ended[span]) for span, begin in self.begun.items() if begin["name"] == name]

    def path_with_entry_points(self):
        """PYTHONPATH where our package is declared as the wheel declares it."""
        declared = self.place / "declared" / "titantrace-0.dist-info"
        declared.mkdir(parents=True)
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        groups = re.findall(r'^\[project\.entry-points\."(.*)"\]\n((?:\w+ = ".*"\n)+)', project, re.M)
        (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: titantrace\nVersion: 0\n")
        (declared / "entry_points.txt").write_text("".join(
            f"[{group}]\n" + points.replace('"', "") for group, points in groups))
        return os.pathsep.join([str(declared.parent), *packages()])

    def markers_of(self, name):
        return self.markers_in(self.dump_of_rank(name))


def by_name(markers):
    """The newest marker of each kind and name."""
    return {(marker["marker"], marker["name"]): marker for marker in markers}


def begun(markers):
    return {marker["span"]: marker for marker in markers if marker["marker"] == "span_begin"}


def ended(markers):
    return {marker["span"]: marker for marker in markers if marker["marker"] == "span_end"}


def facts_of(markers):
    """Values of the attributes, by the name of the span or event and their own."""
    name_of = {marker["span"]: marker["name"] for marker in markers if marker["marker"] in ("span_begin", "event")}
    return {(name_of[marker["span"]], marker["name"]): marker["text"] or marker["value"]
            for marker in markers if marker["marker"] == "attribute"}


def paths(markers):
    """Where each span lies, in the order in which they began: "loop/step/forward"."""
    known = {0: ()}
    for span, marker in begun(markers).items():
        known[span] = (*known.get(marker["parent"], ()), marker["name"])
    return ["/".join(path) for path in list(known.values())[1:]]


def skip_without(*modules):
    """Ends the test as skipped where the Python of the real packages lacks one."""
    program = f"""
import importlib.util
def is_absent(name):
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError:  # of the package that it is in
        return True
print(", ".join(filter(is_absent, {modules!r})))
"""
    try:
        done = subprocess.run([real_python(), "-c", program], capture_output=True, text=True, check=True)
        absent = done.stdout.strip()
    except OSError:  # there is no such Python
        absent = ", ".join(modules)
    if absent:
        print(f"the Python of the real packages lacks {absent} (scripts/setup --bridges)")
        sys.exit(77)


def main():
    sys.argv = [word for word in sys.argv if word != "--real"]
    package_case.main()
