"""README.md, ARCHITECTURE.md, docs/ and the code say the same: environment variables, and the scripts, files and pages
that they name. Each link leads somewhere, and from docs/README.md links lead to every page of docs/.

Variables live in tracer/settings/config.def and as string literals. What is in one place only is a problem, whichever
place it is.
"""
import os
import re

import records_table
from metalib import CPP_SUFFIXES, LAYERS, blank_comments_and_strings, run
from settings_table import ENVIRONMENT_BEGIN, with_table

VARIABLE = re.compile(r"\bTITANTRACE(?:_[A-Z0-9]+)*\b")
SOURCE_FILE = re.compile(r"`([\w./-]*[\w-]\.(?:cpp|h|def|S|py))`")
LINK = re.compile(r"\]\(([^)\s#:]*)(?:#([^)\s]*))?\)")
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/.-]+\.(?:md|json|svg|webp)\b")  # in a comment or a message
CAUSE = re.compile(r'(?m)^CAUSE\(\w+, "(\w+)"')
# A source file by its path, in a comment, a message or a page.
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(LAYERS)}|page|python|scripts|tests)/[\w./-]*"
                  r"\.(?:cpp|h|def|S|py|ts|build)\b")
FENCE = re.compile(r"(?ms)^ *```.*?^ *```")
SOURCES = CPP_SUFFIXES | {".py", ".ts", ".build", ".md", ""}
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
        problems.append("the table of docs/reference/settings.md is not what tracer/settings/config.def says: "
                        "python3 tests/meta/settings_table.py --root . --write")

    records = tree.root / "docs" / "reference" / "records.md"
    if records_table.with_tables(tree.root, texts.get(records, "")) != texts.get(records, ""):
        problems.append("the tables of docs/reference/records.md are not what analyzer/records/records.def says: "
                        "python3 tests/meta/records_table.py --root . --write")

    causes, stragglers = tree.root / "analyzer/replay/causes.def", tree.root / "docs/use/stragglers.md"
    if causes.exists():
        rows = "\n".join(line for line in texts.get(stragglers, "").splitlines() if line.startswith("|"))
        problems += [f"{name} is a cause in {tree.name(causes)} and has no row in docs/use/stragglers.md"
                     for name in CAUSE.findall(tree.text(causes)) if f"`{name}`" not in rows]

    sources = [f"/{tree.name(path)}" for path in tree.files(*LAYERS, "python", "scripts", "tests")]
    for path, text in texts.items():
        for source in sorted(set(SOURCE_FILE.findall(text))):
            if not any(known.endswith(f"/{source}") for known in sources):
                problems.append(f"{tree.name(path)} names {source}, which does not exist")
        for script in sorted(set(re.findall(r"(?<![\w/])(?:\./)?(scripts/[\w-]+|\.ci/run)\b", text))):
            if not (tree.root / script).exists():
                problems.append(f"{tree.name(path)} names {script}, which does not exist")
    return problems + link_problems(tree) + page_problems(tree)


def anchors(text):
    """The anchors that a forge gives the headings of a page."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"(?m)^#+ +(.*?) *$", FENCE.sub("", text))}


def link_problems(tree):
    problems, reached, pending = [], set(), ["docs/README.md"]
    texts = {tree.name(path): tree.text(path) for path in tree.files(suffixes={".md"})}
    links = {name: {(os.path.normpath(os.path.join(os.path.dirname(name), link)) if link else name, anchor)
                    for link, anchor in LINK.findall(FENCE.sub("", text))} for name, text in texts.items()}
    for name in sorted(links):
        for target, anchor in sorted(links[name]):
            if not (tree.root / target).exists():
                problems.append(f"{name} links {target}, which does not exist")
            elif anchor and target in texts and anchor not in anchors(texts[target]):
                problems.append(f"{name} links {target}#{anchor}, and no heading there is called so")
    while pending:
        name = pending.pop()
        if name in links and name not in reached:
            reached.add(name)
            pending += [target for target, _ in links[name]]
    return problems + [f"{name}: no links lead from docs/README.md to this page" for name in sorted(links)
                       if name.startswith("docs/") and "docs/README.md" in links and name not in reached]


def page_problems(tree):
    """Pages and source files that comments, messages and --help name. A path may begin with an include directory."""
    found = {}
    files = tree.files(*LAYERS, "docs", "page", "python", "scripts", "tests")
    known = {"/".join(parts[start:]) for path in files for parts in [path.relative_to(tree.root).parts]
             for start in range(len(parts))}
    for path in files:
        if path.suffix in SOURCES and not tree.name(path).startswith(("tests/meta/", "tests/bridges/")):
            text = tree.text(path)
            for page in {*PAGE.findall(text), *PATH.findall(text)} - known:
                found[page] = tree.name(path)
    return [f"{name} names {page}, which does not exist" for page, name in sorted(found.items())]


README = "Run it.\n"
SETTINGS = """<!-- environment -->
| variable | default | meaning |
|---|---|---|
| `TITANTRACE_DIR` | `dumps` | Where. |
<!-- end of environment -->
"""
CODE = {"README.md": README, "docs/reference/settings.md": SETTINGS,
        "tracer/settings/config.def": 'TITAN_CONFIG_ROW(TITANTRACE_DIR, "dumps", path, dir,\n                 '
        '"Where.")\n'}
RECORDS = {"analyzer/records/records.def": 'RECORD(kA, "--a", "Calls")\nFIELD(kA, rank, "number", "", "who", r.rank)\n',
           "docs/reference/records.md": "<!-- records -->\n## `show --a`\n\nCalls.\n\n| key | type | unit | meaning |\n"
                              "|---|---|---|---|\n| `rank` | number |  | who |\n<!-- end of records -->\n"}
BAD = {
    "undocumented": ("TITANTRACE_NEW (tracer/a.cpp) is neither",
                     {**CODE, "tracer/a.cpp": 'getenv("TITANTRACE_NEW");\n'}),
    "stale": ("TITANTRACE_OLD is documented but", {**CODE, "README.md": README + "`TITANTRACE_OLD`\n"}),
    "another default": ("is not what tracer/settings/config.def says",
                        {**CODE, "docs/reference/settings.md": SETTINGS.replace("`dumps`", "`dump`")}),
    "another record": ("are not what analyzer/records/records.def says",
                       {**CODE, **RECORDS, "docs/reference/records.md": "<!-- records -->\n<!-- end of records -->\n"}),
    "no table": ("has no table of environment", {**CODE, "docs/reference/settings.md": "Nothing.\n"}),
    "no settings": ("docs/reference/settings.md is missing", {"README.md": README}),
    "no such script": ("names scripts/nothing", {**CODE, "docs/other.md": "./scripts/nothing\n"}),
    "no such file": ("names tracer/gone.cpp", {**CODE, "ARCHITECTURE.md": "`tracer/gone.cpp`\n"}),
    "no such page": ("links docs/gone.md", {**CODE, "README.md": README + "[gone](docs/gone.md#part)\n"}),
    "no such page beside it": ("links docs/use/gone.md", {**CODE, "docs/use/a.md": "[gone](gone.md)\n"}),
    "no such heading": ("links docs/a.md#two", {**CODE, "README.md": "[a](docs/a.md#two)\n",
                                                "docs/a.md": "# One\n```sh\n# two\n```\n"}),
    "nobody links it": ("docs/a.md: no links lead", {**CODE, "docs/README.md": "Nothing.\n", "docs/a.md": "# One\n"}),
    "a cause without a row": ("late_rank is a cause in", {
        **CODE, "analyzer/replay/causes.def": 'CAUSE(kLateRank, "late_rank", "late", "else", "do")\n',
        "docs/README.md": "[a](use/stragglers.md)\n", "docs/use/stragglers.md": "late_rank\n"}),
    "no such file in a comment": ("names analyzer/page/gone.cpp",
                                  {**CODE, "page/src/a.ts": "// See analyzer/page/gone.cpp.\n"}),
    "no such page in a message": ("names docs/gone.md", {**CODE, "analyzer/a.cpp": 'puts("see docs/gone.md");\n'}),
}

if __name__ == "__main__":
    run(check, BAD, {"in step": CODE, "records in step": {**CODE, **RECORDS},
                     "a link and its heading": {**CODE, "docs/README.md": "[a](reference/settings.md) [b](#two-one)\n"
                                                                          "# Two: `one`\n"}})
