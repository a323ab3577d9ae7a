"""A program of programs/ under real torchrun, on the simulated node and under the preload."""
import pathlib

import harness

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
PYTHON = harness.ROOT / ".venv-pytorch" / "bin" / "python"
TORCHRUN = PYTHON.with_name("torchrun")
STAND_INS = ("libcudart.so.13", "libcuda.so.1", "libnccl.so.2", "libsimgpu_math.so")
CULPRIT, RANKS = 1, 4


def environment(place, preload=True, **settings):
    libraries = [str(harness.tracer())] if preload else []
    libraries += [str(harness.stand_ins() / name) for name in STAND_INS]
    return place.env(preload=False, LD_PRELOAD=":".join(libraries), OMP_NUM_THREADS="1",
                     PYTHONPATH=harness.ROOT / "python", **settings)


def start(place, program, *arguments, preload=True, torchrun=(), ranks=RANKS, **settings):
    """In `place`, a harness.Place; `torchrun`: options of torchrun."""
    return place.start(
        [TORCHRUN, f"--nproc-per-node={ranks}", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", *torchrun,
         PROGRAMS / f"{program}.py", *arguments],
        environment(place, preload, **settings))
