"""Hosts on one machine, as a job sees them: each has its own host name, boot, processes, network, clocks and /dev/shm
for rings, and reaches the dump directory through a file server of its own that a test can slow down, hang or take away
(fuse_directory.py).

What the simulated NCCL shares between ranks is one directory of memory, mounted as /dev/shm of all hosts; rings lie
beside it, each host its own.
"""

import os
import pathlib
import struct
import subprocess
import sys
import uuid

import harness

# Runs as process 1 of the host. What a host cannot have of its own here is the clock of the day: a preload shifts it.
ENTER = """
set -e
mount -t tmpfs -o size=256m,mode=1777 rings "$RINGS"
mount --bind "$MEMORY" /dev/shm
mount --bind "$BOOT_ID" /proc/sys/kernel/random/boot_id
hostname "$HOST"
"$PYTHON" "$SERVER" "$BACKING" "$SHARED" "$CONTROL" &
until grep -q " $SHARED fuse" /proc/self/mounts; do kill -0 $!; sleep 0.05; done
exec "$@"
"""
# A launcher of PER_HOST ranks, which passes SIGTERM on as torchrun does.
LAUNCHER = """
pids=
trap 'kill -TERM $pids' TERM
for local in $(seq 0 $((PER_HOST - 1))); do
    RANK=$((HOST_INDEX * PER_HOST + local)) LOCAL_RANK=$local "$@" & pids="$pids $!"
done
status=0
for pid in $pids; do
    until wait $pid; ended=$?; [ $ended -le 128 ] || ! kill -0 $pid 2>/dev/null; do :; done
    [ $ended = 0 ] || status=$ended
done
exit $status
"""


def missing():
    """Why there can be no hosts here; empty: there can."""
    if os.geteuid() != 0:
        return "needs root: hosts are namespaces with mounts of their own"
    if not os.path.exists("/dev/fuse"):
        return "no /dev/fuse: the dump directory of several hosts is served through it"
    tried = subprocess.run(["unshare", "--net", "--uts", "--mount", "--pid", "--time", "--fork", "--mount-proc",
                            "--monotonic", "1", "mount", "--bind",
                            "/dev/null", "/proc/sys/kernel/random/boot_id"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"the kernel forbids namespaces: {tried.stderr.strip()}"


class Hosts:
    """`clocks`: by how many seconds the clock of the day of each host is off."""

    def __init__(self, place, names, per_host, clocks=None):
        self.place, self.names, self.per_host = place, names, per_host
        self.clocks = clocks or [0] * len(names)
        self.ran = []
        self.control = place.path / "control"
        self.shared = place.path / "shared"
        self.server_is("fast")
        self.shared.mkdir(exist_ok=True)
        for name in names:
            (place.tmp / name).mkdir(exist_ok=True)
            (place.path / f"boot-{name}").write_text(f"{uuid.uuid4()}\n")

    def server_is(self, word):
        """fast, hang, gone, or milliseconds for each operation; for all hosts, from now on."""
        new = self.control.with_suffix(".new")
        new.write_text("" if word == "fast" else f"{word}\n")
        new.rename(self.control)

    def env(self, index, **settings):
        name = self.names[index]
        clock = self.place.path / f"clock-{name}"
        clock.write_bytes(struct.pack("ll", self.clocks[index], 0))
        of_host = dict(
            HOST=name, HOST_INDEX=index, PER_HOST=self.per_host, PYTHON=sys.executable,
            SERVER=pathlib.Path(__file__).with_name("fuse_directory.py"), BACKING=self.place.dumps, SHARED=self.shared,
            CONTROL=self.control,
            MEMORY=self.place.rings, RINGS=self.place.path / "rings", BOOT_ID=self.place.path / f"boot-{name}",
            TMPDIR=self.place.tmp / name,
            TITANTRACE_RING_DIR=self.place.path / "rings", TITANTRACE_DIR=self.shared, TITANTRACE_RUN_ID=None,
            WORLD_SIZE=self.per_host * len(self.names), LOCAL_WORLD_SIZE=self.per_host, MASTER_ADDR=self.names[0],
            MASTER_PORT=29500,
            SIMGPU_RENDEZVOUS=self.place.meet, SIMGPU_JOB_PID=1, SIMGPU_HOST_INDEX=index,
            SIMGPU_DIR=harness.stand_ins(),
            JUMPING_CLOCK=clock, LD_PRELOAD=harness.client("libjumping_clock.so"),
            OMP_NUM_THREADS=1)
        return self.place.env(preload=False, **{**of_host, **settings})

    def start(self, command, of_host=None, **settings):
        """The command on each host, as its first process. `of_host`: settings of one, by its index."""
        (self.place.path / "rings").mkdir(exist_ok=True)
        for index in range(len(self.names)):
            # As after boots at different times.
            boot = ["--time", "--monotonic", str(1000 * index), "--boottime", str(1000 * index)]
            self.ran.append(self.place.start(["unshare", "--net", "--uts", "--mount", "--pid", "--fork",
                                              "--kill-child", "--mount-proc", *boot, "sh", "-c", ENTER,
                                              "sh", *command],
                                             self.env(index, **{**settings, **(of_host or {}).get(index, {})})))
        return self.ran

    def any_ended(self):
        return any(ran.status is not None for ran in self.ran)

    def first_process(self, index):
        children = pathlib.Path(f"/proc/{self.ran[index].pid}/task/{self.ran[index].pid}/children").read_text().split()
        return int(children[0])

    def on_host(self, index, *command):
        """Runs something beside the job."""
        return self.place.run(["nsenter", "--target", str(self.first_process(index)), "--mount", "--uts", "--pid",
                               "--net", *command],
                              self.env(index, LD_PRELOAD=None), 60)

    def signal(self, index, number):
        """To the first process of the host, as a kubelet or slurmd sends it; to none where the job has ended by itself,
        as it may once another host's ranks are gone."""
        try:
            os.kill(self.first_process(index), number)
        except (IndexError, FileNotFoundError, ProcessLookupError):
            self.ran[index].wait(30)


def titan_run(*options):
    return [str(word) for word in (harness.BUILD / "tools" / "titan-run", *options, "--", "sh", "-c", LAUNCHER, "sh")]


def simulated_job(steps, *options):
    return [str(word)
            for word in (harness.stand_ins() / "titan-sim", "--tp", "2", "--steps", steps, "--step-ms", "2", *options)]
