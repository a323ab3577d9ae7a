"""What the programs of the casebook run on: NCCL and CUDA of the simulated node through ctypes, with the streams and
events that PyTorch's process groups would use. Each communicator has a stream of its own, which waits for the compute
stream before an operation and is waited for by it afterwards."""
import contextlib
import ctypes
import os
import pathlib
import time

FLOAT32, SUM = 7, 0
BUFFER_BYTES = 4 << 20
CAPTURE_THREAD_LOCAL, NO_TIMING, NON_BLOCKING = 1, 2, 1


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]


class Store:
    """Keys and values of a job, for the ranks of one host."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)

    def set(self, key, value):
        unfinished = self.directory / f".{key}.{os.getpid()}"
        unfinished.write_bytes(value)
        unfinished.rename(self.directory / key)

    def get(self, key):
        while not (self.directory / key).exists():
            time.sleep(0.01)
        return (self.directory / key).read_bytes()


class Job:
    """One rank of the job."""

    def __init__(self):
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.store = Store(os.environ["CASEBOOK_STORE"])
        directory = pathlib.Path(os.environ["SIMGPU_DIR"])
        self.kernels, self.nccl, self.cuda = (ctypes.CDLL(str(directory / name), mode=ctypes.RTLD_LOCAL) for name in
                                              ("libsimtrain.so", "libnccl.so.2", "libcudart.so.12"))
        self.nccl.ncclGetErrorString.restype = ctypes.c_char_p
        self.nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
        self.kernels.simgpu_launch_spin.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
        self.kernels.simgpu_launch_hang.argtypes = [ctypes.c_void_p]
        self._world = None

    def set_device(self, device):
        self.cuda.cudaSetDevice(device)

    def start(self):
        """What a program does before anything else: its device, the compute stream, memory."""
        self.set_device(self.rank)
        self.prepare()

    def prepare(self):
        self.stream = self.new_stream()
        self.memory = [ctypes.c_void_p(), ctypes.c_void_p()]
        for buffer in self.memory:
            self.cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(BUFFER_BYTES))

    @property
    def world(self):
        if self._world is None:
            self._world = self.comm(range(self.size), "world")
        return self._world

    def comm(self, ranks, name):
        """The communicator of these ranks; who is not among them gets None."""
        ranks = list(ranks)
        if self.rank not in ranks:
            return None
        if self.rank == ranks[0]:
            self.store.set(name, self.new_id())
        return self.join(name, len(ranks), ranks.index(self.rank))

    def new_id(self):
        unique_id = UniqueId()
        self.check(self.nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
        return bytes(unique_id.bytes)

    def join(self, name, size, rank, nccl=None):
        unique_id = UniqueId((ctypes.c_ubyte * 128)(*self.store.get(name)))
        handle = ctypes.c_void_p()
        self.check((nccl or self.nccl).ncclCommInitRank(ctypes.byref(handle), size, unique_id, rank))
        return Comm(self, handle, size, rank)

    def new_stream(self):
        stream = ctypes.c_void_p()
        self.cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), NON_BLOCKING)
        return stream

    def after(self, later, earlier):
        """What comes on one stream waits for what is on another."""
        event = ctypes.c_void_p()
        self.cuda.cudaEventCreateWithFlags(ctypes.byref(event), NO_TIMING)
        self.cuda.cudaEventRecord(event, earlier)
        self.cuda.cudaStreamWaitEvent(later, event, 0)
        self.cuda.cudaEventDestroy(event)

    def compute(self, ms=1):
        self.kernels.simgpu_launch_spin(int(ms * 1e6), self.stream)

    def item(self):
        """Waits for the compute stream, as tensor.item() does."""
        self.cuda.cudaStreamSynchronize(self.stream)

    def begin_capture(self, stream):
        self.cuda.cudaStreamBeginCapture(stream, CAPTURE_THREAD_LOCAL)

    def end_capture(self, stream):
        graph = ctypes.c_void_p()
        self.cuda.cudaStreamEndCapture(stream, ctypes.byref(graph))
        return graph

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"NCCL error: {self.nccl.ncclGetErrorString(status).decode()}")

    def gloo(self):
        import torch.distributed as dist
        dist.init_process_group("gloo")
        return dist


class Comm:
    def __init__(self, job, handle, size, rank):
        self.job, self.handle, self.size, self.rank = job, handle, size, rank
        self.stream, self._grouped = job.new_stream(), False

    def all_reduce(self, count=4096, wait=True):
        self._call("ncclAllReduce", wait, *self.job.memory, ctypes.c_size_t(count), FLOAT32, SUM)

    def all_gather(self, count=4096, wait=True):
        self._call("ncclAllGather", wait, *self.job.memory, ctypes.c_size_t(count), FLOAT32)

    def reduce_scatter(self, count=4096, wait=True):
        self._call("ncclReduceScatter", wait, *self.job.memory, ctypes.c_size_t(count), FLOAT32, SUM)

    def reduce(self, root=0, count=4096, wait=True):
        self._call("ncclReduce", wait, *self.job.memory, ctypes.c_size_t(count), FLOAT32, SUM, root)

    def broadcast(self, root=0, count=4096, wait=True):
        self._call("ncclBroadcast", wait, *self.job.memory, ctypes.c_size_t(count), FLOAT32, root)

    def send(self, peer, count=4096, wait=True):
        self._call("ncclSend", wait, self.job.memory[0], ctypes.c_size_t(count), FLOAT32, peer)

    def recv(self, peer, count=4096, wait=True):
        self._call("ncclRecv", wait, self.job.memory[1], ctypes.c_size_t(count), FLOAT32, peer)

    def all_to_all(self, sends=(), receives=(), wait=True):
        """As PyTorch makes it: a group of sends and receives, of the sizes given (4096 to and from each)."""
        with self.group(wait):
            for peer in range(self.size):
                self.send(peer, sends[peer] if sends else 4096)
                self.recv(peer, receives[peer] if receives else 4096)

    def barrier(self):
        self.all_reduce(1)
        self.job.item()

    @contextlib.contextmanager
    def group(self, wait=True):
        self.job.after(self.stream, self.job.stream)
        self.job.check(self.job.nccl.ncclGroupStart())
        self._grouped = True
        yield
        self._grouped = False
        self.job.check(self.job.nccl.ncclGroupEnd())
        if wait:
            self.job.after(self.job.stream, self.stream)

    def destroy(self):
        self.job.check(self.job.nccl.ncclCommDestroy(self.handle))

    def _call(self, function, wait, *arguments):
        if not self._grouped:
            self.job.after(self.stream, self.job.stream)
        self.job.check(getattr(self.job.nccl, function)(*arguments, self.handle, self.stream))
        if wait and not self._grouped:
            self.job.after(self.job.stream, self.stream)
