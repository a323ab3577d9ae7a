"""Every option and command that our programs show with --help is in their man pages and in the completions of bash, zsh
and fish, and those are sound.

    check_help_files.py --root ROOT --build DIR
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = {"titan-analyze": "analyzer", "titan-dump": "tools", "titan-run": "tools", "titan-top": "tools"}
FILES = ("{}.1", "{}.bash", "_{}", "{}.fish")
FISH_LONG = re.compile(r"(?<= -l )[\w-]+")
FISH_SHORT = re.compile(r"(?<= -s )\w+")


def shown(path, *words):
    return subprocess.run([path, *words, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout


def options_of(text):
    table = re.search(r"^Options:\n((?:  .*\n)+)", text, re.M)[1]
    return {name for names in re.findall(r"^  (-\S+)", table, re.M) for name in names.split(",")}


def commands_of(text):
    table = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.M)
    return re.findall(r"^  ([a-z]\S*)", table[1], re.M) if table else []


def names_in(file_name, text):
    """Options and commands that a file holds."""
    if file_name.endswith(".fish"):
        return ({"--" + name for name in FISH_LONG.findall(text)} | {"-" + name for name in FISH_SHORT.findall(text)}
                | set(re.findall(r"(?<= -a )[\w-]+", text)))
    plain = text.replace("\\-", "-").replace("\\fB", " ").replace("\\fR", " ")
    return set(re.findall(r"(?<![\w-])-{0,2}[a-z][\w-]*", plain))


def missing(programs, files):
    """`programs`: {program: names that it shows}; `files`: {file name: text}."""
    return [f"{name.format(program)} lacks {lacking}"
            for program, names in programs.items() for name in FILES
            for lacking in sorted(names - names_in(name, files[name.format(program)]))]


def bash_offers(path, program, *words):
    script = (f'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _{program.replace("-", "_")}; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return subprocess.run(["bash", "-c", script, "bash", str(path), program, *words], capture_output=True, text=True,
                          check=True, timeout=60, cwd=tempfile.gettempdir()).stdout.split()


def unsound(place):
    """What the shells and groff say of the files; what could not be asked is printed."""
    problems = []
    for program in PROGRAMS:
        for command in (["groff", "-man", "-ww", "-Tutf8", "-z", str(place / f"{program}.1")],
                        ["bash", "-n", str(place / f"{program}.bash")], ["zsh", "-n", str(place / f"_{program}")],
                        ["fish", "-n", str(place / f"{program}.fish")]):
            if shutil.which(command[0]) is None:
                print(f"not checked, as {command[0]} is not here: {command[-1]}")
                continue
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if done.returncode != 0 or done.stderr:
                problems.append(f"{command[-1]}: {done.stderr.strip()}")
    analyze = place / "titan-analyze.bash"
    for words, wanted in ((["titan-analyze", "sho"], "show"), (["titan-analyze", "--onel"], "--oneline"),
                          (["titan-analyze", "show", "dumps", "--se"], "--seq")):
        if wanted not in bash_offers(analyze, *words):
            problems.append(f"bash offers no {wanted} for: {' '.join(words)}")
    if "--seq" in bash_offers(analyze, "titan-analyze", "stacks", "dumps", "--"):
        problems.append("bash offers an option of show for stacks")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    options = parser.parse_args()
    place = options.build.resolve() / "tools" / "help"
    programs = {}
    for program, directory in PROGRAMS.items():
        path = options.build.resolve() / directory / program
        text = shown(path)
        commands = commands_of(text)
        programs[program] = options_of(text).union(commands, *(options_of(shown(path, name)) for name in commands))
    files = {name.format(program): (place / name.format(program)).read_text() for program in PROGRAMS
             for name in FILES}
    for name, text in files.items():  # an option that is left out must be found out
        without = {**files, name: text.replace("version", "vision")}
        if not any(problem.startswith(f"{name} lacks --version") for problem in missing(programs, without)):
            sys.exit(f"not found out: {name} without --version")
    problems = missing(programs, files) + unsound(place)
    counted = sum(map(len, programs.values()))
    if counted < 60:
        problems.append(f"only {counted} names were found: has the form of --help changed?")
    print("\n".join([*problems, f"{counted} options and commands, {len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
