"""Completion of a program's commands and options in bash, zsh and fish, from its help. Words that are no option are
completed as files."""
import re
from typing import List

from help_text import Command, Option


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _brief(option: Option) -> str:
    return re.sub(r"\s+", " ", option.about)


def _words(command: Command) -> str:
    return " ".join(name for option in command.options for name in option.names)


def _identifier(name: str) -> str:
    return "_" + re.sub(r"\W", "_", name)


def bash(program: Command) -> str:
    function = _identifier(program.name)
    names = " ".join(command.last_name for command in program.commands)
    cases = "".join(f"        {command.last_name}) options={_quoted(_words(command))} ;;\n"
                    for command in program.commands)
    choose = f"    case ${{COMP_WORDS[1]:-}} in\n{cases}    esac\n" if cases else ""
    return f"""# bash completion for {program.name}
{function}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} options={_quoted(_words(program))}
    COMPREPLY=()
{choose}    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    elif [[ $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W {_quoted(names)} -- "$word"; compgen -f -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}}
complete -o filenames -F {function} {program.name}
"""


def _zsh_options(options: List[Option]) -> str:
    specs = []
    for option in options:
        about = re.sub(r"([\[\]:\\])", r"\\\1", _brief(option))
        for name in option.names:
            assign = "=" if option.value and name.startswith("--") else ""
            value = f":{option.value.lower()}:_files" if option.value else ""
            specs.append(_quoted(f"{name}{assign}[{about}]{value}"))
    return " ".join([*specs, "'*:file:_files'"])


def zsh(program: Command) -> str:
    names = " ".join(_quoted(f"{command.last_name}:{re.sub(r':', '', command.about)}") for command in program.commands)
    cases = "".join(f"        {command.last_name}) _arguments {_zsh_options(command.options)} ;;\n"
                    for command in program.commands)
    of_commands = f"""    local -a names=({names})
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe command names
    fi
    case $words[2] in
{cases}        *) _arguments {_zsh_options(program.options)} ;;
    esac
"""
    return (f"#compdef {program.name}\n{_identifier(program.name)}() {{\n"
            + (of_commands if cases else f"    _arguments {_zsh_options(program.options)}\n")
            + f"}}\n{_identifier(program.name)} \"$@\"\n")


def _fish_options(program: str, condition: str, options: List[Option]) -> List[str]:
    lines = []
    for option in options:
        # A file must not be offered where a value is none, and fish does so unless told.
        names = [f"-l {name[2:]}" for name in option.long_names] + [f"-s {name[1:]}" for name in option.short_names]
        lines.append(f"complete -c {program}{condition} {' '.join(names)}{' -r' if option.value else ''} "
                     f"-d {_fish_quoted(_brief(option))}")
    return lines


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(program: Command) -> str:
    name = program.name
    names = " ".join(command.last_name for command in program.commands)
    none_yet = f" -n 'not __fish_seen_subcommand_from {names}'" if names else ""
    lines = [f"# fish completion for {name}", *_fish_options(name, none_yet, program.options)]
    for command in program.commands:
        lines.append(f"complete -c {name} -n __fish_is_first_arg -a {command.last_name} "
                     f"-d {_fish_quoted(command.about)}")
        lines += _fish_options(name, f" -n '__fish_seen_subcommand_from {command.last_name}'", command.options)
    return "\n".join(lines) + "\n"
