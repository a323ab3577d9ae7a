"""A rank of one that asks for its own record, also while other threads call NCCL. Prints what it got, as JSON."""
import ctypes
import json
import threading
import time

import titantrace


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


FLOAT, SUM = 7, 0
nccl = ctypes.CDLL("libnccl.so.2")
nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                               ctypes.c_void_p, ctypes.c_void_p]
nothing_yet = titantrace.record()
identity, memory = UniqueId(), ctypes.c_void_p()
assert nccl.ncclGetUniqueId(ctypes.byref(identity)) == 0
assert nccl.ncclMemAlloc(ctypes.byref(memory), ctypes.c_size_t(1 << 16)) == 0
communicators = []
for _ in range(3):
    communicators.append(ctypes.c_void_p())
    assert nccl.ncclCommInitRank(ctypes.byref(communicators[-1]), 1, identity, 0) == 0
    assert nccl.ncclGetUniqueId(ctypes.byref(identity)) == 0


def all_reduce(communicator, count):
    assert nccl.ncclAllReduce(memory, memory, count, FLOAT, SUM, communicator, None) == 0


titantrace.step(5)
before_ns = time.time_ns()
for count in range(1, 11):
    with titantrace.span("forward"):
        all_reduce(communicators[0], count)
after_ns = time.time_ns()
newest = titantrace.record(last=4)

stopped = threading.Event()


def call_on(communicator):
    while not stopped.is_set():
        all_reduce(communicator, 8)


threads = [threading.Thread(target=call_on, args=(communicator,)) for communicator in communicators[1:]]
for thread in threads:
    thread.start()
answers = [titantrace.record(last=200) for _ in range(100)]
while titantrace.active() and len(titantrace.record(10 ** 9)) <= 200:  # an idle machine answers faster than they call
    time.sleep(0.001)
stopped.set()
for thread in threads:
    thread.join()
tickets_rise = all(a["ticket"] < b["ticket"] for answer in answers for a, b in zip(answer, answer[1:]))
print(json.dumps({
    "nothing_yet": nothing_yet, "newest": newest, "before_ns": before_ns, "after_ns": after_ns,
    "tickets_rise": tickets_rise, "fewest": min(map(len, answers)), "most": max(map(len, answers)),
    "ops": sorted({call["op"] for answer in answers for call in answer}),
    "whole": [len(titantrace.record(10 ** 9)) > 200, titantrace.record(0), titantrace.record("x"),
              titantrace.record(-1)]}))
