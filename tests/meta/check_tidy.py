"""clang-tidy has nothing to say about the product's files (.clang-tidy: what it looks for, and why it leaves out the
rest).

Nightly: it takes minutes. Only one major version is asked, because others have other checks; without it the test is
skipped."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import metalib

PROGRAM = "clang-tidy-14"
# C++20 that GCC 12 knows and this Clang does not: a lambda that uses a structured binding.
NOT_YET = "reference to local binding"
# A list of files that the build compiles together includes them, as no other file may.
OF_A_UNIT = re.compile(r"-unity\d+\.cpp:\d+: .*\[bugprone-suspicious-include\]$")
CONFIG = pathlib.Path(__file__).resolve().parents[2] / ".clang-tidy"

BAD = {
    "a copy for nothing": ("performance-unnecessary-value-param", {
        "base/a.cpp": "#include <string>\nunsigned long f(const std::string text) { return text.size(); }\n"}),
    "the wrong width": ("bugprone-implicit-widening-of-multiplication-result", {
        "base/b.cpp": "long f(int n) { return n * n; }\n"}),
    "in a file that is compiled with others": ("performance-unnecessary-value-param", {
        "base/d-unity0.cpp": '#include "d.inc"\n',
        "base/d.inc": "#include <string>\nunsigned long f(const std::string text) { return text.size(); }\n"}),
    "does not compile": ("clang-diagnostic-error", {"base/c.cpp": "int f() { return nobody; }\n"}),
}
GOOD = {"nothing to say": {"base/a.cpp": "int f() { return 1; }\n"}}


def compiled(tree, into):
    """The product's files as the build compiles them for the product, which the compilation database in `into` says:
    those for tests have other options. Files that are compiled together are read together: their headers once, which
    takes a tenth of the time. All files of a sample, which has no build."""
    if tree.build is None or tree.root != CONFIG.parent:
        return [str(path) for path in tree.files(suffixes={".cpp"})], ["--", "-std=c++20"]
    commands = [command for command in json.loads((tree.build / "compile_commands.json").read_text())
                if command["output"].split("/")[0] in metalib.LAYERS and command["file"].endswith(".cpp")]
    pathlib.Path(into, "compile_commands.json").write_text(json.dumps(commands))
    product = {str((pathlib.Path(command["directory"]) / command["file"]).resolve()) for command in commands}
    # GCC's precompiled headers are of no use to it: it reads the headers that they were made from.
    plain = [f"--extra-arg=-I{path.parent}" for path in tree.files(*metalib.LAYERS, suffixes={".h"})
             if path.name.endswith("_pch.h")]
    return sorted(product), ["-p", into, "--extra-arg=-ferror-limit=0", *plain]


def check(tree):
    with tempfile.TemporaryDirectory() as database:
        return problems(*compiled(tree, database), tree)


def problems(files, options, tree):
    before, after = ([], options) if options[0] == "--" else (options, [])

    def problems_of(path):
        ran = subprocess.run([PROGRAM, "--quiet", f"--config-file={CONFIG}", *before, path, *after],
                             capture_output=True, text=True, check=False)
        found = [f"{os.path.relpath(os.path.join(tree.build or '.', file), tree.root)}:{line}: {what}"
                 for file, line, what in re.findall(
                     r"^(\S+?):(\d+):\d+: (?:warning|error): (.*\[[\w.,-]+\])$", ran.stdout, re.M)]
        # These are about the command: the file was not read as it should be.
        found += [f"{os.path.relpath(path, tree.root)}: {what}"
                  for what in re.findall(r"^error: (.*)$", ran.stdout + ran.stderr, re.M)]
        return {problem for problem in found if NOT_YET not in problem and not OF_A_UNIT.search(problem)}

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return sorted(set().union(*pool.map(problems_of, files)))


if __name__ == "__main__":
    if shutil.which(PROGRAM) is None:
        print(f"skipped: {PROGRAM} is not installed")
        sys.exit(77)
    metalib.run(check, BAD, GOOD)
