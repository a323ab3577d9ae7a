"""A wrong row of a table does not compile, and the compiler says why. Rows of CUDA and NCCL are held against the
vendors' headers in tests/unit/interpose."""
import argparse
import collections
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()

# `table` with `right` replaced by `wrong` is compiled by `source`, a file beside it or text; `says`: why it cannot be.
Case = collections.namedtuple("Case", "table right wrong source says")
ENUMS = ("formats/include/formats/layout/enums.h", '#include "formats/layout/enums.h"')
FINDINGS = ("analyzer/model/findings.def", '#include "finding.h"')
CONFIG = ("tracer/settings/config.def", "config.cpp")
NCCL = ("interpose/tables/nccl.def", "api_names.cpp")


def case(table_and_source, right, wrong, says):
    table, source = table_and_source
    return Case(table, right, wrong, source, says)


CASES = {
    "an operation's number twice": case(
        ENUMS, 'X(9, kSend, "send", p2p)', 'X(8, kSend, "send", p2p)', "of TITAN_OP_KINDS is there twice"),
    "a state's number twice": case(
        ENUMS, 'X(3, kCrashed, "crashed")', 'X(2, kCrashed, "crashed")', "of TITAN_PROCESS_STATES is there twice"),
    "a name twice": case(ENUMS, '"all_gather", collective', '"broadcast", collective',
                         "of TITAN_OP_KINDS is there twice"),
    "a loss without a counter": case(ENUMS, "X(15, kLabelsDropped", "X(16, kLabelsDropped",
                                     "losses are counted by number"),
    "an NCCL function's id twice": case(NCCL, "CALL(25, 2000, ncclAllReduce,", "CALL(24, 2000, ncclAllReduce,",
                                        "an id of nccl.def is missing or there twice"),
    "a gap in the ids of NCCL functions": case(NCCL, "CALL(25, 2000, ncclAllReduce,", "CALL(99, 2000, ncclAllReduce,",
                                               ""),
    "a finding without advice": case(
        FINDINGS, '"compare the code paths that lead there: a branch that only some ranks take is the usual cause")',
        '"")', "static assertion"),
    "a setting that no parser reads": case(CONFIG, '"300", seconds,', '"300", fortnights,', "fortnights"),
}


def compile_table(case, text):
    """The compiler's status and messages for that text of the table."""
    root, table = options.root, pathlib.PurePath(case.table)
    with tempfile.TemporaryDirectory() as place:
        room = pathlib.Path(place, table.parent)
        shutil.copytree(root / table.parent, room)
        (room / table.name).write_text(text, encoding="utf-8")
        source = room / case.source
        if not case.source.endswith(".cpp"):
            source = pathlib.Path(place, "source.cpp")
            source.write_text(case.source + "\n", encoding="utf-8")
        includes = [place, room, f"{place}/formats/include", *(root / own for own in (
            "formats/include", "base/include", "base/host/include", "tracer/include", "tracer"))]
        done = subprocess.run([options.compiler, "-std=c++20", "-fsyntax-only", *(f"-I{path}" for path in includes),
                               "-isystem", options.nccl_include, "-isystem", options.toolkit_include, source],
                              capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


class WrongRows(unittest.TestCase):
    def test_the_tables_as_they_are_compile(self):
        for one in {one.table: one for one in CASES.values()}.values():
            with self.subTest(table=one.table):
                status, messages = compile_table(one, (options.root / one.table).read_text(encoding="utf-8"))
                self.assertEqual(status, 0, messages[:3000])

    def test_a_wrong_row_does_not(self):
        for title, one in CASES.items():
            with self.subTest(title):
                right = (options.root / one.table).read_text(encoding="utf-8")
                self.assertEqual(right.count(one.right), 1, "the row of this case is another one now")
                status, messages = compile_table(one, right.replace(one.right, one.wrong))
                self.assertNotEqual(status, 0)
                self.assertIn(one.says, messages)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--nccl-include", required=True)
    parser.add_argument("--toolkit-include", required=True)
    parser.parse_args(namespace=options)
    unittest.main(argv=sys.argv[:1], verbosity=2)
