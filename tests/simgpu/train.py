"""A training program on simulated GPUs, in Python, for torchrun:

    torchrun --nproc-per-node=4 tests/simgpu/train.py --steps 10 --tp 2

The NCCL and CUDA calls are made by libsimtrain.so, which is loaded RTLD_LOCAL as PyTorch loads its own libraries. The
ranks themselves do without PyTorch: its build with CUDA brings the real libnccl and libcudart, whose sonames our
stand-ins have. Faults come from SIMGPU_FAULTS or SIMGPU_FAULT_FILE, as for titan-sim; exit statuses are titan-sim's.
The library is looked for in --lib, $SIMGPU_DIR, and the usual build directories.
"""

import argparse
import ctypes
import os
import pathlib
import shutil
import sys
import tempfile
import time

SPIN, SLEEP, EXIT = 1, 2, 3


def find_library(given):
    here = pathlib.Path(__file__).resolve().parent
    candidates = [pathlib.Path(given)] if given else []
    if "SIMGPU_DIR" in os.environ:
        candidates.append(pathlib.Path(os.environ["SIMGPU_DIR"]) / "libsimtrain.so")
    candidates += sorted(here.parent.parent.glob("build*/tests/simgpu/libsimtrain.so"))
    for path in candidates:
        if path.exists():
            return str(path)
    sys.exit("train.py: libsimtrain.so not found: build first, or pass --lib or set SIMGPU_DIR")


class Markers:
    """titantrace's C ABI, where the tracer is preloaded; nothing otherwise."""

    def __init__(self):
        self._program = ctypes.CDLL(None)
        self._signatures = {
            "titan_span_begin": [ctypes.c_char_p],
            "titan_span_end": [],
            "titan_event": [ctypes.c_char_p],
            "titan_metric": [ctypes.c_char_p, ctypes.c_double],
            "titan_label": [ctypes.c_char_p, ctypes.c_char_p],
        }
        self._functions = {}
        for name, types in self._signatures.items():
            function = getattr(self._program, name, None)
            if function is not None:
                function.argtypes = types
                function.restype = None
                self._functions[name] = function

    def __getattr__(self, name):
        return self._functions.get("titan_" + name, lambda *_: None)


class Store:
    """
    Carries NCCL's unique ids between the ranks of one start of torchrun on this host; of several, where SIMTRAIN_STORE
    names a directory that does not exist yet or that those of the same start have made.
    """

    def __init__(self):
        if "SIMTRAIN_STORE" in os.environ:
            self.directory = pathlib.Path(os.environ["SIMTRAIN_STORE"])
            self.directory.mkdir(mode=0o700, exist_ok=True)
            return
        launcher = os.getppid()
        started = pathlib.Path(f"/proc/{launcher}/stat").read_text().rsplit(")", 1)[1].split()[19]
        start = f"{launcher}-{started}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        self.directory = pathlib.Path(tempfile.gettempdir()) / f"simtrain-{start}"
        self.directory.mkdir(mode=0o700, exist_ok=True)

    def set(self, key, value):
        unfinished = self.directory / f".{key}"
        unfinished.write_bytes(value)
        unfinished.rename(self.directory / key)

    def get(self, key, limit_s=60):
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            try:
                return (self.directory / key).read_bytes()
            except FileNotFoundError:
                time.sleep(0.005)
        sys.exit(f"train.py: no {key} from rank 0 of its communicator within {limit_s} s: did all ranks start on this "
                 f"host? (SIMTRAIN_STORE)")

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


class Job:
    def __init__(self, path, args):
        self.lib = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
        self.lib.simtrain_create.restype = ctypes.c_void_p
        self.lib.simtrain_create.argtypes = [ctypes.c_int] * 5 + [ctypes.c_uint64, ctypes.c_double]
        self.lib.simtrain_comm_name.restype = ctypes.c_char_p
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        if self.world % (args.tp * args.pp):
            sys.exit(f"train.py: {self.world} ranks cannot be divided into tp {args.tp} x pp {args.pp}")
        dp = self.world // (args.tp * args.pp)
        self.handle = ctypes.c_void_p(
            self.lib.simtrain_create(
                self.rank, int(os.environ["LOCAL_RANK"]), dp, args.tp, args.pp, args.bytes, args.step_ms
            )
        )

    def init_comms(self, store):
        for index in range(self.lib.simtrain_comm_count()):
            color, rank, size = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
            self.lib.simtrain_membership(
                self.handle, index, ctypes.byref(color), ctypes.byref(rank), ctypes.byref(size)
            )
            key = f"unique_id.{index}.{color.value}"
            if rank.value == 0:
                buffer = (ctypes.c_ubyte * 128)()
                self.lib.simtrain_new_id(self.handle, buffer)
                store.set(key, bytes(buffer))
            self.lib.simtrain_init_comm(self.handle, index, (ctypes.c_ubyte * 128)(*store.get(key)))

    def call(self, name):
        getattr(self.lib, "simtrain_" + name)(self.handle)

    def begin_step(self, step):
        parameter = ctypes.c_int64()
        fault = self.lib.simtrain_begin_step(self.handle, ctypes.c_int64(step), ctypes.byref(parameter))
        if fault == SPIN:
            stuck_in_python()
        elif fault == SLEEP:
            slow_data_loader(parameter.value / 1000)
        elif fault == EXIT:
            sys.exit(parameter.value)


def stuck_in_python():
    turns = 0
    while True:
        turns += 1
        time.sleep(0.001)


def slow_data_loader(seconds):
    time.sleep(seconds)


def train_step(job, markers, step, args):
    job.begin_step(step)
    markers.span_begin(b"train_step")
    if args.graphs:
        job.call("work")
    else:
        job.call("forward")
        job.call("backward")
        job.call("optimizer")
    if args.checkpoint_every and (step + 1) % args.checkpoint_every == 0:
        job.call("checkpoint")
    job.call("finish_step")
    markers.span_end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--pp", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=16 << 10, help="of one operation per rank")
    parser.add_argument("--step-ms", type=float, default=5)
    parser.add_argument("--checkpoint-every", type=int, default=5)
    parser.add_argument("--graphs", action="store_true", help="capture a step into a CUDA graph and replay it")
    parser.add_argument("--role", help="of these processes, beside others of the same job")
    parser.add_argument("--lib", help="path of libsimtrain.so")
    args = parser.parse_args()
    if "RANK" not in os.environ:
        sys.exit("train.py: start it with torchrun --nproc-per-node=N tests/simgpu/train.py")

    store = Store()
    job = Job(find_library(args.lib), args)
    if args.graphs:
        job.call("use_graphs")
    markers = Markers()
    markers.label(b"framework", b"train.py")
    if args.role:
        markers.label(b"role", args.role.encode())
    job.init_comms(store)
    for step in range(args.steps):
        train_step(job, markers, step, args)
    job.call("destroy")
    if job.rank == 0:
        store.remove()
        print(f"trained {args.steps} steps on {job.world} ranks", flush=True)


if __name__ == "__main__":
    main()
