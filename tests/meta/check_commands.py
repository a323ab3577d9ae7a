"""Every option of our programs and scripts that README.md and docs/ show is one that their --help knows.

    check_commands.py --root ROOT --build DIR
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

PROGRAMS = {"titan-analyze": "analyzer", "titan-dump": "tools", "titan-run": "tools", "titan-top": "tools"}
WORD = re.compile(r"(?<![\w./-])(?:\./)?(titan-(?:analyze|dump|run|top)|scripts/[\w-]+)(?![\w.-])")


def shown_lines(text):
    """Of code blocks, without prompts and comments; continued lines are one."""
    for block in re.findall(r"```(?:sh|console|bash)\n(.*?)```", text, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            yield re.sub(r"\s#\s.*", "", re.sub(r"^\s*\$ ", "", line))


def calls(line):
    """(program, its words) of each of ours in a line; what follows "--" is another program's."""
    for part in re.split(r"&&|\|\||[|;&)]|\$\(", line):
        match = WORD.search(part)
        if match:
            words = part[match.end():].split(" -- ")[0]
            try:
                yield match[1], shlex.split(words.strip().strip('"'))
            except ValueError:
                yield match[1], words.split()


def knows(command, cache):
    if command not in cache:
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60)
        cache[command] = done.stdout if done.returncode == 0 else ""
    return cache[command]


def problems_of(line, where, cache):
    """Of each call in a line: nothing, or the options that the program does not know. `where` gives a program's
    path."""
    for program, words in calls(line):
        path = where(program)
        helps = knows((str(path),), cache)
        if words and re.fullmatch(r"[a-z-]+", words[0]) and re.search(rf"(?m)^  {words[0]}\b", helps):
            helps += knows((str(path), words[0]), cache)
        known = set(re.findall(r"--[a-z][\w-]*", helps)) | {"--help"}
        shown = [word.split("=")[0] for word in words]
        yield [f"{program} knows no {word}: {line.strip()}"
               for word in shown if re.fullmatch(r"--[a-z][\w-]*", word) and word not in known]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    options = parser.parse_args()
    where = lambda program: options.build / PROGRAMS[
        program] / program if program in PROGRAMS else options.root / program
    cache = {}
    for bad in ("titan-run --bogus -- true", "srun titan-analyze digest dumps/ --bogus",
                "cd x && ./scripts/wheel --bogus"):
        if not any(problems_of(bad, where, cache)):
            sys.exit(f"not found out: {bad}")
    found = [(page, problems) for page in [options.root / "README.md", *sorted((options.root / "docs").rglob("*.md"))]
             for line in shown_lines(page.read_text()) for problems in problems_of(line, where, cache)]
    problems = [f"{page.relative_to(options.root)}: {problem}" for page, told in found for problem in told]
    if len(found) < 20:
        problems.append(f"only {len(found)} commands were found: has the form of the pages changed?")
    print("\n".join([*problems, f"{len(found)} commands, {len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
