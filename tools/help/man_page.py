"""A man page of a program, from its help."""
from typing import List

from help_text import Command, Option

_SEE_ALSO = ("titan-analyze", "titan-dump", "titan-run", "titan-top")


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def _options(options: List[Option]) -> List[str]:
    lines = []
    for option in options:
        names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in option.names)
        lines += [".TP", names + (f" \\fI{_escaped(option.value)}\\fR" if option.value else ""),
                  _escaped(option.about) or "\\&"]
    return lines


def _verbatim(text: str) -> List[str]:
    return [".PP", ".nf", *map(_escaped, text.splitlines()), ".fi"] if text else []


def _command(command: Command) -> List[str]:
    return [f'.SS "{_escaped(command.name)}"', _escaped(command.about), ".PP", _escaped(command.usage),
            *_options([*command.positionals, *command.options]), *_verbatim(command.footer)]


def man_page(program: Command, version: str) -> str:
    lines = [f'.TH {program.name.upper()} 1 "" "titantrace {version}" "titantrace"', ".SH NAME",
             f"{_escaped(program.name)} \\- {_escaped(program.about)}", ".SH SYNOPSIS", _escaped(program.usage),
             ".SH OPTIONS", *_options([*program.positionals, *program.options])]
    if program.footer:
        lines += [".SH NOTES", *_verbatim(program.footer)]
    if program.commands:
        lines += [".SH COMMANDS", *(line for command in program.commands for line in _command(command))]
    others = [name for name in _SEE_ALSO if name != program.name]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escaped(name)}\\fR(1)" for name in others)]
    return "\n".join(lines) + "\n"
