"""What our programs say with --help, as tables: the only source of their man pages and shell completions."""
import dataclasses
import re
import subprocess
from typing import List, Optional

_ENTRY = re.compile(r"^  (?P<names>\S.*?)(?:  +(?P<about>\S.*))?$")
_OPTION = re.compile(r"^-")


@dataclasses.dataclass
class Option:
    names: List[str]  # "-o", "--output"
    value: str        # "TEXT", "FLOAT"; empty: a flag
    about: str

    @property
    def long_names(self) -> List[str]:
        return [name for name in self.names if name.startswith("--")]

    @property
    def short_names(self) -> List[str]:
        return [name for name in self.names if not name.startswith("--")]


@dataclasses.dataclass
class Command:
    name: str  # "titan-analyze", "titan-analyze show"
    about: str
    usage: str
    positionals: List[Option]
    options: List[Option]
    commands: List["Command"]
    footer: str

    @property
    def last_name(self) -> str:
        return self.name.split()[-1]


def _option(names: str, about: str) -> Option:
    words = re.sub(r" (Excludes|Needs|REQUIRED).*", "", names).split()
    values = [word for word in words[1:] if word != "..."]
    return Option(words[0].split(","), values[0] if values else "", about)


def _part(lines: List[str], title: str) -> List[Option]:
    """The table below a title."""
    found: List[Option] = []
    if title not in lines:
        return found
    for line in lines[lines.index(title) + 1:]:
        entry = _ENTRY.match(line)
        if line.startswith("   ") and line.strip() and found:
            found[-1].about = (found[-1].about + " " + line.strip()).strip()
        elif entry is None:
            break
        else:
            found.append(_option(entry["names"], entry["about"] or ""))
    return found


def _footer(lines: List[str]) -> str:
    """What stands behind the last table."""
    end = 0
    for number, line in enumerate(lines):
        if line in ("Positionals:", "Options:", "Subcommands:"):
            end = number + 1
            while end < len(lines) and lines[end].startswith("  "):
                end += 1
    return "\n".join(lines[end:]).strip("\n")


def parse(name: str, text: str) -> Command:
    lines = text.splitlines()
    usage = next(number for number, line in enumerate(lines) if line.startswith("Usage: "))
    return Command(name, " ".join(lines[:usage]), lines[usage].removeprefix("Usage: "), _part(lines, "Positionals:"),
                   _part(lines, "Options:"), [], _footer(lines))


def read(program: str, name: str, commands: Optional[List[str]] = None) -> Command:
    """A program, and each of its commands."""
    words = commands or []
    text = subprocess.run([program, *words, "--help"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    command = parse(" ".join([name, *words]), text)
    command.commands = [read(program, name, [*words, below.names[0]])
                        for below in _part(text.splitlines(), "Subcommands:")]
    return command
