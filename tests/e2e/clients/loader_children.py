"""One of two ranks, as start_rank gives them: RANK, and a directory to meet in. Rank 1 has three children that load
data; one is killed, the other two stand in load(), and it waits for them while rank 0 waits for it in an all_reduce."""
import ctypes
import multiprocessing
import os
import pathlib
import signal
import sys
import time

MEET = pathlib.Path(sys.argv[1])
RANK = int(os.environ["RANK"])
FLOAT, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def load():
    time.sleep(600)


def serve(batches):
    batches.put("a batch")
    load()


def join(nccl):
    identity = UniqueId()
    path = MEET / "id"
    if RANK == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(identity)) == 0
        (MEET / "id.new").write_bytes(bytes(identity))
        (MEET / "id.new").rename(path)
    while not path.exists():
        time.sleep(0.01)
    ctypes.memmove(ctypes.byref(identity), path.read_bytes(), ctypes.sizeof(identity))
    communicator = ctypes.c_void_p()
    assert nccl.ncclCommInitRank(ctypes.byref(communicator), 2, identity, RANK) == 0
    return communicator


def train():
    cuda = ctypes.CDLL("libcudart.so.13")
    nccl = ctypes.CDLL("libnccl.so.2")
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                   ctypes.c_void_p, ctypes.c_void_p]
    memory = ctypes.c_void_p()
    assert cuda.cudaSetDevice(RANK) == 0
    assert nccl.ncclMemAlloc(ctypes.byref(memory), ctypes.c_size_t(1 << 16)) == 0
    markers = ctypes.CDLL(None)
    communicator = join(nccl)
    fork = multiprocessing.get_context("fork")
    batches = fork.Queue()
    workers = [fork.Process(target=serve, args=(batches,)) for _ in range(3 if RANK == 1 else 0)]
    for worker in workers:
        worker.start()
    for step in range(4):
        if RANK == 1:
            batches.get()
        assert nccl.ncclAllReduce(memory, memory, 8, FLOAT, SUM, communicator, None) == 0
        assert cuda.cudaStreamSynchronize(None) == 0
        if step == 2 and RANK == 1:
            time.sleep(1.5)  # the recorder looks for children once a second
            os.kill(workers[0].pid, signal.SIGKILL)
            markers.titan_event(b"epoch 1 is over")
            (MEET / "children").write_text(" ".join(str(worker.pid) for worker in workers))


train()
