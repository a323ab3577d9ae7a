"""A Slurm cluster of several nodes on this machine: munged, slurmctld and a slurmd per node, each with a host name of
its own."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "scancel", "squeue", "unshare")


def missing():
    """Why there can be no cluster here; empty: there can."""
    if os.geteuid() != 0:
        return "needs root: slurmd starts processes as other users, and nodes have host names of their own"
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    return f"no {', '.join(lacking)} (Debian: slurm-wlm, munge)" if lacking else ""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Nodes n1, n2, ... with the host names node-1, node-2, ...; `env` is for srun."""

    def __init__(self, place, nodes):
        self.place = pathlib.Path(place)
        self.nodes = nodes
        self.processes = []
        (self.place / "state").mkdir(parents=True)
        key = self.place / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        ports = free_ports(nodes + 1)
        config = self.place / "slurm.conf"
        lines = ["ClusterName=e2e", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={ports[0]}", "SlurmUser=root",
                 "SlurmdUser=root",
                 "AuthType=auth/munge", f"AuthInfo=socket={self.place}/munge.sock",
                 f"StateSaveLocation={self.place}/state",
                 f"SlurmdSpoolDir={self.place}/spool.%n", f"SlurmdPidFile={self.place}/%n.pid",
                 f"SlurmctldPidFile={self.place}/ctld.pid",
                 "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "ReturnToService=2"]
        lines += [f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number]} CPUs=2"
                  for number in range(1, nodes + 1)]
        config.write_text(
            "\n".join([*lines, "PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4", ""]))
        self.env = {"SLURM_CONF": str(config)}

    def start(self):
        """Empty, or why the cluster does not come up."""
        own = f"--key-file={self.place}/key", f"--socket={self.place}/munge.sock", f"--pid-file={self.place}/munge.pid"
        self._run("munged", "--foreground", "--force", *own, f"--log-file={self.place}/munge.log",
                  f"--seed-file={self.place}/seed")
        self._run("slurmctld", "-D")
        for number in range(1, self.nodes + 1):
            self._run("unshare", "--uts", "sh", "-c", f"hostname node-{number} && exec slurmd -D -N n{number}")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            asked = subprocess.run(["sinfo", "--noheader", "--states=idle", "--format=%D"],
                                   env={**os.environ, **self.env},
                                   capture_output=True, text=True, timeout=60)
            if asked.stdout.strip() == str(self.nodes):
                return ""
            time.sleep(0.2)
        return f"Slurm does not come up: {asked.stderr.strip() or asked.stdout.strip()}"

    def _run(self, *command):
        with open(self.place / f"{len(self.processes)}.log", "wb") as log:
            self.processes.append(subprocess.Popen(command, env={**os.environ, **self.env}, stdin=subprocess.DEVNULL,
                                                   stdout=log, stderr=log))

    def stop(self):
        """With all jobs: the daemons' end would leave them."""
        env = {**os.environ, **self.env}
        subprocess.run(["scancel", "--signal=KILL", "--partition=all", "--full"], env=env, capture_output=True,
                       timeout=60)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and subprocess.run(["squeue", "--noheader"], env=env, capture_output=True,
                                                             timeout=60).stdout:
            time.sleep(0.2)
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
