"""No unfinished business in the tree: marks such as to-do notes belong into an issue."""
import re

from metalib import run

# Spelled so that this file does not find itself.
MARK = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
TEXT = {".cpp", ".c", ".h", ".hpp", ".def", ".in", ".py", ".sh", ".build", ".txt", ".md", ""}


def check(tree):
    return [f"{tree.name(path)}:{number}: {line.strip()[:80]}"
            for path in tree.files(suffixes=TEXT) if path.name != "LICENSE"
            for number, line in enumerate(tree.text(path).splitlines(), 1) if MARK.search(line)]


BAD = {
    "a mark": ("tracer/a.cpp:1", {"tracer/a.cpp": "int x;  // TO" "DO: more\n"}),
    "in a script": ("scripts/x:2", {"scripts/x": "\n# FIX" "ME\n"}),
}

if __name__ == "__main__":
    run(check, BAD, {"a word": {"tracer/a.cpp": "int TODOS;\n"}})
