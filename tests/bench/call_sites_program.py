"""Makes NCCL calls from a Python stack of known depth: call_sites_program.py LIBRARY PYTHON_DEPTH NATIVE_DEPTH CALLS
REPEATS

Prints the least time of one call in nanoseconds."""
import ctypes
import sys

LIBRARY = ctypes.CDLL(sys.argv[1])
LIBRARY.nanoseconds_per_call.restype = ctypes.c_double
LIBRARY.nanoseconds_per_call.argtypes = [ctypes.c_int, ctypes.c_long]


def call_from(depth, native, calls, repeats):
    if depth > 1:
        return call_from(depth - 1, native, calls, repeats)
    return min(LIBRARY.nanoseconds_per_call(native, calls) for _ in range(repeats))


python_depth, native_depth, calls, repeats = map(int, sys.argv[2:6])
LIBRARY.start()
print(call_from(python_depth - 2, native_depth, calls, repeats))  # this module and the generator are frames, too
