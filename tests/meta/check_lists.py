"""Every source file, test and module of the Python package is named in a meson.build: one that is not is neither built
nor run nor in the wheel, and nothing else would say so."""
import re

from metalib import LAYERS, run

FINDER = re.compile(r"(?m)^FINDER\((\w+)\)")
ELSEWHERE = {"musl_library.c": "tests/guest/test_musl.py compiles it",
             "layout_probe.c": "tests/unit/tracer/python/test_layouts.py compiles it",
             "test_fr_scenarios.py": "tests/e2e/test_export.py runs its tests"}
WHAT_IF = {".py": "no test runs it, or no wheel has it"}


def check(tree):
    lists = "\n".join(tree.text(path) for path in tree.files() if path.name == "meson.build")
    named = {word.rpartition("/")[2] for word in re.findall(r"[\w./-]+", lists)}
    finders = tree.root / "analyzer" / "model" / "findings.def"
    named |= {f"{name}.cpp" for name in FINDER.findall(tree.text(finders))} if finders.exists() else set()
    problems = []
    for path in tree.files(*LAYERS, "python", "tests"):
        name = tree.name(path)
        is_listed = path.suffix in (".cpp", ".c", ".S") or name.startswith("python/titantrace/") or (
            path.name.startswith("test_"))
        if not is_listed or path.suffix not in (".cpp", ".c", ".S", ".py") or path.name in ELSEWHERE:
            continue
        # A loop may name tests by a part of their names.
        if not {path.name, path.stem, path.stem.removeprefix("test_")} & named:
            problems.append(f"{name} is in no meson.build: {WHAT_IF.get(path.suffix, 'it is not compiled')}. "
                            f"Add it to the list in the nearest one")
    return problems


LIST = {"analyzer/meson.build": "files('a.cpp')\n", "tests/meson.build": "foreach name : ['one']\n",
        "analyzer/a.cpp": "", "tests/test_one.py": ""}
BAD = {
    "a source": ("analyzer/b.cpp is in no meson.build: it is not compiled", {**LIST, "analyzer/b.cpp": ""}),
    "a test": ("tests/test_two.py is in no meson.build: no test runs it", {**LIST, "tests/test_two.py": ""}),
    "a module": ("python/titantrace/keras.py is in no", {**LIST, "python/titantrace/keras.py": ""}),
    "a finder without its row": ("analyzer/diagnose/find_b.cpp is in no", {
        **LIST, "analyzer/model/findings.def": "FINDER(find_a)\n", "analyzer/diagnose/find_b.cpp": ""}),
}
GOOD = {"listed": {**LIST, "analyzer/model/findings.def": "FINDER(find_a)\n", "analyzer/diagnose/find_a.cpp": ""}}

if __name__ == "__main__":
    run(check, BAD, GOOD)
