"""scripts/find-headers: each of the three origins is found, the order holds, and a directory that lacks one of the
files that nccl.h pulls in is passed over."""
import argparse
import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

CUDA = ["cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_fp16.h", "cuda_bf16.h", "crt/host_defines.h"]


def fill(directory, files):
    for name in files:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n")
    return directory


class FindHeaders(unittest.TestCase):
    root = None

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.place = pathlib.Path(holder.name)
        self.home, self.system, self.venv = self.place / "home dir", self.place / "system", self.place / "venv"
        self.packages = self.venv / "nvidia-wheels"

    def find(self, cuda_home=True, **settings):
        environment = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "TITAN_HEADER_WHEELS")} | settings
        if cuda_home:
            environment["CUDA_HOME"] = str(self.home)
        result = subprocess.run([str(self.root / "scripts" / "find-headers"), "--system", str(self.system), "--venv",
                                 str(self.venv)], capture_output=True, text=True, env=environment)
        values = dict(word.split("=", 1) for word in shlex.split(result.stdout))
        return result.returncode, values, result.stderr

    def test_cuda_home_first(self):
        fill(self.home / "include", CUDA + ["nccl.h"])
        fill(self.system / "include", CUDA + ["nccl.h"])
        fill(self.packages / "cuda-headers" / "nvidia" / "cu13" / "include", CUDA)
        status, values, _ = self.find()
        self.assertEqual((status, values["cuda_origin"], values["nccl_origin"]), (0, "CUDA_HOME", "CUDA_HOME"))
        self.assertEqual(values["cuda_include"], str(self.home / "include"))

    def test_then_the_system(self):
        fill(self.system / "include", CUDA + ["nccl.h"])
        fill(self.packages / "cuda-headers" / "nvidia" / "cu13" / "include", CUDA)
        status, values, _ = self.find(cuda_home=False)
        self.assertEqual((status, values["cuda_origin"], values["nccl_origin"]),
                         (0, str(self.system), str(self.system)))

    def test_then_the_wheels(self):
        fill(self.packages / "cuda-headers" / "nvidia" / "cu13" / "include", CUDA)
        fill(self.packages / "nccl" / "nvidia" / "nccl" / "include", ["nccl.h"])
        fill(self.packages / "nccl" / "nvidia" / "nccl" / "lib", ["libnccl.so.2"])
        status, values, _ = self.find(cuda_home=False)
        self.assertEqual((status, values["cuda_origin"], values["nccl_origin"]), (0, "wheel", "wheel"))
        self.assertEqual(values["nccl_library"],
                         str(self.packages / "nccl" / "nvidia" / "nccl" / "lib" / "libnccl.so.2"))

    def test_each_on_its_own(self):
        fill(self.system / "include", CUDA)
        fill(self.packages / "nccl" / "nvidia" / "nccl" / "include", ["nccl.h"])
        status, values, _ = self.find()
        self.assertEqual((status, values["cuda_origin"], values["nccl_origin"]), (0, str(self.system), "wheel"))

    def test_incomplete_is_passed_over(self):
        fill(self.home / "include", [name for name in CUDA if not name.startswith("crt/")])
        fill(self.system / "include", CUDA + ["nccl.h"])
        (self.system / "include" / "cuda_fp16.h").write_text("#include <nv/target>\n")
        fill(self.packages / "cuda-headers" / "nvidia" / "cu13" / "include", CUDA)
        status, values, errors = self.find()
        self.assertEqual((status, values["cuda_origin"]), (0, "wheel"))
        self.assertIn("crt/host_defines.h", errors)

    def test_then_those_that_pip_installed_for_the_build(self):
        site = self.place / "site-packages"
        fill(site / "nvidia" / "cu13" / "include", CUDA)
        fill(site / "nvidia" / "nccl" / "include", ["nccl.h"])
        status, values, _ = self.find(cuda_home=False, TITAN_HEADER_WHEELS=str(site))
        self.assertEqual((status, values["nccl_include"]), (0, str(site / "nvidia" / "nccl" / "include")))

    def test_nothing(self):
        status, values, _ = self.find()
        self.assertRegex(values["nccl_wheels"], r"^nvidia-nccl-cu13==[\d.]+$")
        self.assertEqual((status, values["cuda_include"], values["nccl_include"]), (1, "", ""))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options, rest = parser.parse_known_args()
    FindHeaders.root = pathlib.Path(options.root)
    unittest.main(argv=["test_find_headers", *rest])
