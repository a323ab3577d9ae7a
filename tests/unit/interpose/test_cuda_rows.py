"""interpose/cuda_*.def against NVIDIA's headers: of the calls that launch, copy, wait, capture and allocate none is missing, and
the wrappers compile with older toolkits, where their headers are given."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()

# Families of functions that must be in a table, by pattern of the name without its version and per-thread suffix.
FAMILIES = {
    "cuda_runtime_api.h": r"cuda(Launch\w*|(Device|Stream|Event)Synchronize|(Stream|Event)Query|Mem(cpy|set)\w*|Malloc\w*|Free\w*"
                          r"|StreamWaitEvent|EventRecord\w*|Stream(Begin|End)Capture\w*|GraphInstantiate\w*|GraphLaunch|GraphClone"
                          r"|GraphDestroy|GraphExecDestroy|GraphExecUpdate|Host(Alloc|Register|Unregister)|GetDriverEntryPoint\w*)",
    "cuda.h": r"cu(Launch\w*|(Ctx|Stream|Event)Synchronize|(Stream|Event)Query|Mem(cpy|set)\w*|MemAlloc\w*|MemFree\w*|MemHost\w*"
              r"|StreamWaitEvent|EventRecord\w*|Stream(Begin|End)Capture\w*|Stream(Wait|Write)Value\w*|GraphInstantiate\w*|GraphLaunch"
              r"|GraphClone|GraphDestroy|GraphExecDestroy|GraphExecUpdate|GetProcAddress)",
}
# Members of a family that are in no table, by pattern and reason.
NOT_WRAPPED = {
    r"cuda(Malloc|Free)(Mipmapped)?Array|cudaMalloc3DArray": "textures",
    r"cu(da)?MemcpyBatchAsync|cu(da)?Memcpy3DBatchAsync|cu(da)?Memcpy(3D)?WithAttributesAsync": "the driver's forms have names of "
                                                                                             "their own for each version",
    r"cudaMemcpyToArray\w*|cudaMemcpyFromArray\w*": "deprecated forms",
    r"cuMemHostGet(DevicePointer|Flags)|cuMemGetInfo": "tells, and does not wait",
    r"cuLaunch(Grid\w*)?|cuLaunchCooperativeKernelMultiDevice|cudaLaunchCooperativeKernelMultiDevice": "gone since CUDA 13",
    r"cudaLaunchDevice\w*|cudaLaunch(Attribute|Config)\w*": "device side, or types",
}


def headers():
    return {name: options.toolkit_include / name for name in FAMILIES}


def plain(name):
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name)


def declared(text):
    return set(re.findall(r"\b(cu(?:da)?[A-Z]\w+)\s*\(", re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)))


def exported():
    """Names in the tables, as the preprocessor and the linker see them."""
    source = ""
    for table in ("cuda_runtime.def", "cuda_driver.def"):
        source += f'#define TITAN_ROW(name, ...) ROW_OF name\n#define TITAN_TABLE "{table}"\n#include "every_cuda_row.h"\n'
    ran = subprocess.run([options.compiler, "-E", "-P", "-x", "c++", "-I", str(options.root / "interpose"), "-"], input=source,
                         capture_output=True, text=True, check=True)
    return set(re.findall(r"ROW_OF\s+(\w+)", ran.stdout))


def compile_wrappers(source, include, extra=()):
    root = options.root
    return subprocess.run([options.compiler, "-std=c++20", "-fsyntax-only", f"-I{root}/interpose", f"-I{root}/tracer/include",
                           f"-I{root}/formats/include", *extra, "-isystem", str(include), str(root / "interpose" / source)],
                          capture_output=True, text=True, check=False)


class Rows(unittest.TestCase):
    def missing(self, name, tables):
        known = {plain(row) for row in tables}
        members = {plain(function) for function in declared(headers()[name].read_text(errors="replace"))
                   if re.fullmatch(FAMILIES[name], plain(function))}
        self.assertGreater(len(members), 20, "the header was read")
        return {member for member in members - known
                if not any(re.fullmatch(pattern, member) for pattern in NOT_WRAPPED)}

    def test_every_member_of_the_families_is_in_a_table_or_excluded_for_a_reason(self):
        tables = exported()
        for name in FAMILIES:
            with self.subTest(header=name):
                self.assertFalse(sorted(self.missing(name, tables)), "in no table, and without a reason here")

    def test_a_missing_row_would_be_found(self):
        self.assertIn("cudaLaunchKernel", self.missing("cuda_runtime_api.h", exported() - {"cudaLaunchKernel", "cudaLaunchKernel_ptsz"}))

    def test_a_wrong_signature_does_not_compile(self):
        text = (options.toolkit_include / "cuda_runtime_api.h").read_text(errors="replace")
        wrong = text.replace("cudaEventSynchronize(cudaEvent_t event)", "cudaEventSynchronize(int event)")
        self.assertNotEqual(wrong, text)
        with tempfile.TemporaryDirectory() as include:
            pathlib.Path(include, "cuda_runtime_api.h").write_text(wrong)
            self.assertEqual(compile_wrappers("cuda_runtime_wrappers.cpp", options.toolkit_include).returncode, 0)
            self.assertNotEqual(compile_wrappers("cuda_runtime_wrappers.cpp", options.toolkit_include, ["-isystem", include]).returncode, 0)

    def test_older_toolkits_compile(self):
        if not options.older_toolkit:
            self.skipTest("no headers of an older toolkit are given (-Dolder_toolkit_include=DIR,...)")
        for include in options.older_toolkit:
            for source in ("cuda_runtime_wrappers.cpp", "cuda_driver_wrappers.cpp", "driver_api.cpp"):
                with self.subTest(include=str(include), source=source):
                    # NVIDIA's wheels have the compiler's part of the headers (crt/) in a package of its own.
                    result = compile_wrappers(source, include, ["-idirafter", str(options.toolkit_include)])
                    self.assertEqual(result.returncode, 0, result.stderr[-2000:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--toolkit-include", type=pathlib.Path, required=True)
    parser.add_argument("--older-toolkit", type=pathlib.Path, action="append")
    parser.parse_args(namespace=options)
    unittest.main(argv=sys.argv[:1], verbosity=2)
