"""Where the threads of a process stood at its dump (formats/FORMAT.md, section 4.1).

The places are PyTorch's: what a thread that waits in Gloo, in the store, in a lock or in CUDA looks like from outside.
"""

import struct
from typing import Dict, List, Tuple

HEADER = struct.Struct("<8sHHIQQIIIIQ")
TABLE = struct.Struct("<QII")
THREAD = struct.Struct("<iIBcHIq3QQ6I")
PYTHON = struct.Struct("<IIiIII")
NAME = struct.Struct("<QII")
MODULE = struct.Struct("<QQQII32s")

TORCH = "/usr/lib/python3.12/site-packages/torch/"
LIBRARIES = ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libpython3.12.so.1.0",
             TORCH + "lib/libtorch_cpu.so", TORCH + "lib/libtorch_cuda.so", TORCH + "lib/libtorch_python.so",
             "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/local/cuda/lib64/libcudart.so.12",
             "/usr/lib/x86_64-linux-gnu/libnccl.so.2")
LIBC, PYTHON_LIB, TORCH_CPU, TORCH_CUDA, TORCH_PYTHON, CUDA, CUDART, NCCL = range(8)

FUTEX = ("futex_wait_queue", 202)
EVAL = (PYTHON_LIB, "_PyEval_EvalFrameDefault")
LOCK = [(LIBC, "pthread_cond_timedwait"), (PYTHON_LIB, "PyThread_acquire_lock_timed")]
GLOO_WAIT = [(LIBC, "pthread_cond_wait"),
             (TORCH_CPU, "_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE")]
C10D = TORCH + "distributed/distributed_c10d.py"
STORE_GET = [(LIBC, "poll"),
             (TORCH_CPU, "_ZN4c10d8TCPStore3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE")]
MONITORED = [(LIBC, "pthread_cond_timedwait"), (TORCH_CPU, "_ZN4gloo9transport3tcp13UnboundBuffer8waitRecv"
                                                           "EPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"),
             (TORCH_CPU, "_ZN4c10d16ProcessGroupGloo16monitoredBarrierERKNS_14BarrierOptionsEb")]

# What a thread is blocked in -> (kernel's wait and system call, native frames, Python frames inside PyTorch or the
# library, the user's function and line where no operation names one), innermost first.
PLACES: Dict[str, tuple] = {
    "python": (("hrtimer_nanosleep", 230), [(LIBC, "clock_nanosleep")], [], ("preprocess", 212)),
    "data": (("do_poll", 7), [(LIBC, "poll")],
             [("poll", "/usr/lib/python3.12/multiprocessing/connection.py", 1136),
              ("_try_get_data", TORCH + "utils/data/dataloader.py", 1275)], ("next_batch", 33)),
    "file lock": (("locks_lock_inode_wait", 73), [(LIBC, "flock")],
                  [("acquire", "/usr/lib/python3.12/site-packages/filelock/_api.py", 333)], ("build_index", 58)),
    "file": (("nfs_wait_bit_killable", 0), [(LIBC, "read")],
             [("_load", TORCH + "serialization.py", 1944)], ("load_shard", 371)),
    "sync": (FUTEX, [(LIBC, "pthread_cond_wait"), (CUDA, "cuStreamSynchronize"), (CUDART, "cudaStreamSynchronize")],
             [("synchronize", TORCH + "cuda/streams.py", 110)], ("train_step", 118)),
    "poll": (("", -1), [(CUDA, "cuEventQuery"), (CUDART, "cudaEventQuery")],
             [("query", TORCH + "cuda/streams.py", 216)], ("wait_until_done", 124)),
    "ncclCommInitRank": (("do_poll", 7), [(LIBC, "poll"), (NCCL, "ncclCommInitRankConfig")],
                         [("all_reduce", C10D, 2810), ("wrapper", TORCH + "distributed/c10d_logger.py", 81)],
                         ("train_step", 100)),
    "done": (("hrtimer_nanosleep", 230), [(LIBC, "clock_nanosleep")], [], ("idle_until_shutdown", 390)),
    "thread": (FUTEX, LOCK, [("wait", "/usr/lib/python3.12/threading.py", 359),
                             ("get", "/usr/lib/python3.12/queue.py", 171)], ("next_from_thread", 143)),
    "store": (("do_poll", 7), STORE_GET, [("get", TORCH + "distributed/store.py", 41)], ("rendezvous", 205)),
    "gloo barrier": (FUTEX, GLOO_WAIT, [("barrier", C10D, 4799), ("wrapper", TORCH + "distributed/c10d_logger.py", 81)],
                     ("sync_hosts", 206)),
    "monitored_barrier": (FUTEX, MONITORED, [("monitored_barrier", C10D, 5435)], ("sync_hosts", 207)),
    "all_gather_object": (FUTEX, GLOO_WAIT, [("all_gather", C10D, 3706), ("all_gather_object", C10D, 3003)],
                          ("gather_metrics", 208)),
}
IDLE = ((("futex_wait_queue", 202), [(LIBC, "pthread_cond_timedwait"), (LIBC, "__clone3")]))


class Builder:
    def __init__(self):
        self.texts = b"\0"
        self.ids: Dict[str, int] = {"": 0}
        self.threads: List[bytes] = []
        self.frames: List[int] = []
        self.python: List[bytes] = []
        self.names: Dict[int, int] = {}
        self.functions: Dict[Tuple[int, str], int] = {}

    def text(self, text: str) -> int:
        if text not in self.ids:
            self.ids[text] = len(self.texts)
            self.texts += text.encode() + b"\0"
        return self.ids[text]

    def address(self, library: int, function: str) -> int:
        """Every exported function has 4 KiB of its library; the frame is somewhere in it."""
        key = (library, function)
        if key not in self.functions:
            self.functions[key] = 0x7f10_0000_0000 + library * 0x1000_0000 + 0x10_0000 + 4096 * len(self.functions) + 77
            self.names[self.functions[key]] = self.text(function)
        return self.functions[key]

    def add(self, tid: int, name: str, wait, native, python, cpu_ns: int):
        channel, call = wait
        first, first_python = len(self.frames), len(self.python)
        self.frames += [self.address(*frame) for frame in native]
        if python:
            self.frames.append(self.address(*EVAL))
        for i, (function, path, line) in enumerate(python):
            entry = i == len(python) - 1
            self.python.append(PYTHON.pack(self.text(path), self.text(function), line, entry,
                                           len(native) + 1 if entry else 0, 0))
        if python:
            self.frames.append(self.address(LIBC, "__libc_start_main" if name == "python3" else "__clone3"))
        self.threads.append(THREAD.pack(tid, self.text(name), 0, b"S" if call >= 0 else b"R", 0, self.text(channel),
                                        call, 0, 0, 0, cpu_ns, first, len(self.frames) - first, first_python,
                                        len(python), 0, 0))

    def bytes(self, realtime_ns: int) -> bytes:
        version = self.text("CPython 3.12.7")
        modules = []
        for i, path in enumerate(LIBRARIES):
            begin = 0x7f10_0000_0000 + i * 0x1000_0000
            modules.append(MODULE.pack(begin, begin + 0x0fff_0000, begin, self.text(path), 20, bytes([i + 1] * 20)))
        tables = [(b"".join(self.threads), THREAD.size), (struct.pack("<%dQ" % len(self.frames), *self.frames), 8),
                  (b"".join(modules), MODULE.size), (None, 1), (b"".join(self.python), PYTHON.size),
                  (b"".join(NAME.pack(at, name, 0) for at, name in sorted(self.names.items())), NAME.size)]
        tables[3] = (self.texts, 1)
        offset = HEADER.size + 8 * TABLE.size
        head, body = b"", b""
        for data, stride in tables:
            data += bytes(-len(data) % 8) if stride == 1 else b""
            head += TABLE.pack(offset, stride, len(data) // stride)
            body += data
            offset += len(data)
        head += TABLE.pack(0, 0, 0) * 2
        return HEADER.pack(b"TITNTACK", 1, 0, HEADER.size + 8 * TABLE.size, realtime_ns, 3000000, 0, 0, version, 0,
                           0) + head + body


def image(hosts, tid_of, watchdog_tid: int, realtime_ns: int) -> bytes:
    """Of the threads of one process that have not ended, and of PyTorch's own."""
    builder = Builder()
    for host in hosts:
        if host.thread != "main" and host.inside == "done":
            continue
        wait, native, library, usual = PLACES.get(host.inside, PLACES["python"])
        op = host.ops[min(host.at, len(host.ops)) - 1] if host.at else None
        function, line = op.site if op is not None and op.site and host.inside != "done" else usual
        python = library + [(function, "/job/train.py", line)]
        if host.thread == "main":
            python = python + [("main", "/job/train.py", 401), ("<module>", "/job/train.py", 420)]
        else:
            python = python + [("run_" + host.thread, "/job/workers.py", 61),
                               ("run", "/usr/lib/python3.12/threading.py", 1012),
                               ("_bootstrap_inner", "/usr/lib/python3.12/threading.py", 1075),
                               ("_bootstrap", "/usr/lib/python3.12/threading.py", 1032)]
        builder.add(tid_of(host.thread), "python3" if host.thread == "main" else thread_name(host.thread), wait, native,
                    python, 40 * 10**9)
    if watchdog_tid:
        builder.add(watchdog_tid, "pt_nccl_watchdg", *IDLE, [], 10**9)
        builder.add(watchdog_tid + 1000, "pt_nccl_heartbt", *IDLE, [], 10**7)
    return builder.bytes(realtime_ns)


def thread_name(thread: str) -> str:
    return {"background": "checkpoint"}.get(thread, thread)[:15]
