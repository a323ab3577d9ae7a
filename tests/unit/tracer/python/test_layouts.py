"""layouts.def and debug_offsets.def of tracer/python against every CPython that is installed with its internal headers.

    test_layouts.py --pystacks PROGRAM --compiler cc [ARGUMENT...]
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import pythons  # noqa: E402

PROBE = pathlib.Path(__file__).resolve().parent / "layout_probe.c"
ASK = ("import sysconfig, os; p = sysconfig.get_path('include'); print(p if os.path.isdir(p + '/internal') else '')")
NEW = ("3.13", "3.14", "3.15")


def numbers(text):
    return {name: int(value) for name, value in (line.split() for line in text.splitlines()) if name != "version"}


def ours(*arguments, given=None):
    done = subprocess.run([OPTIONS.pystacks, *map(str, arguments)], input=given, capture_output=True, text=True)
    assert done.returncode == 0, f"pystacks {arguments}: {done.returncode}"
    return numbers(done.stdout)


def theirs(include, *flags):
    """What the headers say."""
    with tempfile.TemporaryDirectory() as directory:
        program = pathlib.Path(directory) / "probe"
        subprocess.run([*OPTIONS.compiler, "-w", *flags, "-I", include, "-I", f"{include}/internal",
                        "-I", os.path.dirname(include), str(PROBE), "-o", str(program)], check=True)
        return numbers(subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout)


class Layouts(unittest.TestCase):
    def compare(self, python, include, free_threaded):
        facts = theirs(include, *(["-DPy_GIL_DISABLED=1"] if free_threaded else []))
        words = {name[6:]: word for name, word in facts.items() if name.startswith("words.")}
        offsets = {name: value for name, value in facts.items() if not name.startswith("words.")}
        minor = int(python.minor.rstrip("t").split(".")[1])
        if f"3.{minor}" in NEW:
            told = ours("--words", minor)
            self.assertEqual(words, {name: told[name] for name in words})
            self.assertEqual({name for name, word in told.items() if word}, set(words))
            values = {word: offsets.get(name, 0) + (8 if name == "text_compact_bytes" else 0)
                      for name, word in words.items()}
            layout = ours("--derive", minor, int(free_threaded),
                          given="".join(f"{word} {value}\n" for word, value in values.items()))
        else:
            layout = ours("--layout", minor)
        self.assertEqual(offsets, {name: layout[name] for name in offsets})
        self.assertGreater(len(offsets), 20)


def add(python, include):
    """The headers of one build tell the layout of the other, too."""
    base = python.minor.rstrip("t")
    own = python.minor.endswith("t")
    for free_threaded in (False, True) if base in NEW and not own else (own,):
        name = f"{python.version.rstrip('t')}{'t' if free_threaded else ''}"

        def test(self, free_threaded=free_threaded, name=name):
            self.compare(python, include, free_threaded)
            print(f"{name}: layout as in the headers of {python.version} {python.shape}", flush=True)
        setattr(Layouts, f"test_{name.replace('.', '_')}_{python.shape}_{python.minor.endswith('t')}", test)
        yield base + ("t" if free_threaded else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pystacks", required=True)
    parser.add_argument("--compiler", nargs="+", required=True)
    OPTIONS = parser.parse_args()
    tested = set()
    for found in pythons.interpreters():
        where = subprocess.run([*found.command, "-c", ASK], capture_output=True, text=True).stdout.strip()
        if found.minor in pythons.KNOWN and where:
            tested.update(add(found, where))
    for wanted in pythons.KNOWN:
        if wanted not in tested:
            print(f"CPython {wanted}: no internal headers on this machine, its layout is not tested")
    unittest.main(argv=[sys.argv[0]])
