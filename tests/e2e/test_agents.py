#!/usr/bin/env python3
"""Two agents of real torchrun, one per node, each under titan-run with rings of its own: one run with the ranks of both.

The lines are those of docs/launchers.md.
"""

import unittest

import harness
from test_torchrun import TORCHRUN, free_port

NODES, RANKS = 2, 4

# The simulator has one set of GPUs for both nodes.
PROGRAM = f"""import os, runpy, sys
os.environ = dict(os.environ, LOCAL_RANK=os.environ["RANK"])
sys.argv[0] = {str(harness.ROOT / "tests" / "simgpu" / "train.py")!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@unittest.skipUnless(TORCHRUN.exists(), f"no PyTorch: {TORCHRUN} is missing (scripts/setup installs it)")
class TwoAgents(harness.Case):
    def start(self, **settings):
        program = self.place.path / "train.py"
        program.write_text(PROGRAM)
        endpoint = f"127.0.0.1:{free_port()}"
        agents = []
        for node in range(NODES):
            rings = self.place.rings / f"node-{node}"
            rings.mkdir()
            env = self.place.env(preload=False, SIMGPU_DIR=harness.stand_ins(), LD_LIBRARY_PATH=None, OMP_NUM_THREADS="1", TITANTRACE_RUN_ID=None,
                                 SIMTRAIN_STORE=self.place.meet / "store", TITANTRACE_RING_DIR=rings, **settings)
            agents.append(self.place.start(
                [harness.BUILD / "tools" / "titan-run", "--dir", self.place.dumps, "--timeout", 3 * harness.SLOW, "--",
                 TORCHRUN, "--nnodes=2", "--nproc-per-node=2", f"--node-rank={node}", "--rdzv-id=two-agents", "--rdzv-backend=c10d",
                 f"--rdzv-endpoint={endpoint}", "--local-addr=127.0.0.1", program, "--tp", "2", "--steps", "100000", "--step-ms", "2"], env))
        return agents

    def dumped(self):
        return {path.name[:9] for path in (self.place.dumps / "two-agents" / "0").glob("rank*.titan")}

    def verdict(self):
        analysis = self.place.analyze(self.place.dumps, "--no-rings")
        return analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]

    def test_a_hang_on_one_node_dumps_on_both(self):
        agents = self.start(SIMGPU_FAULTS="spin rank=3 step=40")
        harness.wait_for(lambda: len(self.dumped()) == RANKS, 60, "the ranks of both nodes dump")
        self.assertEqual(self.verdict(), ("rank_not_arrived", [3]))
        for agent in agents:
            self.assertIsNone(agent.status, agent.stderr[-2000:])


if __name__ == "__main__":
    harness.main()
