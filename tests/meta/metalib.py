"""What the checks in this directory share: finding source files, reading C++ roughly, and the frame of a check.

A check is a module with `check(tree) -> [problem, ...]` and `BAD`, {title: (words, sample)}: each sample must bring a
problem with these words, because a check that cannot fail proves nothing. `run` feeds it its bad samples first. Only
Python's standard library is used.
"""
import argparse
import pathlib
import re
import sys
import tempfile

LAYERS = ("base", "formats", "tracer", "interpose", "analyzer", "tools")
CPP_SUFFIXES = {".cpp", ".c", ".h", ".hpp", ".def", ".in", ".inc"}
SKIPPED_DIRECTORIES = re.compile(r"^(build.*|\.git|\.venv.*|dumps|dist|node_modules|__pycache__)$")


class Tree:
    """A source tree and, where a check needs it, its build directory and the tools that belong to it."""

    def __init__(self, root, build=None, options=None):
        self.root = pathlib.Path(root)
        self.build = pathlib.Path(build) if build else None
        self.options = options or argparse.Namespace()

    def files(self, *tops, suffixes=None):
        """Own files below the given top directories (all of the tree when none is given), sorted."""
        found = []
        pending = [self.root / top for top in tops] if tops else [self.root]
        while pending:
            path = pending.pop()
            if path.is_dir():
                pending += [p for p in path.iterdir() if not SKIPPED_DIRECTORIES.match(p.name)]
            elif path.is_file() and not path.is_symlink() and (suffixes is None or path.suffix in suffixes):
                found.append(path)
        return sorted(found)

    def name(self, path):
        return str(pathlib.Path(path).relative_to(self.root))

    @staticmethod
    def text(path):
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")


def blank_comments_and_strings(text, keep_strings=False):
    """Same length and lines, with comments (and the insides of literals) turned into spaces."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'
        r'(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'', re.S)

    def replace(match):
        piece = match.group(0)
        if piece[0] == "/" or not keep_strings:
            return re.sub(r"[^\n]", " ", piece)
        return piece

    return pattern.sub(replace, text)


def bad_tree(directory, files):
    """Writes a sample's files ({relative path: text}) and returns the tree."""
    for name, text in files.items():
        path = pathlib.Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Tree(directory)


def run(check, bad, good=None):
    """The main of a check: its bad samples must be found out, its good ones (if any) must pass, then the real tree."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--build")
    parser.add_argument("--library", help="the built libtitantrace.so")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--readelf", default="readelf")
    options = parser.parse_args()
    if options.build and not options.library:
        options.library = str(pathlib.Path(options.build) / "interpose" / "libtitantrace.so")

    failures = []
    for title, (words, sample) in bad.items():
        with tempfile.TemporaryDirectory() as directory:
            problems = sample_problems(check, directory, sample, options)
            if not any(words in problem for problem in problems):
                failures.append(f"self-test: the bad sample '{title}' was not found out (got: {problems})")
    for title, sample in (good or {}).items():
        with tempfile.TemporaryDirectory() as directory:
            for problem in sample_problems(check, directory, sample, options):
                failures.append(f"self-test: the good sample '{title}' was blamed: {problem}")

    failures += check(Tree(pathlib.Path(options.root).resolve(), options.build, options))
    for failure in failures:
        print(failure)
    print(f"{len(bad)} bad samples found out; {len(failures)} problems")
    sys.exit(1 if failures else 0)


def sample_problems(check, directory, sample, options):
    """A sample is {path: text}, or a function (directory, options) -> Tree for one that must be compiled first."""
    tree = sample(directory, options) if callable(sample) else bad_tree(directory, sample)
    tree.options = argparse.Namespace(**{**vars(options), **vars(tree.options)})
    return check(tree)
