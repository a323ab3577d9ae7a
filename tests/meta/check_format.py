"""C and C++ files are formatted as .clang-format says. Tables (.def) are not: their rows are aligned by hand.

Another major version formats otherwise, so that only the one this tree was formatted with is asked; without it the test
is skipped."""
import pathlib
import re
import shutil
import subprocess
import sys

import metalib

MAJOR = 14
SUFFIXES = {".cpp", ".c", ".h", ".hpp"}
STYLE = pathlib.Path(__file__).resolve().parents[2] / ".clang-format"

BAD = {
    "indented by two": ("base/a.cpp", {"base/a.cpp": "int f() {\n  return 1;\n}\n"}),
    "a table's neighbour": ("base/b.h", {"base/b.h": "int  g();\n", "base/b.def": "ROW( f )\n"}),
}
GOOD = {"a table": {"base/b.def": "ROW( f )\n"}, "as it should be": {"base/a.cpp": "int f() { return 1; }\n"}}


def formatter():
    """The program, or why there is none."""
    versions = []
    for name in (f"clang-format-{MAJOR}", "clang-format"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            found = re.search(r"version (\d+)", text)
            if found and int(found.group(1)) == MAJOR:
                return path, ""
            versions.append(text.strip())
    return None, f"clang-format {MAJOR} is not installed" + (f" (only: {', '.join(versions)})" if versions else "")


def check(tree):
    program, _ = formatter()
    files = [str(path) for path in tree.files(suffixes=SUFFIXES)]
    if not files:
        return []
    ran = subprocess.run([program, f"--style=file:{STYLE}", "--dry-run", *files], capture_output=True, text=True,
                         check=False)
    if ran.returncode:
        return [f"{program} failed: {ran.stderr.strip()[:500]}"]
    places = {}
    for file, line in re.findall(r"^(/[^:\n]+):(\d+):\d+: warning: code should be clang-formatted", ran.stderr, re.M):
        places.setdefault(tree.name(file), line)
    return [f"{name}:{line}: not as .clang-format says: clang-format-{MAJOR} -i {name}"
            for name, line in places.items()]


if __name__ == "__main__":
    why = formatter()[1]
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    metalib.run(check, BAD, GOOD)
