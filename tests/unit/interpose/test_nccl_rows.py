"""interpose/tables/nccl.def against NVIDIA's nccl.h: nothing that communicates is missing, and an older nccl.h still
compiles."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()

# Functions of nccl.h that neither communicate nor manage a communicator, by pattern and reason.
NOT_WRAPPED = {
    r"ncclGetVersion|ncclGetErrorString|ncclResetDebugInit": "tells about the library",
    r"ncclComm(Count|CuDevice|UserRank|MemStats|QueryProperties)": "tells about a communicator",
    r"ncclWinGetUserPtr": "asks for an address",
    r"ncclParam\w+|ncclSetEncryption": "settings of the process",
}
# Types that came after 2.18, with the release that brought them: an older nccl.h has none of them.
LATER_TYPES = {"ncclSimInfo_t": 22203, "ncclWindow_t": 22703, "ncclWaitSignalDesc_t": 22902, "ncclCollConfig_t": 23102}


def rows():
    """{name: since} of the table."""
    text = (options.root / "interpose" / "tables" / "nccl.def").read_text()
    text = re.sub(r"//[^\n]*", "", text)
    return {name: int(since) for since, name in re.findall(r"^[A-Z_]+\(\d+, (\d+), (nccl\w+),", text, re.M)}


def header():
    return (options.nccl_include / "nccl.h").read_text()


def declared():
    return set(re.findall(r"^\s*(?:ncclResult_t|const char\*|void)\s+(nccl\w+)\s*\(", header(), re.M))


def older_header(version):
    """The installed nccl.h as it would be at `version`: without later functions and types."""
    text = header()
    for name, since in rows().items():
        if since > version:
            text = re.sub(rf"^\s*ncclResult_t\s+p?{name}\s*\([^;]*;", "", text, flags=re.M)
    for name, since in LATER_TYPES.items():
        if since > version:
            text = re.sub(rf"\b{name}\b", f"later_{name}", text)
    minor, patch = version // 100 % 100, version % 100
    text = re.sub(r"#define NCCL_MINOR \d+", f"#define NCCL_MINOR {minor}", text)
    text = re.sub(r"#define NCCL_PATCH \d+", f"#define NCCL_PATCH {patch}", text)
    return re.sub(r"#define NCCL_VERSION_CODE \d+", f"#define NCCL_VERSION_CODE {version}", text)


def compile_wrappers(include):
    root = options.root
    rooms = [room for room in (root / "interpose").iterdir() if room.is_dir()]
    command = [options.compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
               *(f"-I{path}" for path in (*rooms, root / "tracer/include", root / "formats/include")),
               "-isystem", str(include), "-isystem", str(options.toolkit_include),
               str(root / "interpose" / "wrappers" / "nccl_wrappers.cpp")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Rows(unittest.TestCase):
    def test_every_function_of_the_header_is_wrapped_or_excluded_for_a_reason(self):
        missing = {name for name in declared() - set(rows())
                   if not any(re.fullmatch(pattern, name) for pattern in NOT_WRAPPED)}
        self.assertFalse(missing, "in nccl.h: each needs a row in nccl.def, or a reason in this test")

    def test_the_header_was_read(self):
        self.assertLessEqual({"ncclAllReduce", "ncclCommInitRank", "ncclGroupEnd", "ncclCommSplit"}, declared())

    def test_an_older_header_compiles(self):
        for version in (21801, 22203, 22703, 22902):
            with self.subTest(nccl=version), tempfile.TemporaryDirectory() as include:
                text = older_header(version)
                later = [name for name, since in rows().items() if since > version
                         and re.search(rf"^\s*ncclResult_t\s+{name}\(", text, re.M)]
                self.assertFalse(later, "the header is not older yet")
                pathlib.Path(include, "nccl.h").write_text(text)
                result = compile_wrappers(include)
                self.assertEqual(result.returncode, 0, result.stderr[-3000:])

    def test_a_wrong_signature_does_not_compile(self):
        with tempfile.TemporaryDirectory() as include:
            wrong = re.sub(r"(ncclCommUserRank|ncclAllReduce)\(const void\* sendbuff, void\* recvbuff, size_t count",
                           r"\1(const void* sendbuff, void* recvbuff, int count", header())
            self.assertNotEqual(wrong, header())
            pathlib.Path(include, "nccl.h").write_text(wrong)
            self.assertNotEqual(compile_wrappers(include).returncode, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--nccl-include", type=pathlib.Path, required=True)
    parser.add_argument("--toolkit-include", type=pathlib.Path, required=True)
    parser.parse_args(namespace=options)
    unittest.main(argv=sys.argv[:1], verbosity=2)
