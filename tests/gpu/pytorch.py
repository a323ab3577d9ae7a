"""Real PyTorch under torchrun; against the simulated GPU the same with tests/simgpu/train.py, which trains on it."""

import os
import signal
import subprocess

import harness
import machine
from checks import collectives
from place import Skipped, expect, last_words
from test_torchrun import python_ranks


def check_pytorch(setup):
    """DistributedDataParallel under torchrun: a dump on SIGUSR1, nothing found, and the job goes on"""
    python, versions = pytorch_of(setup)
    # PyTorch brings its own NCCL, which may share a GPU in another way than the one that the other checks run on.
    nccl = machine.version_number(setup.described["pytorch"]["nccl"]) if setup.described["pytorch"] else setup.info[
        "nccl"]
    ways = machine.ways_to_share(nccl, setup.ranks, setup.info["gpus"]) if setup.way else []
    reasons = []
    for size, way in [*((setup.ranks, way) for way in ways), (1, ("alone", {}, None))]:
        try:
            figures = train(setup, python, size, way)
            return {"ranks": size, "way": way[0], **versions, **figures, "tried_before": reasons}
        except AssertionError as why:
            reasons.append(f"{size} ranks, {way[0]}: {why}")
            setup.end_programs()
    raise AssertionError("; ".join(reasons))


def pytorch_of(setup):
    if not setup.simulated:
        python, found = machine.find_pytorch(dict(os.environ))
        if python is None:
            raise Skipped(f"no PyTorch with CUDA: {found}")
        setup.described["pytorch"] = found
        return python, {}
    question = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    for python in machine.pythons():
        if subprocess.run([python, "-c", question], check=False).returncode == 0:
            return python, {"program": "tests/simgpu/train.py"}
    raise Skipped("no PyTorch here (scripts/setup installs it)")


def all_train(place, size):
    try:
        return len(place.ring_files()) == size and all(len(place.show(place.rings, "--rank", rank)) > 50
                                                       for rank in range(size))
    except AssertionError:
        return False  # a ring that is only being made


def train(setup, python, size, way):
    place = setup.place()
    if setup.simulated:
        program = [harness.ROOT / "tests" / "simgpu" / "train.py", "--steps", "100000", "--step-ms", "2"]
        settings = {"SIMGPU_DIR": harness.stand_ins(), "LD_LIBRARY_PATH": None, "SIMGPU_DEVICES": None}
    else:
        program = [harness.ROOT / "tests" / "gpu" / "train_ddp.py"]
        settings = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH"), **way[1]}
        if size > 1 and way[2](0):
            settings["GPU_CHECK_NODE_PER_RANK"] = 1
    job = place.start([python, "-m", "torch.distributed.run", f"--nproc-per-node={size}", "--rdzv-backend=c10d",
                       "--rdzv-endpoint=localhost:0", *program], place.env(OMP_NUM_THREADS=1, **settings))
    harness.wait_for(lambda: job.status is not None or all_train(place, size), 90, f"{size} ranks train")
    expect(job.status is None, f"torchrun ended with {job.status}: {last_words(job)}")
    os.kill(python_ranks(job.pid)[size - 1], signal.SIGUSR1)
    harness.wait_for(lambda: place.dumped_ranks() == set(range(size)), 20, "all ranks dump")
    analysis = place.analyze(place.dumps)
    expect(analysis.status == harness.HEALTHY,
           f"a healthy job, and titan-analyze says: {analysis.stdout}{analysis.stderr}")
    calls = collectives(place.show(place.dumps))
    finished = sum(call["on_gpu"] == "finished" for call in calls)
    expect(finished > len(calls) / 2, f"only {finished} of {len(calls)} all_reduces are known to have finished")
    expect(job.status is None, "the job did not survive the dump")
    if not setup.simulated:
        place.go()
        expect(job.wait(60) == 0, f"torchrun ended with {job.status}: {last_words(job)}")
        expect("trained" in job.stdout, f"the training did not come to its end: {last_words(job)}")
    return {"all_reduces": len(calls), "finished": finished}
