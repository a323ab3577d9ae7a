"""JAX of two processes on one real GPU."""

import os
import socket
import subprocess

import harness
import machine
from place import Skipped, expect, last_words

CULPRIT, PROCESSES = 1, 2


def python_with_jax(setup):
    if setup.simulated:
        raise Skipped("tests/jax runs JAX on the simulated GPU")
    for python in machine.pythons():
        if subprocess.run([python, "-c", "import jax; assert jax.devices('gpu')"], capture_output=True,
                          env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, check=False).returncode == 0:
            return python
    raise Skipped("no JAX that sees a GPU")


def start(place, python, fault="none", preload=True):
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]
    env = place.env(preload, LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH"), XLA_PYTHON_CLIENT_PREALLOCATE="false",
                    PSUM_SHARED_DEVICE=0, TITANTRACE_TIMEOUT_S=6, **machine.SOCKETS)
    return [place.start([python, harness.ROOT / "tests" / "jax" / "psum.py", process, PROCESSES, 1, port, fault],
                        {**env, "RANK": str(process), "WORLD_SIZE": str(PROCESSES), "LOCAL_RANK": str(process),
                         "NCCL_HOSTID": f"gpu-check-{process}"}) for process in range(PROCESSES)]


def ended(jobs):
    for job in jobs:
        expect(job.wait(25) == 0, f"a process ended with {job.status}: {last_words(job)}")
    return [job.stdout for job in jobs]


def check_jax(setup):
    """a JAX program of two processes: same results, and its hang is named"""
    python = python_with_jax(setup)
    try:
        plain = ended(start(setup.place(), python, preload=False))
    except AssertionError as why:
        setup.end_programs()
        raise Skipped(f"two processes of JAX do not share this GPU without us either: {why}") from None
    traced = ended(start(setup.place(), python))
    expect(traced == plain and "step 3" in plain[0], f"with the preload: {traced}; without: {plain}")
    place = setup.place()
    start(place, python, "loader")
    harness.wait_for(lambda: place.dumped_ranks() == set(range(PROCESSES)), 20, "all processes dump")
    verdict = place.analyze(place.dumps).json["verdict"]
    expect(verdict and (verdict["kind"], verdict["ranks"]) == ("rank_not_arrived", [CULPRIT]),
           f"the verdict: {verdict}")
    return {"summary": verdict["summary"], "confidence": verdict["confidence"]}
