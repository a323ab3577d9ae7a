"""README.md, ARCHITECTURE.md, docs/ and the code say the same: environment variables, and the scripts and files that
the pages name.

Variables live in tracer/process/config.def and as string literals. What is in one place only is a problem, whichever
place it is.
"""
import re

import records_table
from metalib import LAYERS, blank_comments_and_strings, run
from settings_table import ENVIRONMENT_BEGIN, with_table

VARIABLE = re.compile(r"\bTITANTRACE(?:_[A-Z0-9]+)*\b")
SOURCE_FILE = re.compile(r"`([\w./-]*[\w-]\.(?:cpp|h|def|S|py))`")
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


def check(tree):
    settings = tree.root / "docs" / "reference" / "settings.md"
    pages = [tree.root / "README.md", tree.root / "ARCHITECTURE.md", tree.root / "CONTRIBUTING.md",
             *tree.files("docs", suffixes={".md"})]
    missing = [f"{tree.name(path)} is missing" for path in (pages[0], settings) if not path.exists()]
    if missing:
        return missing
    texts = {path: tree.text(path) for path in pages if path.exists()}
    problems = []

    documented, coded = set(VARIABLE.findall("\n".join(texts.values()))), code_variables(tree)
    problems += [f"{name} ({coded[name]}) is neither in README.md nor in docs/"
                 for name in sorted(set(coded) - documented)]
    problems += [f"{name} is documented but nowhere in the code" for name in sorted(documented - set(coded))]

    if ENVIRONMENT_BEGIN not in texts[settings]:
        problems.append(f"docs/reference/settings.md has no table of environment variables after {ENVIRONMENT_BEGIN}")
    elif with_table(tree.root, texts[settings]) != texts[settings]:
        problems.append("the table of docs/reference/settings.md is not what tracer/process/config.def says: "
                        "python3 tests/meta/settings_table.py --root . --write")

    records = tree.root / "docs" / "reference" / "records.md"
    if records_table.with_tables(tree.root, texts.get(records, "")) != texts.get(records, ""):
        problems.append("the tables of docs/reference/records.md are not what analyzer/records/records.def says: "
                        "python3 tests/meta/records_table.py --root . --write")

    sources = [f"/{tree.name(path)}" for path in tree.files(*LAYERS, "python", "scripts", "tests")]
    for path, text in texts.items():
        for source in sorted(set(SOURCE_FILE.findall(text))):
            if not any(known.endswith(f"/{source}") for known in sources):
                problems.append(f"{tree.name(path)} names {source}, which does not exist")
        for script in sorted(set(re.findall(r"(?<![\w/])(?:\./)?(scripts/[\w-]+|\.ci/run)\b", text))):
            if not (tree.root / script).exists():
                problems.append(f"{tree.name(path)} names {script}, which does not exist")
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if not (path.parent / link).exists():
                problems.append(f"{tree.name(path)} links {link}, which does not exist")
    return problems


README = "Run it.\n"
SETTINGS = """<!-- environment -->
| variable | default | meaning |
|---|---|---|
| `TITANTRACE_DIR` | `dumps` | Where. |
<!-- end of environment -->
"""
CODE = {"README.md": README, "docs/reference/settings.md": SETTINGS,
        "tracer/process/config.def": 'TITAN_CONFIG_ROW(TITANTRACE_DIR, "dumps", path, dir,\n                 '
        '"Where.")\n'}
RECORDS = {"analyzer/records/records.def": 'RECORD(kA, "--a", "Calls")\nFIELD(kA, rank, "number", "", "who", r.rank)\n',
           "docs/reference/records.md": "<!-- records -->\n## `show --a`\n\nCalls.\n\n| key | type | unit | meaning |\n"
                              "|---|---|---|---|\n| `rank` | number |  | who |\n<!-- end of records -->\n"}
BAD = {
    "undocumented": ("TITANTRACE_NEW (tracer/a.cpp) is neither",
                     {**CODE, "tracer/a.cpp": 'getenv("TITANTRACE_NEW");\n'}),
    "stale": ("TITANTRACE_OLD is documented but", {**CODE, "README.md": README + "`TITANTRACE_OLD`\n"}),
    "another default": ("is not what tracer/process/config.def says",
                        {**CODE, "docs/reference/settings.md": SETTINGS.replace("`dumps`", "`dump`")}),
    "another record": ("are not what analyzer/records/records.def says",
                       {**CODE, **RECORDS, "docs/reference/records.md": "<!-- records -->\n<!-- end of records -->\n"}),
    "no table": ("has no table of environment", {**CODE, "docs/reference/settings.md": "Nothing.\n"}),
    "no settings": ("docs/reference/settings.md is missing", {"README.md": README}),
    "no such script": ("names scripts/nothing", {**CODE, "docs/other.md": "./scripts/nothing\n"}),
    "no such file": ("names tracer/gone.cpp", {**CODE, "ARCHITECTURE.md": "`tracer/gone.cpp`\n"}),
    "no such page": ("links docs/gone.md", {**CODE, "README.md": README + "[gone](docs/gone.md#part)\n"}),
}

if __name__ == "__main__":
    run(check, BAD, {"in step": CODE, "records in step": {**CODE, **RECORDS}})
