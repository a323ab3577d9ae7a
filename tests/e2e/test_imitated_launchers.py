#!/usr/bin/env python3
"""Kubernetes and Ray Train, imitated: the environment that they give, and their trees of processes; neither is
installed.

A pod is a host of hosts.py: process 1 is the container's command, the host name is the pod's. A Ray worker starts as
nobody in particular below a raylet, and writes its rank into its own environment when the driver tells it, long after
it started.
"""

import json
import signal
import sys
import unittest

import harness
import hosts

NO_HOSTS = hosts.missing()


class Imitated(harness.Case):
    def dumped(self, run, attempt=0):
        return {int(path.name[4:9]) for path in (self.place.dumps / run / str(attempt)).glob("rank*.titan")}

    def wait_for_dumps(self, place, ranks, run, attempt=0):
        all_ranks = set(range(ranks))
        harness.wait_for(lambda: self.dumped(run, attempt) == all_ranks or place.any_ended(), 30,
                         f"all ranks of {run} attempt {attempt} dump")
        self.assertEqual(self.dumped(run, attempt), all_ranks)

    def expect(self, victim, *source):
        analysis = self.place.analyze(*source, "--no-rings")
        verdict = analysis.json["verdict"]
        self.assertEqual((analysis.status, verdict["kind"], verdict["ranks"]),
                         (harness.FINDINGS, "rank_not_arrived", [victim]), analysis.stdout)
        return analysis

    def pack_on_each(self, place, options=()):
        """The map step, beside the job: kubectl exec, or a task on each node."""
        for index in range(len(place.names)):
            packed = place.on_host(index, harness.BUILD / "analyzer" / "titan-analyze", "digest", place.shared,
                                   "--node", "--into",
                                   self.place.path / "digests", *options)
            self.assertEqual(packed.status, 0, packed.stderr)
        self.assertEqual(len(list((self.place.path / "digests").rglob("*.digest"))), len(place.names))


@unittest.skipIf(NO_HOSTS, NO_HOSTS)
class Kubernetes(Imitated):
    def start(self, pods, per_pod, fault, **settings):
        self.pods = hosts.Hosts(self.place, pods, per_pod)
        return self.pods.start([*hosts.titan_run("--timeout", 3 * harness.SLOW),
                                *hosts.simulated_job(1000000, "--ranks", len(pods) * per_pod)],
                               SIMGPU_FAULTS=fault, **settings)

    def delete(self, index):
        """As the kubelet ends a pod: SIGTERM to process 1."""
        self.pods.signal(index, signal.SIGTERM)

    def test_jobset_of_two_pods(self):
        """A JobSet, two ranks in each pod. After a restart of the set the same name, and the next attempt."""
        pods = ("train-worker-0-0", "train-worker-0-1")
        for attempt in (0, 1):
            (self.place.meet / str(attempt)).mkdir()
            ran = self.start(pods, 2, "spin rank=3 step=40", JOBSET_NAME="train", JOBSET_RESTART_ATTEMPT=attempt,
                             MASTER_ADDR="train-worker-0-0.train",
                             SIMGPU_RENDEZVOUS=self.place.meet / str(attempt))
            self.wait_for_dumps(self.pods, 4, "train", attempt)
            analysis = self.expect(3, self.place.dumps, "--attempt", attempt)
            self.assertIn(pods[1], analysis.stdout)
            if attempt == 1:
                self.pack_on_each(self.pods)
                self.expect(3, self.place.path / "digests")
            for index, pod in enumerate(ran):
                self.delete(index)
            for pod in ran:
                self.assertNotEqual(pod.wait(30), 0)
                self.assertRegex(pod.stderr,
                                 rf"run train attempt {attempt}[\s\S]*VERDICT  rank_not_arrived[\s\S]*rank 3")

    def test_pytorchjob_of_one_rank_per_pod(self):
        """The operator calls the master's address localhost in the master's own pod."""
        pods = ("bert-master-0", "bert-worker-0", "bert-worker-1")
        place = self.pods = hosts.Hosts(self.place, pods, 1)
        of_pod = {index: dict(MASTER_ADDR="localhost" if index == 0 else pods[0], MASTER_PORT=23456, RANK=index,
                              LOCAL_RANK=None, LOCAL_WORLD_SIZE=None,
                              PET_MASTER_ADDR="localhost" if index == 0 else pods[0], PET_NNODES=3)
                  for index in range(3)}
        place.start([*hosts.titan_run("--timeout", 3 * harness.SLOW),
                     *hosts.simulated_job(1000000, "--ranks", 3, "--tp", 1)], of_host=of_pod,
                    SIMGPU_FAULTS="spin rank=1 step=40")
        self.wait_for_dumps(place, 3, "bert-master-0-23456")
        self.assertEqual([path.name for path in self.place.dumps.iterdir()], ["bert-master-0-23456"])
        self.expect(1, self.place.dumps)


# What the raylet of a node starts, and what Ray Train does in it: the rank comes through a message, after NCCL was
# asked for its version and CUDA for its devices, and the training runs in a thread of its own.
WORKER = f"""
import ctypes, json, os, pathlib, runpy, sys, threading, time
assert "RANK" not in os.environ
place = pathlib.Path(os.environ["TOLD"])
library = ctypes.CDLL(os.environ["SIMGPU_DIR"] + "/libnccl.so.2")
library.ncclGetVersion(ctypes.byref(ctypes.c_int()))
ctypes.CDLL(os.environ["SIMGPU_DIR"] + "/libcudart.so.12").cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))
host, number = os.environ["HOST_INDEX"], sys.argv[1]
(place / f"ready-{{host}}-{{number}}").touch()
while not (told := place / f"told-{{host}}-{{number}}").exists(): time.sleep(0.01)
os.environ.update(json.loads(told.read_text()))
sys.argv = [{str(harness.ROOT / "tests" / "simgpu" / "train.py")!r},
            "--tp", "2", "--steps", "1000000", "--step-ms", "2"]
training = threading.Thread(target=runpy.run_path, args=(sys.argv[0],), kwargs=dict(run_name="__main__"))
training.start()
training.join()
"""
RAYLET = """
import os, subprocess, sys
own = {**os.environ, "RAY_JOB_ID": "02000000", "RAY_RAYLET_PID": str(os.getpid())}
workers = [subprocess.Popen([sys.executable, sys.argv[1], str(number)], env=own)
           for number in range(int(os.environ["PER_HOST"]))]
for worker in workers: worker.wait()
"""


@unittest.skipIf(NO_HOSTS, NO_HOSTS)
class RayTrain(Imitated):
    def start(self, names, per_node, fault):
        """`titan-run -- ray start --block` on each node, then what TorchTrainer's driver tells the workers."""
        for name, text in (("worker.py", WORKER), ("raylet.py", RAYLET)):
            (self.place.path / name).write_text(text)
        place = self.nodes = hosts.Hosts(self.place, names, per_node)
        told = self.place.path / "told"
        told.mkdir()
        unset = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SIMGPU_RENDEZVOUS"))
        ran = place.start([str(word)
                           for word in (harness.BUILD / "tools" / "titan-run", "--timeout", 3 * harness.SLOW, "--",
                                        sys.executable, self.place.path / "raylet.py", self.place.path / "worker.py")],
                          TOLD=told, SIMTRAIN_STORE=self.place.meet / "store", SIMGPU_FAULTS=fault, **unset)
        workers = [(node, number) for node in range(len(names)) for number in range(per_node)]
        harness.wait_for(lambda: len(list(told.glob("ready-*"))) == len(workers), 30, "the workers start")
        for rank, (node, number) in enumerate(workers):
            told_to_it = told / f"told-{node}-{number}"
            told_to_it.with_suffix(".new").write_text(json.dumps({
                "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "41237", "RANK": str(rank), "LOCAL_RANK": str(number),
                "WORLD_SIZE": str(len(workers)),
                "LOCAL_WORLD_SIZE": str(per_node), "NODE_RANK": str(node)}))
            told_to_it.with_suffix(".new").rename(told_to_it)
        return ran

    def check(self, names, per_node, victim):
        ran = self.start(names, per_node, f"spin rank={victim} step=40")
        self.wait_for_dumps(self.nodes, len(names) * per_node, "ray-02000000.41237")
        self.assertEqual([path.name for path in self.place.dumps.iterdir()], ["ray-02000000.41237"])
        analysis = self.expect(victim, self.place.dumps)
        self.assertIn("stuck_in_python", analysis.stdout, "the stack of the thread that trains")
        return ran

    def test_one_node(self):
        """Also the node's processes share a parent with those of every other job of the cluster: it is no name for the
        run."""
        self.check(("ray-head",), 4, 2)

    def test_two_nodes(self):
        ran = self.check(("ray-head", "ray-worker"), 2, 3)
        self.pack_on_each(self.nodes)
        self.expect(3, self.place.path / "digests")
        for index in range(2):
            self.nodes.signal(index, signal.SIGTERM)  # ray stop
        for node in ran:
            self.assertNotEqual(node.wait(30), 0)
            self.assertRegex(node.stderr, r"VERDICT  rank_not_arrived[\s\S]*rank 3")


if __name__ == "__main__":
    harness.main()
