#!/usr/bin/env python3
"""Containers as they are: a /dev/shm of 64 MiB over three attempts, RuntimeDefault's seccomp filter, a read-only root,
another user, a PID namespace, limits. Each is a real namespace or filter; a healthy job is unharmed, the end of a rank
is found."""

import os
import platform
import shlex
import subprocess
import sys
import unittest

import harness

VICTIM = 3
RANKS = 8

# Runs a command whose system calls of the given numbers fail with EPERM: classic BPF on seccomp_data.nr.
DENY = """
import ctypes, os, struct, sys
split = sys.argv.index("--")
denied = [int(number) for number in sys.argv[1:split]]
LOAD_NR, IF_EQUAL, RETURN, ALLOW, EPERM = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050001
code = struct.pack("<HBBI", LOAD_NR, 0, 0, 0)
for index, number in enumerate(denied):
    code += struct.pack("<HBBI", IF_EQUAL, len(denied) - index, 0, number)
code += struct.pack("<HBBI", RETURN, 0, 0, ALLOW) + struct.pack("<HBBI", RETURN, 0, 0, EPERM)
memory = ctypes.create_string_buffer(code)
program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(memory))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
    sys.exit(f"no seccomp filter: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[split + 1], sys.argv[split + 1:])
"""
PROCESS_VM_READV, PROCESS_VM_WRITEV = 310, 311  # x86-64

# The test's directory and this checkout stay where they are, /dev/shm and the rest of /tmp are the container's own.
CONTAINER = """
set -e
mount -t tmpfs -o size=$SHM,mode=1777 shm /dev/shm
mkdir "$PLACE/private-tmp"
mount -t tmpfs -o mode=1777 tmp "$PLACE/private-tmp"
for kept in "$PLACE" "$CHECKOUT" "$BUILD"; do
    inside=$PLACE/private-tmp/${kept#/tmp/}
    [ "$kept" = "${kept#/tmp/}" ] || { mkdir -p "$inside"; mount --bind "$kept" "$inside"; }
done
mount --move "$PLACE/private-tmp" /tmp
[ -z "$READ_ONLY" ] || mount -o remount,bind,ro /
set +e
"""
# Jobs of eight ranks, one after another, in each of which one is killed; the others are killed once all dumps are
# there.
ATTEMPTS = """
for attempt in 0 1 2; do
    [ -z "$COUNTED" ] || export TORCHELASTIC_RESTART_COUNT=$attempt
    $JOB >"$PLACE/job.log" 2>&1 &
    tries=0
    dumps() { find "$TITANTRACE_DIR" -name 'rank*.titan' | wc -l; }
    while [ "$(dumps)" -lt $((RANKS * (attempt + 1))) ] && [ $tries -lt 400 ]; do
        sleep 0.1; tries=$((tries + 1))
    done
    [ $tries -lt 400 ] || { ls -l /proc/[0-9]*/exe /dev/shm/*; tail -n 40 "$PLACE/job.log"; } >&2
    sleep 0.5
    dumps=$(find "$TITANTRACE_DIR" -name 'rank*.titan' | wc -l)
    pages=$(find /dev/shm /tmp/titantrace-* -name "*.job" -newer "$PLACE/started" 2>/dev/null | wc -l)
    used=$(df --output=used -k /dev/shm | tail -1)
    kill -9 -1
    wait
    rm -f /dev/shm/simgpu-*
    echo "$attempt: $dumps dumps, $pages page, $((used / 1024)) MiB"
done
"""


def why_no_namespaces():
    if os.geteuid() != 0:
        return "needs root: mounts a /dev/shm of its own"
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "mount", "-t", "tmpfs", "none",
                           "/mnt"],
                          capture_output=True, text=True)
    return "" if done.returncode == 0 else f"the kernel forbids namespaces: {done.stderr.strip()}"


NO_NAMESPACES = why_no_namespaces()


@unittest.skipIf(NO_NAMESPACES, NO_NAMESPACES)
class Containers(harness.Case):
    def container(self, script, limit_s=120, shm="64m", preload=True, under=(), read_only=False, **settings):
        """Runs the script as process 1 of a container; `under`: a command that runs what is given to it."""
        (self.place.path / "started").touch()
        env = self.place.env(preload=False, TITANTRACE_RING_DIR="/dev/shm", SHM=shm, PLACE=self.place.path,
                             CHECKOUT=harness.ROOT, BUILD=harness.BUILD, READ_ONLY="1" if read_only else "",
                             RANKS=RANKS, **settings)
        if preload:
            script = f"export LD_PRELOAD={shlex.quote(str(harness.tracer()))}\n{script}"
        inner = shlex.join([*under, "sh", "-c", script])
        return self.place.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private",
                               "sh", "-c",
                               f"{CONTAINER}\n{inner}\n"], env, limit_s)

    def job(self, steps, *options):
        return shlex.join(
            [str(word) for word in (harness.stand_ins() / "titan-sim", "--ranks", RANKS, "--tp", "2", "--steps", steps,
                                    "--step-ms", "2", *options)])

    def test_three_attempts_in_64_mib(self):
        """Room for the rings of one attempt: the next one is one job, too, and leaves NCCL its room."""
        for counted in ("1", ""):
            with self.subTest(counted=counted):
                self.place = self.new_place()
                ran = self.container(ATTEMPTS, JOB=self.job(1000000), SIMGPU_FAULTS=f"kill rank={VICTIM} step=5",
                                     COUNTED=counted,
                                     TITANTRACE_TIMEOUT_S=0)
                lines = ran.stdout.splitlines()
                self.assertEqual([line.split(" page")[0] for line in lines],
                                 [f"{attempt}: {RANKS * (attempt + 1)} dumps, {attempt + 1 if counted else 1}"
                                  for attempt in range(3)])
                for line in lines:
                    self.assertLess(int(line.split(", ")[2].split()[0]), 48, line)

    def expect_unharmed(self, **container):
        """A healthy job: same words, same status, no dump. Then one of which a rank is killed."""
        healthy = self.job(10)
        plain = self.container(f"{healthy}; echo status $?", preload=False, **container)
        self.place = self.new_place()
        traced = self.container(f"{healthy}; echo status $?; ls /dev/shm/titantrace-*", **container)
        self.assertTrue(plain.stdout.endswith("status 0\n"), plain.stdout + plain.stderr)
        self.assertEqual((traced.status, traced.stdout), (0, plain.stdout), "no ring stays")
        self.assertEqual(self.place.dump_files(), [], "no dump")
        return traced

    def expect_a_dead_rank_found(self, **container):
        self.place = self.new_place()
        wait = ("n=0; while "
                f"[ $(ls $TITANTRACE_DIR/e2e/0 | grep -c titan$) -lt {RANKS} ] && [ $n -lt {300 * harness.PATIENCE} ]; "
                "do sleep 0.1; n=$((n + 1)); done")
        self.container(f"{self.job(1000000)} & {wait}; sleep 0.5", SIMGPU_FAULTS=f"kill rank={VICTIM} step=5",
                       TITANTRACE_TIMEOUT_S=0,
                       **container)
        analysis = self.place.analyze(self.place.dumps)
        self.assertEqual(analysis.status, harness.FINDINGS, analysis.stderr)
        self.assertEqual((analysis.json["verdict"]["kind"], analysis.json["verdict"]["ranks"]), ("rank_dead", [VICTIM]))

    def test_of_its_own_processes(self):
        self.expect_unharmed()
        self.expect_a_dead_rank_found()

    def test_read_only_root(self):
        self.expect_unharmed(read_only=True)
        self.expect_a_dead_rank_found(read_only=True)

    @unittest.skipUnless(platform.machine() == "x86_64", "the filter knows the numbers of x86-64 only")
    def test_runtime_default_seccomp(self):
        under = [sys.executable, "-c", DENY, PROCESS_VM_READV, PROCESS_VM_WRITEV, "--"]
        under = [str(word) for word in under]
        denied = subprocess.run([*under, sys.executable, "-c",
                                 "import ctypes; print(ctypes.CDLL(None).process_vm_readv(0, 0, 0, 0, 0, 0))"],
                                capture_output=True, text=True)
        if denied.stdout != "-1\n":
            self.skipTest(f"no filter to be had: {denied.stderr.strip()}")
        self.expect_unharmed(under=under)
        self.expect_a_dead_rank_found(under=under)

    def test_another_user(self):
        user = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]
        seen = subprocess.run([*user, harness.stand_ins() / "titan-sim", "--help"], capture_output=True, text=True)
        if seen.returncode != 0:
            self.skipTest(f"the build directory is not for other users: {seen.stderr.strip()}")
        open_to_all = "chmod -R a+rwX $PLACE; "
        for check in (self.expect_unharmed, self.expect_a_dead_rank_found):
            check(under=["sh", "-c", f'{open_to_all} exec {shlex.join(user)} "$@"', "sh"])


class Limits(harness.Case):
    def test_limits(self):
        """Few descriptors, no locked memory, small files, little address space, small stacks: a healthy rank is
        unharmed."""
        for limits in ("-n 32", "-l 0", "-f 6000", "-v 1000000", "-s 512"):
            with self.subTest(limits=limits):
                command = ["sh", "-c", f'ulimit {limits} && exec "$@"', "sh", harness.client("e2e-nccl-use"), "healthy"]
                traced = self.same_but_for_the_tracer(command, RANK=0, WORLD_SIZE=1, LOCAL_RANK=0)
                self.assertEqual(traced.stdout, "done\n", traced.stderr)
                self.assertEqual(self.place.dump_files(), [])


if __name__ == "__main__":
    harness.main()
