"""Include directions, beyond what the build's include directories can enforce (a path with ../ compiles anywhere).

base includes nobody, and all include it; formats: only base; tracer: formats; interpose: tracer, formats; analyzer:
formats; tools: all but interpose. base and the hot rooms of tracer (hot, recording) are in the guest wherever it is:
base (but for base/host, which the guest is not given) may use no part of C++ that brings an allocator, and the hot
rooms, which may neither block nor allocate, only layout headers, atomics and intrinsics, and the reader of Python
frames, which does neither. tests/simgpu is a stand-in for NVIDIA's libraries and must not know the tracer: only the
layouts of NCCL's profiler interface.

Inside analyzer, tracer and interpose the directories are a ladder, lowest first in its meson.build (in the analyzer
cli is on top of it, in the tracer outside), and inside formats by the list below: a file includes from its own rung and
from those below. The build gives each rung only those include directories (but in formats, where all rooms share one);
here the whole graph is read, so that a rung that moves in the list, or a header that two rungs have, is seen, too.
"""
import re

from metalib import CPP_SUFFIXES, LAYERS, run

ALLOWED_LAYERS = {
    "base": {"base"},
    "base/host": {"base", "host"},
    "formats": {"base", "host", "formats"},
    "tracer": {"base", "formats", "tracer"},
    "interpose": {"base", "formats", "tracer", "interpose"},
    "analyzer": {"base", "host", "formats", "analyzer"},
    "tools": {"base", "host", "formats", "tracer", "analyzer", "tools"},
    "tests/simgpu": set(),
}
GPU_HEADER = re.compile(r"^(nccl|cuda|cu[A-Z]|cupti|nvml|nvtx3/|crt/)")
ALLOWED_GPU = {"interpose", "tests/simgpu"}
THIRD_PARTY = {  # prefix or header -> the layers that may use it
    "fmt/": {"base/host", "tracer", "analyzer", "formats", "tools"},
    "CLI/": {"base/host"},
    "protozero/": {"analyzer"},
    "nlohmann/": {"base/host"},
    "zstd": {"formats"},
    "libunwind": {"tracer"},
    "elfutils/": {"analyzer"},
    "doctest/": {"tests/simgpu"},
}
SYSTEM_PREFIXES = ("sys/", "linux/", "asm/", "netinet/", "arpa/", "net/", "bits/")
# base: of C++, what brings no allocator, lock or stream; of libc and the kernel, whatever is called so.
BASE_SYSTEM = re.compile(r"^([a-z_/0-9]+\.h|algorithm|atomic|array|bit|concepts|cstdarg|cstddef|cstdint|cstring|"
                         r"iterator|limits|new|span|type_traits|utility)$")
# The hot rooms of tracer: headers of C++ and C that bring no allocator, lock or stream; layouts; each other; the walk
# over Python frames; and the structures that a record fills, or what is cold of a call, which the other rooms own.
HOT_ROOMS = {"hot", "recording"}
HOT_SYSTEM = re.compile(r"^(atomic|array|bit|concepts|cstddef|cstdint|cstring|limits|type_traits|utility|"
                        r"stdint\.h|stddef\.h|string\.h|time\.h|ctime|sched\.h|x86intrin\.h|immintrin\.h)$")
HOT_OWN = re.compile(r"^(formats/layout/[a-z_]+\.h|tracer/[a-z_]+\.h|titantrace\.h|"
                     r"base/(atomic_field|clock|hash|memory|text)\.h|code_place\.h|frames\.h|"
                     r"config\.h|identity\.h|ring_file\.h|session\.h|thread_state\.h|tick_times\.h|"
                     r"communicators\.h|cold_calls\.h)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


RUNG = re.compile(r"^  \['([a-z_]+)',", re.M)
# What is below and above the rungs that the build lists.
LADDERS = {"analyzer": ([], ["cli"]), "tracer": (["include"], ["outside"]), "interpose": ([], []),
           "formats": (["layout"], ["container", "ring", "fr"])}


def rung_of(tree, room, path):
    parts = path.relative_to(tree.root / room).parts
    return parts[2] if parts[:2] == ("include", "formats") else parts[0]


def check_ladder(tree, room):
    """The include graph of the room has no edge upwards, and its headers are found by their names alone."""
    build = tree.root / room / "meson.build"
    below, above = LADDERS[room]
    rungs = below + RUNG.findall(tree.text(build)) + above if build.exists() else []
    homes = {}
    problems = []
    files = [path for path in tree.files(room, suffixes=CPP_SUFFIXES) if rungs and path.parent.name != "pch"]
    for path in files:
        rung = rung_of(tree, room, path)
        if rung not in rungs:
            problems.append(f"{tree.name(path)}: {room}/{rung} is no rung of the ladder in {room}/meson.build")
        elif rung not in below and path.suffix != ".cpp" and homes.setdefault(path.name, rung) != rung:
            problems.append(f"{tree.name(path)}: {homes[path.name]} has a header of that name")
    for path in files:
        rung = rung_of(tree, room, path)
        for match in INCLUDE.finditer(tree.text(path)):
            directory, _, name = match.group(2).removeprefix("formats/").rpartition("/")
            home = homes.get(name, rung) if directory == "" or directory in rungs else rung
            if match.group(1) == '"' and rung in rungs and rungs.index(home) > rungs.index(rung):
                line = tree.text(path).count("\n", 0, match.start()) + 1
                problems.append(f"{tree.name(path)}:{line}: includes {match.group(2)}: {home} is above {rung} on the "
                                f"ladder")
    return problems


def check(tree):
    problems = [problem for room in LADDERS for problem in check_ladder(tree, room)]
    hot_names = {path.name for room in HOT_ROOMS for path in tree.files(f"tracer/{room}", suffixes=CPP_SUFFIXES)}
    analyzer_names = {path.name for path in tree.files("analyzer", suffixes={".h"})}
    for layer, allowed in ALLOWED_LAYERS.items():
        own = {path.name for path in tree.files(layer, suffixes=CPP_SUFFIXES)}
        own_directories = {part for path in tree.files(layer)
                           for part in path.relative_to(tree.root / layer).parts[:-1]}
        for path in tree.files(layer, suffixes=CPP_SUFFIXES):
            if layer == "base" and "host" in path.relative_to(tree.root / layer).parts:
                continue  # a layer of its own
            for match in INCLUDE.finditer(tree.text(path)):
                hot = layer == "tracer" and path.relative_to(tree.root / layer).parts[0] in HOT_ROOMS
                why = (judge_hot(match.group(1), match.group(2), hot_names) if hot else None) or judge_base(
                    layer, match.group(1), match.group(2)) or judge(
                    layer, allowed, own, own_directories, analyzer_names, match.group(1), match.group(2))
                if why:
                    line = tree.text(path).count("\n", 0, match.start()) + 1
                    problems.append(f"{tree.name(path)}:{line}: includes {match.group(2)}: {why}")
    return problems


def judge_hot(quote, header, hot_names):
    allowed = HOT_SYSTEM.match(header) if quote == "<" else header in hot_names or HOT_OWN.match(header)
    return None if allowed else "hot code may use layout headers, atomics and intrinsics only"


def judge_base(layer, quote, header):
    allowed = layer != "base" or quote == '"' or BASE_SYSTEM.match(header)
    return None if allowed else "base is in the guest: no header that brings an allocator"


def judge(layer, allowed, own, own_directories, analyzer_names, quote, header):
    """Why this include is not allowed, or None."""
    first = header.split("/")[0]
    if ".." in header.split("/"):
        return "../ walks around the include directories that the build allows"
    if layer == "tests/simgpu" and header == "interpose/plugin/plugin_abi.h":
        return None
    if "/" in header and first in (*LAYERS, "host"):
        return None if first in allowed else f"{layer} may not include {first}"
    if quote == '"' and (header in own or (layer == "tools" and header in analyzer_names)):
        return None
    if GPU_HEADER.match(header):
        return None if layer in ALLOWED_GPU else f"{layer} knows no CUDA or NCCL types"
    for prefix, layers in THIRD_PARTY.items():
        if header.startswith(prefix):
            return None if layer in layers else f"{prefix} is not for {layer}"
    if header == "titantrace.h":
        return None if layer in ("tracer", "interpose",
                                 "tests/simgpu") else f"{layer} may not include the markers' header"
    if quote == '"' and "/" not in header:
        return "no such file in this layer"
    if "/" in header and first not in own_directories and not header.startswith(SYSTEM_PREFIXES):
        return "unknown prefix: add it to tests/meta/check_layers.py with the layers that may use it"
    return None


BAD = {
    "the ground floor looks up": ("base may not include formats",
                                  {"base/a.cpp": '#include "formats/layout/ring_layout.h"\n'}),
    "the ground floor allocates": ("base is in the guest", {"base/include/base/a.h": "#include <string>\n"}),
    "the guest uses what is for programs": ("tracer may not include host",
                                            {"tracer/a.cpp": '#include "host/words.h"\n'}),
    "the ground floor uses what is for programs": ("base may not include host",
                                                   {"base/a.cpp": '#include "host/words.h"\n'}),
    "words look up": ("base/host may not include formats", {"base/host/a.cpp": '#include "formats/layout/enums.h"\n'}),
    "the ground floor knows vendors": ("knows no CUDA", {"base/a.cpp": "#include <cuda.h>\n"}),
    "upwards": ("formats may not include tracer", {"formats/a.cpp": "#include <tracer/session/session.h>\n"}),
    "sideways": ("analyzer may not include tracer", {"analyzer/cli/a.cpp": '#  include "tracer/session/session.h"\n'}),
    "tools are not in the guest": ("tracer may not include tools", {"tracer/a.cpp": '#include "tools/node.h"\n'}),
    "dot dot": ("../", {"tracer/a.cpp": '#include "../formats/x.h"\n'}),
    "the stand-in knows the tracer": ("tests/simgpu may not include tracer",
                                      {"tests/simgpu/a.cpp": "#include <tracer/session/session.h>\n"}),
    "hot allocates": ("hot code may use", {"tracer/hot/ring.h": "#include <string>\n"}),
    "hot allocates by C": ("hot code may use", {"tracer/recording/ring.h": "#include <stdlib.h>\n"}),
    "hot locks": ("hot code may use", {"tracer/recording/ring.h": "#include <pthread.h>\n"}),
    "hot dumps":
    ("hot code may use", {"tracer/hot/ring.h": '#include "dumper.h"\n', "tracer/dump/dumper.h": "\n"}),
    "guest types in the format": ("knows no CUDA", {"formats/a.h": "#include <nccl.h>\n"}),
    "unknown library": ("unknown prefix", {"analyzer/a.cpp": "#include <boost/any.hpp>\n"}),
    "zstd in the guest's cold code": ("zstd is not for tracer", {"tracer/a.cpp": "#include <zstd.h>\n"}),
    "another layer's private header":
    ("no such file", {"tracer/a.cpp": '#include "private.h"\n', "analyzer/private.h": "\n"}),
}
LADDER = {"analyzer/meson.build": "analyzer_ladder = [\n  ['model', files()],\n  ['match', files()],\n]\n",
          "analyzer/cli/commands.h": "\n",
          "analyzer/model/run.h": "\n", "analyzer/match/match.h": '#include "run.h"\n'}
TRACER = {"tracer/meson.build": "tracer_ladder = [\n  ['process', files(\n  )],\n  ['dump', files(\n  )],\n]\n",
          "tracer/include/tracer/record.h": "\n", "tracer/process/config.h": '#include "tracer/record.h"\n',
          "tracer/dump/job.h": '#include "config.h"\n'}
BAD |= {
    "up the ladder":
    ("match is above model", {**LADDER, "analyzer/model/run.cpp": '#include "run.h"\n#include "match.h"\n'}),
    "up to the program": ("cli is above match", {**LADDER, "analyzer/match/match.cpp": '#include "commands.h"\n'}),
    "beside the ladder": ("no rung", {**LADDER, "analyzer/elsewhere/a.cpp": "\n"}),
    "up the tracer's ladder":
    ("dump is above process", {**TRACER, "tracer/process/ring_stale.cpp": '#include "job.h"\n'}),
    "up the tracer's ladder by a path":
    ("dump is above process", {**TRACER, "tracer/process/ring_stale.cpp": '#include "dump/job.h"\n'}),
    "a header that must not be copied":
    ("has a header of that name", {**TRACER, "tracer/process/job.h": "\n"}),
    "what interpose sees looks up": ("process is above include",
                                     {**TRACER, "tracer/include/tracer/a.h": '#include "config.h"\n'}),
    "beside the tracer's ladder": ("no rung", {**TRACER, "tracer/elsewhere/a.cpp": "\n"}),
    "up the ladder of the wrappers":
    ("wrappers is above tables",
     {"interpose/meson.build": "interpose_ladder = [\n  ['tables', files()],\n  ['wrappers', files()],\n]\n",
      "interpose/tables/api.h": '#include "wrapper.h"\n', "interpose/wrappers/wrapper.h": "\n"}),
    "up the ladder of the formats":
    ("container is above layout", {"formats/meson.build": "\n",
                                   "formats/include/formats/layout/a.h": '#include "formats/container/b.h"\n',
                                   "formats/include/formats/container/b.h": "\n"}),
    "two headers of one name": ("has a header of that name", {**LADDER, "analyzer/match/run.h": "\n"}),
}
GOOD = {
    "for programs": {"base/host/a.cpp": '#include <string>\n#include "base/hash.h"\n#include "host/words.h"\n',
                     "tools/a.cpp": '#include "host/words.h"\n'},
    "down the ladder": {**LADDER, "analyzer/cli/main.cpp": '#include "commands.h"\n#include "match.h"\n',
                        "tools/a.cpp": '#include "run.h"\n'},
    "down the tracer's ladder": {**TRACER, "tracer/outside/a.cpp": '#include "job.h"\n#include "tracer/record.h"\n'},
    "the ground floor": {"formats/a.h": '#include "base/hash.h"\n',
                         "base/include/base/hash.h": "#include <cstdint>\n#include <sys/mman.h>\n"},
    "downwards": {"interpose/meson.build": "interpose_ladder = [\n  ['start', files()],\n]\n",
                  "interpose/start/a.cpp":
                  "#include <nccl.h>\n#include <tracer/session/session.h>\n#include <cstdint>\n"},
    "the profiler's layouts": {"tests/simgpu/a.cpp":
                               '#include "interpose/plugin/plugin_abi.h"\n#include <sys/mman.h>\n'},
}

if __name__ == "__main__":
    run(check, BAD, GOOD)
