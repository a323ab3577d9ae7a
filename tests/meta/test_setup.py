"""scripts/setup configures a build again when meson would find other things than it did, and only then.

Run in a copy of scripts/, with stand-ins for meson, ninja and whatever could install something."""
import argparse
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

MESON = """#!/bin/sh
[ "$1" != --version ] || { echo 1.2.0; exit; }
echo "$*" >>"$TEST_CALLS"
for argument; do case $argument in */build) mkdir -p "$argument" && : >"$argument/build.ninja" ;; esac; done
"""
STAND_INS = {"meson": MESON, "ninja": "#!/bin/sh\necho 'no work to do'\n", "apt-get": "#!/bin/sh\nexit 1\n",
             "sudo": "#!/bin/sh\nexit 1\n"}
HEADERS = ("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_fp16.h", "cuda_bf16.h", "crt/host_defines.h",
           "nccl.h")


class Setup(unittest.TestCase):
    root = None

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.place = pathlib.Path(holder.name)
        shutil.copytree(self.root / "scripts", self.place / "scripts")
        self.calls = self.place / "calls"
        for name, text in STAND_INS.items():
            self.stand_in(name, text)
        # Headers, and an index that has just failed: nothing is fetched.
        for name in HEADERS:
            path = self.place / "cuda" / "include" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        (self.place / "build-logs").mkdir()
        for name in ("nccl", "apt-libbenchmark-dev", "apt-valgrind"):
            (self.place / "build-logs" / f"failed-{name}").touch()

    def stand_in(self, name, text):
        path = self.place / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def configured(self):
        """What meson was asked for by one more run."""
        self.calls.write_text("")
        ran = subprocess.run([str(self.place / "scripts" / "setup"), "--no-torch"], capture_output=True, text=True,
                             check=False,
                             env={**os.environ, "PATH": f"{self.place}/bin:{os.environ['PATH']}",
                                  "TEST_CALLS": str(self.calls),
                                  "CUDA_HOME": str(self.place / "cuda"), "CI": "false"})
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return self.calls.read_text().splitlines()

    def test_configured_once(self):
        self.assertEqual(len(self.configured()), 1)
        self.assertEqual(self.configured(), [])

    def test_configured_again_when_something_was_installed(self):
        self.configured()
        # What the benchmarks compare with: wherever it is installed already, it goes away instead.
        name = "lttng-sessiond"
        self.stand_in(name, "#!/bin/sh\n") if not shutil.which(name) else self.forget(name)
        again = self.configured()
        self.assertEqual(len(again), 1)
        self.assertIn("--reconfigure", again[0])
        self.assertEqual(self.configured(), [])

    def test_a_library_that_is_listed_first_is_found_however_long_the_list(self):
        function = next(line for line in (self.place / "scripts" / "setup").read_text().splitlines()
                        if line.startswith("has_library()"))
        self.stand_in("ldconfig", "#!/bin/sh\necho 'libof-this-test.so.9 => /lib'\nseq 1000000\n")
        ran = subprocess.run(["bash", "-c", f"set -euo pipefail\n{function}\nhas_library libof-this-test.so.9"],
                             env={**os.environ, "PATH": f"{self.place}/bin:{os.environ['PATH']}"}, check=False)
        self.assertEqual(ran.returncode, 0)

    def test_an_installation_that_was_cut_off_is_made_again(self):
        setup = (self.place / "scripts" / "setup").read_text()
        function = setup[setup.index("pip_install() {"):]
        function = function[:function.index("\n}\n") + 3]
        # Cut off the first time, as by Ctrl-C.
        (self.place / "venv" / "bin").mkdir(parents=True)
        python = self.place / "venv" / "bin" / "python"
        python.write_text(f"#!/bin/sh\necho \"$*\" >>{self.calls}\n[ $(wc -l <{self.calls}) != 1 ] || kill -9 $PPID\n")
        python.chmod(0o755)
        steps = "\n".join([f"source {self.place}/scripts/common.sh", f"venv={self.place}/venv logs={self.place}/logs",
                           "make_venv() { :; }", "failed_lately() { return 1; }", "remember_failure() { :; }",
                           "forget_failure() { :; }", function, "pip_install torch 'no torch' torch==1"])
        for expected in (-9, 0, 0):
            ran = subprocess.run(["bash", "-c", steps], capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, expected, ran.stdout + ran.stderr)
        first, second = self.calls.read_text().splitlines()
        self.assertNotIn("--force-reinstall", first)
        self.assertIn("--force-reinstall", second)

    def forget(self, name):
        text = (self.place / "scripts" / "setup").read_text()
        (self.place / "scripts" / "setup").write_text(text.replace(f"command -v {name}", f"command -v no-{name}"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options, rest = parser.parse_known_args()
    Setup.root = pathlib.Path(options.root)
    unittest.main(argv=["test_setup", *rest])
