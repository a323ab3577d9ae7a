"""What a page of titan-top costs while eight ranks of this node train: a row for scripts/bench."""
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

from instruction_counts import environment
from machine_costs import row

RANKS = 8
PAGES = 30
BUDGET_MS = 50  # of processor time: 5 % of a core at a page a second


def recording_ranks(top, rings, env):
    page = subprocess.run([str(top), "--json", "--once", "--ring-dir", str(rings)], env=env, capture_output=True,
                          text=True, check=False)
    return sum(len(job["ranks"]) for job in json.loads(page.stdout)["jobs"]) if page.returncode == 0 else 0


def page_ms(top, rings, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(top), "--json", "--count", str(PAGES), "--interval", "0.05", "--ring-dir", str(rings)], env=env,
                   stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / PAGES


def titan_top_costs(top, simulator, library):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        rings = pathlib.Path(directory) / "rings"
        rings.mkdir(mode=0o700)
        env = environment(directory, library, TITANTRACE_RING_DIR=str(rings))
        without = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        job = subprocess.Popen([str(simulator), "--ranks", str(RANKS), "--steps", "1000000"], env=env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while recording_ranks(top, rings, without) < RANKS:
                if time.monotonic() > deadline or job.poll() is not None:
                    raise RuntimeError(f"the job of {RANKS} ranks does not record")
                time.sleep(0.2)
            time.sleep(3)  # calls enough to look at
            return [row(f"page of titan-top, {RANKS} ranks", page_ms(top, rings, without), BUDGET_MS, "ms")]
        finally:
            job.terminate()
            job.wait()
