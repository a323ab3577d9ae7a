"""titan-analyze: its JSON. The first finding is the verdict; remarks (files that are missing, entries lost) accuse
nobody."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenarios"))

import judge  # noqa: E402

analyzer = ""


def start(path: str):
    global analyzer
    analyzer = path


def version() -> str:
    return subprocess.run([analyzer, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def command(directory: str) -> list:
    return [analyzer, "--no-rings", "--json", directory]


def answer(status: int, text: str, errors: str) -> dict:
    said = judge.Answer(status, text, errors)
    findings = (said.report or {}).get("findings", [])
    return {"named": [finding["ranks"] for finding in said.findings if finding["ranks"]], "failed": said.broken,
            "absent":
            sorted({rank for finding in findings if finding["kind"] == "missing_dump" for rank in finding["ranks"]}),
            "status": status, "text": text, "errors": errors}
