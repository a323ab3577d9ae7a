"""A case that waits for the night runs at night: each file that has one is a test of the nightly tier, too."""
import json
import re

from metalib import run

WAITS = re.compile(r"^\s*@(?:\w+\.)?at_night\b", re.M)


def check(tree):
    tests = json.loads(((tree.build or tree.root) / "meson-info" / "intro-tests.json").read_text())
    at_night = {(tree.root / word).resolve() for test in tests if "TITAN_NIGHTLY" in test["env"]
                for word in test["cmd"] if word.endswith(".py")}
    return [f"{tree.name(path)}: has cases marked at_night, and meson.build runs it by day only"
            for path in tree.files("python", "tests", suffixes={".py"})
            if WAITS.search(tree.text(path)) and path.resolve() not in at_night]


def sample(environment):
    return {"tests/e2e/test_a.py": "@harness.at_night\ndef test_a(self):\n    pass\n",
            "meson-info/intro-tests.json": json.dumps([{"cmd": ["python3", "tests/e2e/test_a.py"],
                                                        "env": environment}])}


if __name__ == "__main__":
    run(check, {"by day only": ("tests/e2e/test_a.py", sample({}))}, {"at night": sample({"TITAN_NIGHTLY": "1"})})
