"""interpose/plugin_abi.h against NCCL's own headers: every field that we read lies where NCCL puts it.

    test_plugin_abi.py --root DIR --nccl-source DIR [--nccl-source DIR ...]

NCCL ships these headers with its sources only, so that the test needs checkouts (2.23.4 for v1, 2.29.2 for the rest, say);
each is held against the versions that it has.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()

COLL = {"sendBuff": "sendBuff", "recvBuff": "recvBuff", "count": "count", "root": "root", "datatype": "datatype",
        "func": "func"}
P2P = {"buff": "buff", "count": "count", "peer": "peer", "datatype": "datatype", "func": "func"}
PROXY_OP = {name: name for name in ("pid", "channelId", "peer", "nSteps", "chunkSize", "isSend")}
HASH, MAX_CHANNELS, CHANNELS = {"commHash": "commHash"}, {"nMaxChannels": "nMaxChannels"}, {"nChannels": "nChannels"}
API = {"func": "func", "count": "count", "datatype": "datatype", "stream": "stream", "graphCaptured": "graphCaptured"}
PROXY = {"proxyOp": ("ProxyOp", PROXY_OP), "proxyStep": ("ProxyStep", {"step": "step"})}
KERNEL_V4 = {"kernelCh": ("KernelChV4", {"channelId": "channelId", "pTimer": "pTimer"})}
WIDE = {"coll": ("CollV4", COLL | CHANNELS), "p2p": ("P2pV4", P2P | CHANNELS), **KERNEL_V4, **PROXY,
        "groupApi": ("GroupApi", {"graphCaptured": "graphCaptured", "groupDepth": "groupDepth"}),
        "collApi": ("CollApi", API | {"root": "root"}), "p2pApi": ("P2pApi", API)}
# version: {member of the union: (our struct, {its field: ours})}
VERSIONS = {
    1: {"coll": ("CollV1", COLL | HASH | MAX_CHANNELS), "p2p": ("P2pV1", P2P | HASH), **PROXY},
    2: {"coll": ("CollV2", COLL | HASH | MAX_CHANNELS), "p2p": ("P2pV2", P2P | HASH), **PROXY},
    3: {"coll": ("CollV3", COLL | HASH | MAX_CHANNELS), "p2p": ("P2pV2", P2P | HASH), **PROXY,
        "kernelCh": ("KernelChV3", {"channelId": "channelId"})},
    4: {"coll": ("CollV4", COLL | CHANNELS), "p2p": ("P2pV4", P2P | CHANNELS), **KERNEL_V4, **PROXY},
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
    descriptor, ours = f"ncclProfilerEventDescr_v{version}_t", "titan::interpose::plugin_abi"
    head = "NarrowDescriptor" if version < 5 else "WideDescriptor"
    yield f"sizeof({descriptor}::type) == sizeof({ours}::{head}::type)"
    yield f"offsetof({descriptor}, parentObj) == offsetof({ours}::{head}, parent)"
    yield f"offsetof({descriptor}, rank) == offsetof({ours}::{head}, rank)"
    yield f"sizeof(ncclProfiler_v{version}_t) == sizeof({ours}::Profiler<{ours}::InitV1>)"
    for member, (struct, fields) in VERSIONS[version].items():
        for theirs, field in fields.items():
            place = f"offsetof({descriptor}, {member}.{theirs})"
            yield f"{place} == offsetof({ours}::{head}, body) + offsetof({ours}::{struct}, {field})"
            yield f"sizeof((({descriptor}*)0)->{member}.{theirs}) == sizeof((({ours}::{struct}*)0)->{field})"


def bits():
    for name, ours in (("Coll", "kColl"), ("P2p", "kP2p"), ("ProxyOp", "kProxyOp"), ("ProxyStep", "kProxyStep"),
                       ("KernelCh", "kKernelCh"), ("GroupApi", "kGroupApi"), ("CollApi", "kCollApi"), ("P2pApi", "kP2pApi")):
        yield name, f"(int)ncclProfile{name} == (int)titan::interpose::plugin_abi::{ours}"


class Layouts(unittest.TestCase):
    def compile(self, header, checks):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "abi.cpp"
            path.write_text(f'{PRELUDE}\n#include "{header}"\n#include "plugin_abi.h"\n'
                            + "".join(f"static_assert({check});\n" for check in checks))
            command = ["g++", "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", f"-I{options.root / 'interpose'}",
                       f"-I{header.parent}", f"-I{place}", str(path)]
            (pathlib.Path(place) / "os.h").write_text("")
            return subprocess.run(command, capture_output=True, text=True)

    def test_every_field(self):
        seen = set()
        for source in options.nccl_source:
            header, versions = headers(source)
            text = header.read_text()
            checks = [check for version in versions for check in assertions(version)]
            checks += [check for name, check in bits() if f"ncclProfile{name} " in text or f"ncclProfile{name}=" in text]
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
