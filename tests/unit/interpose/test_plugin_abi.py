"""interpose/plugin/plugin_abi.h against NCCL's own headers: a descriptor is as large, and its fields lie where NCCL
puts them.

    test_plugin_abi.py --root DIR --nccl-source DIR [--nccl-source DIR ...]

NCCL ships these headers with its sources only, so that the test needs checkouts (2.23.4 for v1, 2.29.2 for the rest,
say); each is held against the versions that it has.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()

COLL, P2P = "sendBuff recvBuff count root datatype func", "buff count peer datatype func"
HASH, MAX_CHANNELS, CHANNELS = " commHash", " nMaxChannels", " nChannels"
API = "func count datatype stream graphCaptured"
PROXY = {"proxyOp": "pid channelId peer nSteps chunkSize isSend", "proxyStep": "step"}
KERNEL = {"kernelCh": "channelId pTimer"}
WIDE = {"coll": COLL + CHANNELS + " parentGroup", "p2p": P2P + CHANNELS + " parentGroup", **KERNEL, **PROXY,
        "groupApi": "graphCaptured groupDepth", "collApi": API + " root", "p2pApi": API}
# version: {member of the union: its fields}
VERSIONS = {
    1: {"coll": COLL + HASH + MAX_CHANNELS, "p2p": P2P + HASH, **PROXY},
    2: {"coll": COLL + HASH + MAX_CHANNELS, "p2p": P2P + HASH, **PROXY},
    3: {"coll": COLL + HASH + MAX_CHANNELS, "p2p": P2P + HASH, **PROXY, "kernelCh": "channelId"},
    4: {"coll": COLL + CHANNELS, "p2p": P2P + CHANNELS, **KERNEL, **PROXY},
    5: WIDE, 6: WIDE,
}
# What NCCL's headers take from the rest of NCCL.
PRELUDE = """
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <sys/types.h>
using ncclResult_t = int;
using ncclPid_t = pid_t;
using ncclDebugLogger_t = void (*)(int, unsigned long, const char*, int, const char*, ...);
#define OS_H_
"""


def headers(source):
    """The header with the interface's newest words, and the versions that it has."""
    for relative in ("src/include/plugin/nccl_profiler.h", "src/include/nccl_profiler.h"):
        path = source / relative
        if path.is_file():
            text = path.read_text() + "".join(p.read_text() for p in path.parent.glob("profiler/profiler_v*.h"))
            return path, [v for v in VERSIONS if f"}} ncclProfiler_v{v}_t;" in text]
    raise AssertionError(f"{source} is no checkout of NCCL with a profiler interface")


def assertions(version):
    theirs, ours = f"ncclProfilerEventDescr_v{version}_t", f"titan::interpose::plugin_abi::DescrV{version}"
    fields = ["type", "parentObj", "rank"] + [f"{member}.{field}" for member, names in VERSIONS[version].items()
                                              for field in names.split()]
    yield f"sizeof({theirs}) == sizeof({ours})"
    yield f"sizeof(ncclProfiler_v{version}_t) == sizeof(titan::interpose::plugin_abi::PluginV{version})"
    for field in fields:
        yield f"offsetof({theirs}, {field}) == offsetof({ours}, {field})"
        yield f"sizeof((({theirs}*)0)->{field}) == sizeof((({ours}*)0)->{field})"


def bits():
    for name, ours in (("Coll", "kColl"), ("P2p", "kP2p"), ("ProxyOp", "kProxyOp"), ("ProxyStep", "kProxyStep"),
                       ("KernelCh", "kKernelCh"), ("GroupApi", "kGroupApi"), ("CollApi", "kCollApi"),
                       ("P2pApi", "kP2pApi")):
        yield name, f"(int)ncclProfile{name} == (int)titan::interpose::plugin_abi::{ours}"


class Layouts(unittest.TestCase):
    def compile(self, header, checks):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "abi.cpp"
            path.write_text(f'{PRELUDE}\n#include "{header}"\n#include "plugin_abi.h"\n'
                            + "".join(f"static_assert({check});\n" for check in checks))
            includes = (options.root / "interpose" / "plugin", header.parent, place)
            command = ["g++", "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof",
                       *(f"-I{include}" for include in includes), str(path)]
            (pathlib.Path(place) / "os.h").write_text("")
            return subprocess.run(command, capture_output=True, text=True)

    def test_every_field(self):
        seen = set()
        for source in options.nccl_source:
            header, versions = headers(source)
            text = header.read_text()
            checks = [check for version in versions for check in assertions(version)]
            checks += [check for name, check in bits() if f"ncclProfile{name} " in text
                       or f"ncclProfile{name}=" in text]
            result = self.compile(header, checks)
            self.assertEqual(result.returncode, 0, f"{source}:\n{result.stderr[:4000]}")
            seen |= set(versions)
            print(f"{source}: versions {versions}, {len(checks)} facts")
        self.assertTrue(seen)

    def test_a_wrong_layout_does_not_pass(self):
        header, versions = headers(options.nccl_source[0])
        wrong = f"offsetof(ncclProfilerEventDescr_v{versions[-1]}_t, rank) == 17"
        self.assertNotEqual(self.compile(header, [wrong]).returncode, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--nccl-source", type=lambda text: pathlib.Path(text).resolve(), action="append", default=[])
    options, rest = parser.parse_known_args()
    if not options.nccl_source:
        print("skipped: no checkout of NCCL given (-Dnccl_source=DIR[,DIR]); its headers are in no package")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])
