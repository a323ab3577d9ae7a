"""Uses NCCL and CUDA as Python does without PyTorch: by ctypes."""
import ctypes


def use():
    nccl, cuda = ctypes.CDLL("libnccl.so.2"), ctypes.CDLL("libcudart.so.13")

    class UniqueId(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 128)]

    def good(status):
        if status != 0:
            raise RuntimeError(f"status {status}")

    unique_id, comm, buffer, stream = UniqueId(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    good(cuda.cudaSetDevice(0))
    good(cuda.cudaStreamCreate(ctypes.byref(stream)))
    good(cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(4096)))
    good(nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    good(nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique_id, 0))
    for _ in range(5):
        good(nccl.ncclAllReduce(buffer, buffer, ctypes.c_size_t(16), 7, 0, comm, stream))
        good(cuda.cudaStreamSynchronize(stream))
    good(nccl.ncclCommDestroy(comm))
    return "used"
