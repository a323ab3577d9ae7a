"""interpose/tables/cuda_*.def against NVIDIA's headers and library: nothing that works for, waits for or orders the
device is missing, and the headers of older toolkits still compile."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import nightly  # noqa: E402

options = argparse.Namespace()

# What belongs into a table, by name; the exceptions below have a reason each.
FAMILIES = "|".join((
    r".*Launch.*", r".*Synchronize.*", r".*Memcpy.*", r".*Memset.*", r".*Prefetch.*", r".*AddCallback.*",
    r"(Module|Library|Func)Load.*",
    r"EventRecord.*", r"(Event|Stream)Query", r"Stream(WaitEvent|WaitValue|WriteValue|BatchMemOp).*",
    r"(Stream|Event)(Create|Destroy).*", r".*Capture.*", r".*(Malloc|HostAlloc|MemAlloc|Free).*",
    r".*Host(Unr|R)egister.*", r"(Green)?Ctx(Record|Wait)Event", r".*(AttachMem|Discard|Decompress).*Async.*",
    r"Graph.*(Create|Destroy|Clone|Instantiate|Update|Upload|AddNode|ChildGraph|NodeSetParams).*",
))
IN_FAMILY = re.compile(rf"(__)?cu(da)?({FAMILIES})")
TWIN = r"(_ptsz|_ptds)?"
NOT_WRAPPED = {
    r"cu(da)?EventCreate(WithFlags|FromEGLSync)?": "a new event orders nothing yet; it is known from its first record",
    r"cuda(Malloc|Free)MipmappedArray": "textures: set up once, outside of training steps",
    r"cuMemAddressFree": "gives back addresses, no memory",
    r"cu(da)?GraphCreate|cu(da)?GraphConditionalHandleCreate(_v2)?": "empty: what is put into it matters",
    r"cu(da)?GraphAdd(Mem(Alloc|Free|cpy|set)Node(1D|FromSymbol|ToSymbol)?)":
        "nodes without a collective: not expanded",
    r"cu(da)?Graph(Exec)?(Host|Kernel|Memcpy|Memset|BatchMemOp|ExternalSemaphores(Signal|Wait))NodeSetParams"
    r"(_v2|1D|FromSymbol|ToSymbol)?": "nodes without a collective: not expanded",
    r"cu(da)?Graph(Mem(Alloc|Free|cpy|set)NodeGetParams|ChildGraphNodeGetGraph|NodeFindInClone)": "tells about a node",
    r"cu(da)?GraphNodeSetParams":
        "changes a node of a graph, not of an executable one; a child replaced this way is not followed",
    r"cudaGraph(AddNode|ExecNodeSetParams)": "parameters changed under one name: seen in the driver",
    rf"cudaMem(cpyBatch|cpy3DBatch|Prefetch|PrefetchBatch|DiscardBatch|DiscardAndPrefetchBatch)Async{TWIN}":
        "parameters changed under one name, or came with CUDA 13: seen in the driver",
    rf"cu(da)?StreamGetCaptureInfo(_v[23])?{TWIN}|cu(da)?StreamUpdateCaptureDependencies(_v2)?{TWIN}|"
    rf"cu(da)?ThreadExchangeStreamCaptureMode|cuStream(Begin|End)CaptureToCig{TWIN}":
        "asks about a capture, changes its edges, or captures for Direct3D (CIG); what is captured stays",
    r"cudaLibraryLoad(Data|FromFile)": "the runtime asks the driver to load: seen in the driver",
    r"cuLaunch|cuLaunchGrid(Async)?": "deprecated in the header, for cuLaunchKernel",
    r"cuLaunchCooperativeKernelMultiDevice": "deprecated in the header; several streams in one call",
}
NEEDED = "each needs a row in interpose/tables/cuda_*.def, or a reason in NOT_WRAPPED of test_cuda_rows.py"

# What the tables name and older toolkits lack, with the release that brought it.
LATER = {
    "CUlibrary": 12000, "CUlibraryOption": 12000, "CUDA_GRAPH_INSTANTIATE_PARAMS": 12000,
    "CUgraphExecUpdateResultInfo": 12000, "CUdriverProcAddressQueryResult": 12000, "CUgraphNodeParams": 12020,
    "CUgraphEdgeData": 12030, "CU_GRAPH_NODE_TYPE_CONDITIONAL": 12030, "CUmemcpyAttributes_v1": 12080,
    "CUDA_MEMCPY3D_BATCH_OP_v1": 12080, "CUgreenCtx": 12040, "CUmemDecompressParams": 12060,
    "cudaGraphInstantiateParams": 12000, "cudaDriverEntryPointQueryResult": 12000,
    "cudaKernel_t": 12010, "cudaGraphEdgeData": 12030, "cudaLibrary_t": 12080,
    "cudaExecutionContext_t": 13010, "cudaMemcpyAttributes": 12080, "cudaMemcpy3DBatchOp": 12080,
}
HEADERS = ("cuda.h", "cudaTypedefs.h", "cuda_runtime_api.h", "builtin_types.h", "driver_types.h")
APIS = {"cuda_runtime": "cuda_runtime_api.h", "cuda_driver": "cuda.h"}


def run(command, text=""):
    return subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True, check=False)


def preprocess(text, *flags):
    result = run([options.compiler, "-E", "-P", "-x", "c++", *flags, "-"], text)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return result.stdout


def rows(api):
    text = (f'#define TITAN_ROW(name, ...) TITAN_IS_ROW name\n#define TITAN_TABLE "{api}.def"\n'
            '#include "every_row.h"\n')
    return set(re.findall(r"TITAN_IS_ROW (\w+)", preprocess(text, f"-I{options.root}/interpose/tables")))


def declared(api):
    """ELF names: the headers' macros choose a version, and the per-thread twin with the macro of that mode."""
    include = f"#include <{APIS[api]}>\n"
    modes = ([], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"])
    text = "".join(preprocess(include, "-isystem", str(options.toolkit_include), *mode) for mode in modes)
    return set(re.findall(r"\b(?:cudaError_t|CUresult)\s+(cu\w+)\s*\(", text))


def missing(names, known):
    return {name for name in names - known if IN_FAMILY.fullmatch(name) and
            not any(re.fullmatch(pattern, name) for pattern in NOT_WRAPPED)}


def includes_of(interpose):
    """What the rooms of `interpose` include, which may be a copy of it."""
    root = options.root
    rooms = [room for room in interpose.iterdir() if room.is_dir()]
    return [f"-I{path}" for path in (*rooms, root / "tracer/include", root / "base/include", root / "formats/include")]


def compile_wrappers(api, *includes, source=None):
    interpose = options.root / "interpose"
    system = [flag for include in (*includes, options.toolkit_include) for flag in ("-isystem", include)]
    return run([options.compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                *includes_of(interpose), *system, interpose / (source or f"wrappers/{api}_wrappers.cpp")])


def compile_preload_with(rows):
    """The whole of interpose/ with that many more rows of the driver."""
    with tempfile.TemporaryDirectory() as place:
        interpose = pathlib.Path(shutil.copytree(options.root / "interpose", pathlib.Path(place, "interpose")))
        with open(interpose / "tables/cuda_driver.def", "a", encoding="utf-8") as table:
            table.writelines(f"QUERY(cuOneMore{i}, cuOneMore{i}, 2000, (CUevent hEvent), (hEvent), hEvent)\n"
                             for i in range(rows))
        return run([options.compiler, "-std=c++20", "-fsyntax-only", *includes_of(interpose),
                    "-isystem", options.toolkit_include, interpose / "start/preload.cpp"])


def older_headers(version, place):
    """The installed headers as they would be at `version`: without later types, and the functions that need them."""
    later = "|".join(name for name, since in LATER.items() if since > version)
    for name in HEADERS:
        text = (options.toolkit_include / name).read_text()
        if later:
            text = re.sub(rf"\b({later})\b", r"later_\1", text)
        text = re.sub(r"^extern [^;{]*\(([^;{]*\blater_)[^;{]*;", "", text, flags=re.M)
        text = re.sub(r"^[ \t]*typedef [^\n]*PFN_\w+_v(\d+)(?:_pts?[zd]s?)?\)[^\n]*;",
                      lambda form: form[0] if int(form[1]) <= version else "", text, flags=re.M)
        text = re.sub(r"(#define CUDA(RT)?_VERSION\s+)\d+", rf"\g<1>{version}", text)
        pathlib.Path(place, name).write_text(text)


def libcudart():
    home = options.toolkit_include.parent
    found = [path for folder in ("lib64", "lib") for path in sorted((home / folder).glob("libcudart.so.*"))]
    return found[0] if found else None


class Complete(unittest.TestCase):
    def test_every_function_of_the_headers_is_wrapped_or_excluded_for_a_reason(self):
        for api in APIS:
            with self.subTest(api=api):
                self.assertFalse(missing(declared(api), rows(api)), NEEDED)

    def test_every_symbol_of_the_library_is_wrapped_or_excluded_for_a_reason(self):
        library = libcudart()
        if library is None:
            print("skipped: the toolkit has no libcudart.so", flush=True)
            self.skipTest("the toolkit has no libcudart.so")
        symbols = set(re.findall(r" [TW] (\w+)", run(["nm", "-D", "--defined-only", library]).stdout))
        self.assertLessEqual({"cudaLaunchKernel", "cudaLaunchKernel_ptsz", "cudaMemcpy_ptds"}, symbols)
        self.assertFalse(missing(symbols, rows("cuda_runtime")), NEEDED)

    def test_a_lost_row_is_noticed(self):
        lost = {"cuda_runtime": {"cudaLaunchKernel", "cudaMemcpy_ptds", "cudaGraphDestroy", "cudaFree"},
                "cuda_driver": {"cuLaunchKernel", "cuMemcpyAsync_ptsz", "cuStreamWaitEvent", "cuStreamEndCapture"}}
        for api, names in lost.items():
            with self.subTest(api=api):
                self.assertEqual(missing(declared(api), rows(api) - names), names)

    def test_every_reason_is_needed(self):
        names = set().union(*(declared(api) - rows(api) for api in APIS))
        unused = [pattern for pattern in NOT_WRAPPED if not any(re.fullmatch(pattern, name) for name in names)]
        self.assertFalse(unused)


class Room(unittest.TestCase):
    """The table of names by id, which the hot path reads without looking at its size."""

    def test_the_next_rows_have_room(self):
        result = compile_preload_with(100)
        self.assertEqual(result.returncode, 0, result.stderr[:3000])

    def test_a_row_without_room_does_not_compile(self):
        result = compile_preload_with(1024)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("raise kMaxApis", result.stderr)


class Compiles(unittest.TestCase):
    def test_trimmed_headers(self):
        for version in (11080, 12000, 12020, 12040, 12080, 13000) if nightly.IS_ON else (11080, 12020):
            with tempfile.TemporaryDirectory() as place:
                older_headers(version, place)
                for api, header in APIS.items():
                    with self.subTest(cuda=version, api=api):
                        text = preprocess(f"#include <{header}>\nCUDA_VERSION CUDART_VERSION\n", "-isystem", place,
                                          "-isystem", str(options.toolkit_include))
                        left = [name for name, since in LATER.items()
                                if since > version and re.search(rf"\b{name}\b", text)]
                        self.assertFalse(left, "the header is not older yet")
                        self.assertIn(str(version), text.splitlines()[-1])
                        result = compile_wrappers(api, place)
                        self.assertEqual(result.returncode, 0, result.stderr[:3000])

    def test_older_toolkits_compile(self):
        if not options.older_toolkit:
            reason = "no headers of an older toolkit are given (-Dolder_toolkit_include=DIR,...)"
            print(f"skipped: {reason}", flush=True)
            self.skipTest(reason)
        for include in options.older_toolkit:
            for source in (*(f"{api}_wrappers.cpp" for api in APIS), "vendor_apis.cpp"):
                with self.subTest(include=include, source=source):
                    # NVIDIA's wheels have the compiler's part of the headers (crt/) in a package of its own: the
                    # installed toolkit's are found after these.
                    result = compile_wrappers(None, include, source=source)
                    self.assertEqual(result.returncode, 0, result.stderr[:3000])

    def test_a_wrong_signature_does_not_compile(self):
        wrong = {"cuda_runtime": ("cuda_runtime_api.h", r"(cudaStreamSynchronize\()cudaStream_t stream"),
                 "cuda_driver": ("cudaTypedefs.h", r"(PFN_cuStreamSynchronize_v2000\)\()CUstream hStream")}
        for api, (header, parameter) in wrong.items():
            with self.subTest(api=api), tempfile.TemporaryDirectory() as place:
                text = (options.toolkit_include / header).read_text()
                changed = re.sub(parameter, r"\1int stream", text)
                self.assertNotEqual(changed, text)
                pathlib.Path(place, header).write_text(changed)
                self.assertNotEqual(compile_wrappers(api, place).returncode, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--toolkit-include", type=pathlib.Path, required=True)
    parser.add_argument("--older-toolkit", type=pathlib.Path, action="append")
    parser.parse_args(namespace=options)
    unittest.main(argv=sys.argv[:1], verbosity=2)
