#!/usr/bin/env python3
"""Whole jobs of titan-sim: healthy ones in every layout, each fault of the script, and what a job leaves behind.

    test_jobs.py BUILD_DIR      (the directory with titan-sim and the libraries)
"""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HUNG = "hung"  # after its fault, until it is ended
TIMED_OUT = 124
HANGS_S = 1  # what has not ended this long after its fault hangs
GRID = "--ranks 8 --tp 2 --pp 2 --steps 6 --step-ms 1"
SMALL = "--ranks 4 --tp 2 --steps 6 --step-ms 1"

# options, faults, expected status
CASES = [
    ("--ranks 1 --steps 3", "", 0),
    ("--ranks 2 --steps 3 --checkpoint-every 1", "", 0),
    (GRID, "", 0),
    (GRID + " --use-split --bytes 200k", "", 0),
    (GRID + " --hosts 2 --gradients allreduce", "", 0),
    (SMALL + " --threads", "", 0),
    (GRID + " --threads --use-split", "", 0),
    ("--ranks 16 --tp 4 --pp 2 --steps 3", "", 0),
    (SMALL, "sleep rank=1 step=2-3 ms=100", 0),
    (SMALL, "skip rank=3 comm=dp step=3", HUNG),
    (SMALL, "skip rank=3 comm=tp seq=7", HUNG),
    (SMALL, "extra rank=3 comm=dp step=3", HUNG),
    (SMALL, "other rank=2 comm=tp step=3 kind=allgather", HUNG),
    (SMALL, "count rank=2 comm=tp step=3 factor=0.5", HUNG),
    (SMALL, "dtype rank=2 comm=tp step=3 type=float64", HUNG),
    (SMALL + " --fail-fast", "redop rank=2 comm=dp step=3 op=max", 3),
    (SMALL + " --checkpoint-every 1", "root rank=3 comm=world step=3 nth=1 root=2", HUNG),
    (SMALL, "swap rank=1 comm=dp step=3 nth=1 with=world", HUNG),
    (GRID, "skip rank=0 comm=pp step=2", HUNG),
    (SMALL, "spin rank=1 step=3", HUNG),
    (SMALL, "hang-kernel rank=1 comm=tp step=3", HUNG),
    (SMALL, "hang-copy rank=1 comm=tp step=3", HUNG),
    (SMALL, "hang-event rank=1 comm=tp step=3", HUNG),
    (SMALL, "hang-host rank=1 comm=dp step=3", HUNG),
    (SMALL, "graph-eager rank=1 comm=tp step=3", HUNG),
    (SMALL, "stuck rank=1 comm=tp step=3", HUNG),
    (SMALL, "stuck-channel rank=1 comm=tp step=3", HUNG),
    (GRID + " --graphs", "", 0),
    (SMALL + " --graphs --threads", "", 0),
    (GRID + " --graphs --hosts 2 --gradients allreduce --work-ms 1 --kernels 20", "", 0),
    (SMALL + " --graphs", "sleep rank=1 comm=tp step=3 ms=50", 0),
    (SMALL + " --graphs", "graph-skip rank=1 step=3", HUNG),
    (SMALL + " --graphs", "skip rank=3 comm=dp step=3", HUNG),
    (SMALL + " --graphs", "hang-kernel rank=1 comm=tp step=3", HUNG),
    (SMALL + " --graphs", "hang-event rank=1 comm=tp seq=10", HUNG),
    (SMALL + " --graphs", "stuck rank=1 comm=tp step=3", HUNG),
    (SMALL + " --graphs", "graph-eager rank=1 comm=tp step=3", 2),
    (SMALL, "graph-skip rank=1 step=3", 2),
    (SMALL, "no-init rank=1 comm=dp", HUNG),
    (SMALL + " --use-split", "no-init rank=1 comm=tp", HUNG),
    (SMALL + " --threads", "skip rank=3 comm=dp step=3", HUNG),
    (SMALL + " --fail-fast", "kill rank=1 step=3", 137),
    (SMALL + " --fail-fast", "segv rank=1 step=3", 139),
    (SMALL + " --fail-fast", "exit rank=1 step=3 code=9", 9),
    (SMALL + " --fail-fast", "async-error rank=1 comm=tp step=3", 4),
    (SMALL + " --hang-timeout-s 0.5", "skip rank=3 comm=dp step=3", 5),
    ("--ranks 2 --steps 100000 --timeout-s 1", "", TIMED_OUT),
    (SMALL, "skip rank=3", 2),
    (SMALL, "bogus", 2),
    ("--ranks 5 --tp 2", "", 2),
]

failures = []


def check(condition, text):
    if not condition:
        failures.append(text)
        print("FAILED:", text)


def environment(build, faults=""):
    env = dict(os.environ, SIMGPU_FAULTS=faults, LD_LIBRARY_PATH=str(build))
    for name in ("SIMGPU_RENDEZVOUS", "SIMGPU_JOB_PID", "SIMGPU_DEVICES", "SIMGPU_FAULT_FILE"):
        env.pop(name, None)
    return env


def end_a_hang(job, faults):
    """Whether the job hangs after its fault, and what it said."""
    said = ""
    for line in job.stdout:
        said += line
        if f"fault: {faults}" in line:
            break
    time.sleep(HANGS_S)
    hangs = job.poll() is None
    job.terminate()
    return hangs, said


def run_case(build, scratch, case):
    options, faults, expected = case
    limit = [] if "--timeout-s" in options else ["--timeout-s", "100"]
    env = dict(environment(build, faults), TMPDIR=scratch)
    job = subprocess.Popen(
        [build / "titan-sim", *options.split(), *limit],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    hangs, output = end_a_hang(job, faults) if expected == HUNG else (False, "")
    output += job.communicate()[0]
    left = [name for name in os.listdir("/dev/shm") if name.startswith(f"simgpu-{os.getuid()}-{job.pid}-")]
    got = HUNG if hangs and job.returncode == 128 + signal.SIGTERM else job.returncode
    check(got == expected,
          f"titan-sim {options} with '{faults}': status {job.returncode}, expected {expected}\n{output}")
    check(not left, f"titan-sim {options} with '{faults}' left {left}")
    if faults and expected not in (0, 2):
        check(f"fault: {faults}" in output, f"the fault '{faults}' was not announced:\n{output}")


def test_static(build, scratch):
    """Programs with static libraries: the same job, and nothing of CUDA or NCCL to stand in front of."""
    for name, foreign in (("titan-sim-static-cudart", r"\bcuda\w+"), ("titan-sim-static-nccl", r"\b(cuda|nccl)\w+")):
        symbols = subprocess.run(["nm", "-D", build / name], capture_output=True, text=True).stdout
        check(not re.findall(foreign, symbols), f"{name} shows {set(re.findall(foreign, symbols))}")
        job = subprocess.run([build / name, *SMALL.split(), "--timeout-s", "100"], capture_output=True, text=True,
                             env=dict(environment(build), TMPDIR=scratch))
        check(job.returncode == 0, f"{name}: status {job.returncode}\n{job.stderr}")


def test_nvtx(build, scratch):
    """NVTX gets the ranges of NCCL's calls, in its own domain, and those of the training loop."""
    injection = build / "libsimgpu_nvtx_injection.so"
    if not injection.exists():
        print("NVTX: not tested, the toolkit has no nvtx3 headers")
        return
    log = pathlib.Path(scratch) / "nvtx.log"
    env = dict(environment(build), TMPDIR=scratch, NVTX_INJECTION64_PATH=str(injection), SIMGPU_NVTX_LOG=str(log))
    options = "--ranks 2 --steps 1 --checkpoint-every 1 --nvtx"
    job = subprocess.run([build / "titan-sim", *options.split()], env=env)
    lines = log.read_text().splitlines()
    check(job.returncode == 0, f"titan-sim --nvtx: status {job.returncode}")
    counts = {line: lines.count(line) for line in lines}
    for line, count in (("push forward", 2), ("push backward", 2), ("mark checkpoint", 2),
                        ("push NCCL:ncclReduceScatter", 2), ("push NCCL:ncclBroadcast", 2)):
        check(counts.get(line) == count, f"NVTX: {counts.get(line)} times '{line}', expected {count}")
    pushes = sum(count for line, count in counts.items() if line.startswith("push"))
    check(counts.get("pop ") == pushes, f"NVTX: {pushes} pushes, {counts.get('pop ')} pops")


def test_signals(build, scratch):
    """The launcher forwards signals; a killed launcher takes its ranks along."""
    pid_file = pathlib.Path(scratch) / "pids"
    command = [build / "titan-sim", "--ranks", "4", "--steps", "100000", "--pid-file", str(pid_file)]
    job = subprocess.Popen(command, env=dict(environment(build), TMPDIR=scratch), stderr=subprocess.PIPE, text=True)
    pids = wait_for_pids(pid_file, 4)
    os.kill(pids[2], signal.SIGKILL)
    time.sleep(0.3)
    check(job.poll() is None, "one dead rank ended the job without --fail-fast")
    job.send_signal(signal.SIGTERM)
    output = job.communicate(timeout=20)[1]
    check(job.returncode == 137, f"a killed rank decides the status, not {job.returncode}: {output}")
    check("rank 0" in output and "signal 15" in output, f"ranks did not get SIGTERM: {output}")
    pid_file.unlink()
    job = subprocess.Popen(command, env=dict(environment(build), TMPDIR=scratch), stderr=subprocess.DEVNULL)
    pids = wait_for_pids(pid_file, 4)
    job.kill()
    job.wait()
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in pids.values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    check(not any(alive(pid) for pid in pids.values()), "ranks outlived their launcher")


def wait_for_pids(path, count):
    """Of ranks that run the program already, not still the launcher's copy of itself."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists():  # renamed to this name when it is whole
            pids = dict(tuple(map(int, line.split())) for line in path.read_text().splitlines())
            if all(b"SIMGPU_RENDEZVOUS" in pathlib.Path(f"/proc/{pid}/environ").read_bytes() for pid in pids.values()):
                check(len(pids) == count, f"{len(pids)} ranks of {count}")
                return pids
        time.sleep(0.02)
    sys.exit("no pid file, or no ranks")


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone, or gone between open and read
        return False


def test_elf(build):
    """What makes the libraries stand-ins: sonames, names, and no link between NCCL and CUDA."""
    for name in ("libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnccl.so.2"):
        dynamic = subprocess.run(["readelf", "-d", build / name], capture_output=True, text=True).stdout
        check(f"soname: [{name}]" in dynamic, f"{name}: wrong soname\n{dynamic}")
        needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
        check(not any("cuda" in other for other in needed), f"{name} needs {needed}")
    symbols = subprocess.run(["nm", "-D", "--defined-only", build / "libnccl.so.2"], capture_output=True,
                             text=True).stdout
    table = {line.split()[2]: line.split()[:2] for line in symbols.splitlines()}
    plain = [name for name in table if name.startswith("nccl")]
    check(len(plain) > 90, f"only {len(plain)} NCCL functions")
    for name in plain:
        address, kind = table[name]
        check(kind == "W" and table.get("p" + name) == [address, "T"], f"{name} is not weak beside a strong p{name}")
    relocations = subprocess.run(["readelf", "-rW", build / "libnccl.so.2"], capture_output=True, text=True).stdout
    for name in ("ncclBroadcast", "ncclGetUniqueId"):
        check(re.search(rf"JUMP_SLO.*\b{name}\b", relocations), f"{name} is not called through the PLT")
    # NVIDIA's runtime calls its own functions without the dynamic linker: __cudaLaunchKernel jumps into
    # cudaLaunchKernel.
    for library in ("libcudart.so.12", "libcudart.so.13"):
        relocations = subprocess.run(["readelf", "-rW", build / library], capture_output=True, text=True,
                                     check=True).stdout
        check(not re.search(r"JUMP_SLO.*\b_*cuda[A-Z]", relocations), f"{library} calls itself through the PLT")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    test_elf(build)
    with tempfile.TemporaryDirectory() as scratch:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda case: run_case(build, scratch, case), CASES))
        test_static(build, scratch)
        test_nvtx(build, scratch)
        test_signals(build, scratch)
        left = [name for name in os.listdir(scratch) if name.startswith("titan-sim-")]
        check(len(left) <= 1, f"directories left behind: {left}")  # of the launcher that was killed
    print(f"{len(CASES)} jobs, {len(failures)} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
