#!/usr/bin/env python3
"""Writes the files of a directory of golden files with this build: README.md says when.

make.py [--build-dir DIR] INTO
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("e2e", "fuzz")]
sys.dont_write_bytecode = True
import harness  # noqa: E402
import make_corpus  # noqa: E402
from test_health import WELL, nvml  # noqa: E402

RUN = "golden"
# The smallest rings: what is expected of each line of them is kept.
SMALL = {f"TITANTRACE_{ring}": 64 for ring in ("COLLECTIVES", "CUDA_CALLS", "MARKERS", "STREAM_WORK")}
MARKERS = """
import asyncio
import titantrace as t
t.label("role", "trainer")
t.step(41)
t.step(42, relative_step=2)
t.step_tag("eval")
with t.span("forward", microbatch=1, scale=0.5, kind="train"):
    t.metric("loss", 2.5, reduce="mean", weight=8)
    t.metric("nan", float("nan"))
try:
    with t.span("backward"):
        raise ValueError("no data")
except ValueError:
    pass
t.event("checkpoint saved", path="/x", bytes=7)
async def one(n):
    with t.span("rollout", n=n):
        await asyncio.sleep(0.01 * n)
async def both():
    await asyncio.gather(one(2), one(1))
asyncio.run(both())
t.span("items").__enter__()
t.dump("markers of every kind")
"""


def job(place, *options, **settings):
    """Two ranks of train.py, with all that can be recorded."""
    readings = place.path / "nvml"
    readings.write_text("".join(f"{gpu} {key} {value}\n" for gpu in range(2) for key, value in WELL.items()))
    settings = {**SMALL, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "TITANTRACE_RUN_ID": RUN,
                "SIMTRAIN_STORE": place.path / "store", "SIMGPU_DIR": harness.stand_ins(), "SIMGPU_NVML": readings,
                "LD_LIBRARY_PATH": f"{harness.stand_ins()}:{nvml()}", "TITANTRACE_HEALTH_S": 0.2, **settings}
    train = [sys.executable, harness.ROOT / "tests/simgpu/train.py", "--steps", "100000", "--checkpoint-every", "3"]
    return [place.start([*train, *options], place.env(RANK=rank, LOCAL_RANK=rank, **settings)) for rank in range(2)]


def dumps_of_a_hang(place, into):
    """In one process of a node: calls, also captured and replayed ones, and all around them."""
    job(place, "--graphs", SIMGPU_FAULTS="sleep rank=1 step=4 ms=600000", TITANTRACE_TIMEOUT_S=2,
        TITANTRACE_STACKS="collective", TITANTRACE_STACK_SAMPLES_S=0.5, TITANTRACE_NCCL_PLUGIN="progress")
    harness.wait_for(lambda: len(place.dump_files(RUN)) == 2, 30, "a dump of each rank")
    shutil.copytree(place.dumps / RUN / "0", into / "dumps", ignore=lambda _, names: {
        name for name in names if not name.endswith(".titan")})
    done = subprocess.run([harness.BUILD / "analyzer/titan-analyze", "digest", into / "dumps", "--no-rings",
                           "--output", into / "digests" / "node.digest"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def ring_of_a_dead(place, into):
    ranks = job(place, SIMGPU_FAULTS="kill rank=1 step=2", TITANTRACE_DUMP_ON="none")
    ranks[1].wait()
    ring, = (path for path in place.ring_files() if path.name.startswith(f"{ranks[1].pid}-"))
    (into / "ring").mkdir()
    (into / "ring" / ring.name).write_bytes(make_corpus.shrunk(ring.read_bytes()))


def markers(place, into):
    done = place.run([sys.executable, "-c", MARKERS],
                     place.env(RANK=0, WORLD_SIZE=1, TITANTRACE_RUN_ID=RUN, TITANTRACE_JOURNAL_MIB=32, **SMALL,
                               TITANTRACE_JOURNAL_S=0.2, PYTHONPATH=harness.ROOT / "python"))
    assert done.status == 0, done.stderr
    for name in ("markers", "journal"):
        (into / name).mkdir()
        for path in (place.dumps / RUN / "0").glob("*.titan" if name == "markers" else "*.journal"):
            shutil.copy(path, into / name)


def steps(place, into):
    """A job that ended well, of which the journal alone is left: an index, sums of steps, readings of the machine."""
    readings = {"TITANTRACE_JOURNAL_MIB": 32, "TITANTRACE_JOURNAL_S": 3600, "TITANTRACE_DUMP_ON": "none"}
    for rank in job(place, "--steps", "6", **readings):
        assert rank.wait() == 0, rank.stderr
    (into / "steps").mkdir()
    for path in (place.dumps / RUN / "0").glob("*.journal"):
        shutil.copy(path, into / "steps")


def main():
    arguments = sys.argv[1:]
    build = harness.ROOT / "build"
    if arguments[:1] == ["--build-dir"]:
        build, arguments = pathlib.Path(arguments[1]).resolve(), arguments[2:]
    harness.BUILD = build
    into = pathlib.Path(arguments[0])
    (into / "digests").mkdir(parents=True)
    for write in (dumps_of_a_hang, ring_of_a_dead, markers, steps):
        place = harness.Place()
        try:
            write(place, into)
        finally:
            place.close()
    os.chmod(into / "digests", 0o755)


if __name__ == "__main__":
    main()
