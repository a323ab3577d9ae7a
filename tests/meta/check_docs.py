"""README.md and the code say the same: environment variables, finding kinds, and the commands that README names.

Variables live in tracer/config.def and as string literals; finding kinds in the X-macro table of the analyzer or of the
formats. What is in one place only is a problem, whichever place it is.
"""
import re

from metalib import LAYERS, blank_comments_and_strings, run
from readme_tables import ENVIRONMENT_BEGIN, with_tables

VARIABLE = re.compile(r"\bTITANTRACE(?:_[A-Z0-9]+)*\b")
KINDS_BEGIN, KINDS_END = "<!-- finding kinds -->", "<!-- end of finding kinds -->"
NOT_VARIABLES = re.compile(r"^TITANTRACE_(H|API|EXPORT|VERSION\w*)$")


def code_variables(tree):
    """Names in config.def, and those that stand alone in a string literal elsewhere (getenv and messages)."""
    found = {}
    for path in tree.files(*LAYERS, "scripts", suffixes={".cpp", ".c", ".h", ".def", ".py", ""}):
        text = tree.text(path)
        if path.suffix in (".cpp", ".c", ".h", ".def"):
            text = blank_comments_and_strings(text, keep_strings=True)
            if path.name != "config.def":
                text = "\n".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', text))
        for name in VARIABLE.findall(text):
            if name != "TITANTRACE" or path.name == "config.def":
                found.setdefault(name, tree.name(path))
    return {name: place for name, place in found.items() if not NOT_VARIABLES.match(name)}


def code_kinds(tree):
    """Rows of the table of finding kinds: X(..., "snake_case", ...) below TITAN_FINDING..., or in findings.def."""
    kinds = set()
    for path in tree.files("formats", "analyzer", suffixes={".h", ".def", ".cpp"}):
        text = blank_comments_and_strings(tree.text(path), keep_strings=True)
        if path.name == "findings.def":
            tables = [text]
        else:
            tables = re.findall(r"#[ \t]*define[ \t]+TITAN_FINDING\w*\([^\n]*\\\n(?:[^\n]*\\\n)*[^\n]*", text)
        for table in tables:
            kinds |= set(re.findall(r'\bX\(\s*(?:\w+\s*,\s*)*"([a-z][a-z0-9_]+)"', table))
    return kinds


def readme_kinds(readme):
    if KINDS_BEGIN not in readme or KINDS_END not in readme:
        return None
    table = readme.split(KINDS_BEGIN)[1].split(KINDS_END)[0]
    return {kind for line in table.splitlines() if line.startswith("|")
            for kind in re.findall(r"`([a-z0-9_]+)`", line.split("|")[1])}


def check(tree):
    path = tree.root / "README.md"
    if not path.exists():
        return ["README.md is missing"]
    readme = tree.text(path)
    problems = []

    documented, coded = set(VARIABLE.findall(readme)), code_variables(tree)
    problems += [f"{name} ({coded[name]}) is not in README.md" for name in sorted(set(coded) - documented)]
    problems += [f"{name} is in README.md but nowhere in the code" for name in sorted(documented - set(coded))]

    if ENVIRONMENT_BEGIN not in readme:
        problems.append(f"README.md has no table of environment variables after {ENVIRONMENT_BEGIN}")
    elif with_tables(tree.root, readme) != readme:
        problems.append("README.md's table is not what tracer/config.def says: python3 tests/meta/readme_tables.py --root . --write")

    kinds, shown = code_kinds(tree), readme_kinds(readme)
    if not kinds:
        problems.append("no table of finding kinds was found in formats/ or analyzer/")
    elif shown is None:
        problems.append(f"README.md has no table of finding kinds between {KINDS_BEGIN} and {KINDS_END}")
    else:
        problems += [f"finding kind {kind} is not in README.md" for kind in sorted(kinds - shown)]
        problems += [f"finding kind {kind} is in README.md but nowhere in the code" for kind in sorted(shown - kinds)]

    for script in sorted(set(re.findall(r"(?<![\w/])(?:\./)?(scripts/[\w-]+|\.ci/run)\b", readme))):
        if not (tree.root / script).exists():
            problems.append(f"README.md names {script}, which does not exist")
    return problems


TABLE = '#define TITAN_FINDING_KINDS(X) \\\n    X(1, kRankDead, "rank_dead", "text") \\\n    X(2, kLost, "lost", "t")\n'
README = f"""<!-- environment -->
| variable | default | meaning |
|---|---|---|
| `TITANTRACE_DIR` | `dumps` | Where. |
<!-- end of environment -->
{KINDS_BEGIN}
| `rank_dead` | x |
| `lost` | y |
{KINDS_END}
"""
CODE = {"formats/findings.h": TABLE,
        "tracer/config.def": 'TITAN_CONFIG_ROW(TITANTRACE_DIR, "dumps", path, dir,\n                 "Where.")\n'}
BAD = {
    "undocumented": ("TITANTRACE_NEW (tracer/a.cpp) is not in",
                     {**CODE, "README.md": README, "tracer/a.cpp": 'getenv("TITANTRACE_NEW");\n'}),
    "stale": ("TITANTRACE_OLD is in README.md but", {**CODE, "README.md": README + "`TITANTRACE_OLD`\n"}),
    "another default": ("table is not what", {**CODE, "README.md": README.replace("`dumps`", "`dump`")}),
    "undocumented kind": ("lost is not in", {**CODE, "README.md": README.replace("| `lost` | y |\n", "")}),
    "stale kind": ("gone is in README.md but", {**CODE, "README.md": README.replace("`lost` |", "`lost` `gone` |")}),
    "no table": ("no table of finding kinds", {"README.md": README, "tracer/config.def": CODE["tracer/config.def"]}),
    "no such script": ("names scripts/nothing", {**CODE, "README.md": README + "./scripts/nothing\n"}),
}

if __name__ == "__main__":
    run(check, BAD, {"in step": {**CODE, "README.md": README}})
