"""What the exporters share: titan-analyze as a source of rows, packages that may be missing."""
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from .said import say

Row = Dict[str, Any]  # an object of titan-analyze ... --json
Process = Tuple[int, str]  # rank and role: where ranks count within roles, "" elsewhere

_FITTING = (0, 1)  # exit status 1: nothing fits


class Unusable(Exception):
    """What the user has to put right."""


def process_of(row: Row) -> Process:
    """The process that a marker or label is of."""
    return row["rank"], row.get("role", "")


def package(name: str, distribution: str) -> Any:
    """A module of a package that an exporter needs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Unusable(f"{distribution} is needed, and cannot be imported: {error}. Try: pip install "
                       f"{distribution}") from error


class Analyzer:
    """titan-analyze, on the dumps of one run."""

    def __init__(self, program: Optional[str], paths: List[str], of_run: List[str]) -> None:
        beside = os.path.join(os.path.dirname(sys.executable), "titan-analyze")
        found = program or (beside if os.access(beside, os.X_OK) else shutil.which("titan-analyze"))
        if found is None:
            raise Unusable("titan-analyze is neither beside this Python nor on PATH: give its place with "
                           "--titan-analyze")
        self._program = found
        self._paths = [*paths, *of_run]
        self._said: Set[str] = set()

    def lines(self, command: str, *options: str) -> Iterator[str]:
        """Its JSON Lines as they are. Errors, which are lines, too, have been told already."""
        return self._listed(command, [*self._paths, *options])

    def records(self, command: str, *options: str) -> Iterator[Row]:
        """The objects that it lists, one after another."""
        for line in self.lines(command, *options):
            yield json.loads(line)

    def document(self, command: str) -> Row:
        """The one object that it prints."""
        whole: Row = json.loads("".join(self.lines(command)))
        return whole

    def sql(self, query: str) -> List[Row]:
        """Says nothing where nothing is on record: Unusable."""
        lines = self._listed("sql", [*self._paths, query], is_quiet=True)
        return [json.loads(line) for line in lines]

    def fields(self) -> List[Row]:
        """The table of fields: what `show` lists, key by key."""
        return [json.loads(line) for line in self._listed("fields", [])]

    def _listed(self, command: str, arguments: List[str], is_quiet: bool = False) -> Iterator[str]:
        with tempfile.TemporaryFile() as told:
            try:
                running = subprocess.Popen([self._program, command, *arguments, "--json"], stdout=subprocess.PIPE,
                                           stderr=told, encoding="utf-8", errors="replace")
            except OSError as error:
                raise Unusable(f"titan-analyze does not start: {error}") from error
            with running:
                assert running.stdout is not None
                for line in running.stdout:
                    if '"error":' not in line or '"schema":' not in line or "error" not in json.loads(line):
                        yield line
            if not is_quiet:
                told.seek(0)
                self._say(told.read().decode("utf-8", errors="replace").splitlines())
        if running.returncode not in _FITTING:
            raise Unusable(f"titan-analyze {command} failed (exit status {running.returncode})")

    def _say(self, lines: List[str]) -> None:
        """Each once: several commands, or one again and again (--follow), say the same of the records."""
        for line in lines:
            if line not in self._said:
                self._said.add(line)
                say(line, file=sys.stderr)
