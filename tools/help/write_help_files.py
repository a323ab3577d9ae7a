#!/usr/bin/env python3
"""Writes the man page and the shell completions of a program, from its own --help.

write_help_files.py PROGRAM VERSION DIR    DIR/PROGRAM.1, PROGRAM.bash, _PROGRAM, PROGRAM.fish
"""
import pathlib
import sys

sys.dont_write_bytecode = True
import completions  # noqa: E402
import help_text  # noqa: E402
import man_page  # noqa: E402


def main() -> None:
    program, version, place = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    name = pathlib.Path(program).name
    command = help_text.read(program, name)
    for file_name, text in ((f"{name}.1", man_page.man_page(command, version)),
                            (f"{name}.bash", completions.bash(command)), (f"_{name}", completions.zsh(command)),
                            (f"{name}.fish", completions.fish(command))):
        (place / file_name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
