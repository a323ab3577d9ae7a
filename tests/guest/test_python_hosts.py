#!/usr/bin/env python3
"""Ray's actors and Jupyter's kernels. $GUEST_PYTHON is a Python that has them (pip install ray ipykernel
jupyter_client); the tests' own otherwise."""
import os
import shutil
import subprocess
import sys
import tempfile

import guest
import harness

PYTHON = os.environ.get("GUEST_PYTHON", sys.executable)


class PythonHosts(guest.Case):
    def needs(self, *modules):
        if subprocess.run([PYTHON, "-c", f"import {', '.join(modules)}"], capture_output=True).returncode != 0:
            self.skipTest(f"{PYTHON} has no {' or no '.join(modules)} (GUEST_PYTHON names another)")

    def whom_to_ask(self, ran):
        return ["--job", "e2e"]  # the ranks are started by the program

    def test_jupyter_kernel(self):
        self.needs("ipykernel", "jupyter_client")
        self.both([PYTHON, guest.script("jupyter_kernel.py")], dumps=1, limit_s=60, TITANTRACE_TIMEOUT_S=20)

    def test_ray_actors(self):
        self.needs("ray")
        self.ranks = 2
        short = tempfile.mkdtemp(prefix="ray-")  # its sockets' paths may not be long
        self.addCleanup(shutil.rmtree, short, ignore_errors=True)
        self.both([PYTHON, guest.script("ray_actors.py"), short], dumps=1, limit_s=60, TITANTRACE_TIMEOUT_S=20,
                  RAY_DISABLE_MEMORY_MONITOR=1,
                  RAY_USAGE_STATS_ENABLED=0, RANK=None, WORLD_SIZE=None)


if __name__ == "__main__":
    harness.main()
