#!/usr/bin/env python3
"""Two agents of real torchrun, one per node, each under titan-run with rings of its own: one run with the ranks of
both."""

import unittest

import harness
from test_torchrun import TORCHRUN, free_port

NODES, RANKS = 2, 4

# The simulator has one set of GPUs for both nodes.
PROGRAM = f"""import os, pathlib, runpy, sys
started = pathlib.Path(os.environ["E2E_MEET"], "started-" + os.environ["RANK"])
again = started.exists()
started.touch()
os.environ["SIMTRAIN_STORE"] += "-again" if again else ""
os.environ["SIMGPU_FAULTS"] = os.environ["SECOND_FAULT" if again else "FIRST_FAULT"]
os.environ = dict(os.environ, LOCAL_RANK=os.environ["RANK"])
sys.argv[0] = {str(harness.ROOT / "tests" / "simgpu" / "train.py")!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch: {TORCHRUN} is missing (scripts/setup installs it)")
class TwoAgents(harness.Case):
    def start(self, first_fault, second_fault="", restarts=0):
        program = self.place.path / "train.py"
        program.write_text(PROGRAM)
        endpoint = f"127.0.0.1:{free_port()}"
        agents = []
        for node in range(NODES):
            rings = self.place.rings / f"node-{node}"
            rings.mkdir()
            env = self.place.env(preload=False, SIMGPU_DIR=harness.stand_ins(), LD_LIBRARY_PATH=None,
                                 OMP_NUM_THREADS="1", TITANTRACE_RUN_ID=None,
                                 SIMTRAIN_STORE=self.place.meet / "store", TITANTRACE_RING_DIR=rings,
                                 FIRST_FAULT=first_fault, SECOND_FAULT=second_fault)
            agents.append(self.place.start(
                [harness.BUILD / "tools" / "titan-run", "--dir", self.place.dumps, "--timeout", 3 * harness.SLOW, "--",
                 TORCHRUN, "--nnodes=2", "--nproc-per-node=2", f"--node-rank={node}", "--rdzv-id=two-agents",
                 "--rdzv-backend=c10d",
                 f"--rdzv-endpoint={endpoint}", "--local-addr=127.0.0.1", f"--max-restarts={restarts}", program,
                 "--tp", "2", "--steps", "100000", "--step-ms", "2"], env))
        return agents

    def dumped(self, attempt="0"):
        return {path.name[:9] for path in (self.place.dumps / "two-agents").glob(f"{attempt}/rank*.titan")}

    def verdict(self):
        """With the ranks that were read."""
        said = self.place.analyze(self.place.dumps, "--no-rings").json
        return said["verdict"]["kind"], said["verdict"]["ranks"], said["run"]["ranks"]

    def test_a_hang_on_one_node_dumps_on_both(self):
        agents = self.start("spin rank=3 step=40")
        harness.wait_for(lambda: len(self.dumped()) == RANKS, 60, "the ranks of both nodes dump")
        self.assertEqual(self.verdict(), ("rank_not_arrived", [3], [0, 1, 2, 3]))
        for agent in agents:
            self.assertIsNone(agent.status, agent.stderr[-2000:])

    def test_a_hang_after_a_restart_that_only_one_node_counts(self):
        """Of torchrun's agents only the one that lost a rank counts: its ranks are in attempt 1, the others still in
        attempt 0."""
        self.start("kill rank=3 step=20", "spin rank=1 step=40", restarts=1)
        harness.wait_for(lambda: len(self.dumped("1")) == RANKS // NODES, 90,
                         "the ranks of the node that lost one dump")
        again = lambda: [path for path in (self.place.dumps / "two-agents" / "0").glob("rank*.titan")
                         if path.stat().st_mtime > min(p.stat().st_mtime
                                                       for p in self.place.dumps.glob("two-agents/1/*.titan")) - 2]
        harness.wait_for(lambda: len(again()) == RANKS // NODES, 60, "those of the other node dump, too")
        self.assertEqual(self.verdict(), ("rank_not_arrived", [1], [0, 1, 2, 3]))


if __name__ == "__main__":
    harness.main()
