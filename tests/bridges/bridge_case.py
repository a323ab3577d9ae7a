"""What the tests of the bridges share. Each runs one program, which knows only the bridged library, with the stand-in
beside this file, or with --real with the real package."""
import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tests"))
import package_case  # noqa: E402

REAL = "--real" in sys.argv
STAND_INS = ROOT / "tests" / "bridges" / "stand_ins"


def real_python():
    """The Python that has the real packages, as scripts/setup --bridges makes it."""
    return os.environ.get("TITAN_BRIDGES_PYTHON") or str(ROOT / ".venv-bridges" / "bin" / "python")


class Case(package_case.Case):
    def bridged(self, name, program, preload=True, **variables):
        """What the program prints as JSON, run as rank 3 by the Python of the packages."""
        *_, python = [argparse.Namespace(command=[real_python()])] if REAL else self.each_python()
        packages = [str(ROOT / "python")] + ([] if REAL else [str(STAND_INS)])
        return self.run_program(python, name, preload, program, **{
            "RANK": "3", "WORLD_SIZE": "8", "PYTHONPATH": os.pathsep.join(packages), **variables})

    def markers_of(self, name):
        return self.markers_in(self.dump_of_rank(name))


def by_name(markers):
    """The newest marker of each kind and name."""
    return {(marker["marker"], marker["name"]): marker for marker in markers}


def main():
    sys.argv = [word for word in sys.argv if word != "--real"]
    package_case.main()
