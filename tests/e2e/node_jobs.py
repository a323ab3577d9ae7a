"""What the tests of titan-dump and titan-top share: jobs of this node, and the tools on their rings."""

import json
import os
import pathlib
import re
import signal
import time

import harness
from test_healthy import pids_of


def state_of(pid):
    """As /proc tells it: R, S, T, Z, ..."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def stop(pid):
    """Returns when it has stopped, not when it has been told to."""
    os.kill(pid, signal.SIGSTOP)
    harness.wait_for(lambda: state_of(pid) == "T", 5, f"process {pid} stops")


def switches_of(pid):
    """How often the main thread has given up its processor."""
    return re.search(r"^voluntary_ctxt_switches:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(),
                     re.M).group(1)


class NodeCase(harness.Case):
    def tool(self, name, *arguments, **settings):
        """Only this place's rings: not what other tests leave in /tmp."""
        rings = [] if {"--ring-dir", "--help"} & set(arguments) else ["--ring-dir", self.place.rings]
        return self.place.run([harness.BUILD / "tools" / name, *arguments, *rings],
                              self.place.env(preload=False, **settings), 60)

    def lingering_ranks(self, size, **settings):
        ranks = self.place.start_ranks("e2e-processes", "linger", size, **settings)
        for rank in ranks:
            rank.wait_says("done")
        return ranks

    def start_job(self, *options, ranks=4, **settings):
        pid_file = self.place.path / "pids"
        self.place.start([harness.stand_ins() / "titan-sim", "--ranks", ranks, "--tp", "2", "--steps", "100000",
                          "--step-ms", "2",
                          "--timeout-s", "600", "--pid-file", pid_file, *options],
                         self.place.env(**{"TITANTRACE_TIMEOUT_S": 0, **settings}))
        harness.wait_for(pid_file.exists, 20, "the job starts")
        return pids_of(pid_file)

    def steps(self):
        """By rank."""
        return {p["rank"]: p["step"]
                for p in json.loads(self.tool("titan-dump", "--list", "--json").stdout)["processes"]}

    def hung_job(self, fault="sleep rank=2 step=5 ms=600000", ranks=4, **settings):
        pids = self.start_job(ranks=ranks, SIMGPU_FAULTS=fault, **settings)
        harness.wait_for(lambda: len(self.steps()) == ranks and set(self.steps().values()) == {5}, 20,
                         "all ranks come to step 5")
        # On a busy machine they have not made their calls by then: a main thread that waits is switched to no more.
        for _ in range(15):
            before = [switches_of(pid) for pid in pids.values()]
            time.sleep(0.3)
            if before == [switches_of(pid) for pid in pids.values()]:
                break
        time.sleep(1.5 * harness.SLOW)  # a wait that is shorter is none
        return pids

    def ring_of(self, pid):
        ring, = [path for path in self.place.ring_files() if path.name.startswith(f"{pid}-")]
        return ring
