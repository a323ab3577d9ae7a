"""No line is wider than 120 columns. Exempt are data, rows of Markdown tables, which cannot be wrapped, and recorded
output in the directories of tests/golden."""
from metalib import run

LIMIT = 120
NAMES = {"meson.build", "meson_options.txt", ".clang-tidy"}
SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".S", ".def", ".py", ".md", ".toml", ".supp", ".map", ".ts", ".mjs", ".css",
            ".html"}
SCRIPTS = ("#!/bin/", "#!/usr/bin/")


def is_read_by_people(name, text):
    path = name.rpartition("/")[2]
    return path in NAMES or any(path.endswith(suffix) for suffix in SUFFIXES) or text.startswith(SCRIPTS)


def is_recorded(name):
    return name.startswith("tests/golden/") and name.count("/") > 2


def check(tree):
    problems = []
    for path in tree.files():
        name = tree.name(path)
        text = tree.text(path)
        if is_recorded(name) or not is_read_by_people(name, text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > LIMIT and not (name.endswith(".md") and line.startswith("|")):
                problems.append(f"{name}:{number}: {len(line)} columns (limit {LIMIT})")
    return problems


LONG = "x" * 121
BAD = {
    "a comment": ("base/a.cpp:2: 124 columns", {"base/a.cpp": f"int x;\n// {LONG}\n"}),
    "a script": ("scripts/a:2: 121 columns", {"scripts/a": f"#!/usr/bin/env bash\n{LONG}\n"}),
    "prose": ("docs/a.md:1: 121 columns", {"docs/a.md": f"{LONG}\n"}),
    "what reads recorded output": ("tests/golden/a.py:1: 121 columns", {"tests/golden/a.py": f"{LONG}\n"}),
    "a build file": ("base/meson.build:1: 121 columns", {"base/meson.build": f"{LONG}\n"}),
}
GOOD = {
    "120 columns, not bytes": {"base/a.cpp": "//" + "·" * 118 + "\n"},
    "a table": {"docs/a.md": f"| {LONG} |\n"},
    "recorded output": {"tests/golden/1.0/a.md": f"{LONG}\n"},
}

if __name__ == "__main__":
    run(check, BAD, GOOD)
