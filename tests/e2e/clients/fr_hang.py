"""A job of three PyTorch processes on CPU (Gloo) that hangs as it is told, and leaves Flight Recorder dumps: fr_hang.py
DIRECTORY FAULT

FAULT: none | skip | sleep | op, of rank 1. (Other sizes are none: where they differ, Gloo ends the process.) The dumps
are written by a thread of its own once a rank has made no progress for two seconds, as PyTorch's watchdog does for
NCCL; no rank leaves before all have written theirs. The ranks are forked: importing PyTorch takes seconds of a
processor.
"""

import os
import pathlib
import signal
import sys
import threading
import time
import types
from datetime import timedelta

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

SIZE = 3
# Where PyTorch asks whether Inductor made the code of a frame. It made none here, and importing it takes each rank four
# seconds of a processor.
codecache = types.ModuleType("torch._inductor.codecache")
codecache.PyCodeCache = types.SimpleNamespace(stack_frames_for_code=lambda *_: None)
torch._inductor = types.ModuleType("torch._inductor")
torch._inductor.codecache = codecache
sys.modules |= {"torch._inductor": torch._inductor, "torch._inductor.codecache": codecache}

directory, fault = pathlib.Path(sys.argv[1]), sys.argv[2]
progress = [time.monotonic()]


def have_all_dumped():
    return len(list((directory / "done").iterdir())) == SIZE


def watchdog(rank):
    while time.monotonic() - progress[0] < 2:
        time.sleep(0.05)
    (directory / f"nccl_trace_rank_{rank}").write_bytes(c10d._dump_fr_trace())
    (directory / "json" / f"rank{rank}.json").write_bytes(bytes(c10d._dump_fr_trace_json()))
    (directory / "done" / str(rank)).write_text("")
    while not have_all_dumped():
        time.sleep(0.05)
    os._exit(0)


def step(rank, pair):
    values = torch.ones(16)
    dist.all_reduce(values)
    dist.all_gather([torch.empty(16) for _ in range(dist.get_world_size())], values)
    if pair is not None:
        dist.all_reduce(values, group=pair)
    progress[0] = time.monotonic()


def last_step(rank):
    values = torch.ones(16)
    if rank == 1 and fault == "sleep":
        time.sleep(1000)
    if rank == 1 and fault == "skip":
        return
    if rank == 1 and fault == "op":
        dist.broadcast(values, 0)
    dist.all_reduce(values)


def main(rank):
    dist.init_process_group("gloo", init_method=(directory / "store").absolute().as_uri(), rank=rank, world_size=SIZE,
                            timeout=timedelta(seconds=600))
    pair = dist.new_group([0, 1], group_desc="pair")
    pair = pair if rank < 2 else None
    for _ in range(3):
        step(rank, pair)
    threading.Thread(target=watchdog, args=(rank,), daemon=True).start()
    if fault != "none":
        try:
            last_step(rank)
        except RuntimeError:  # a peer that has left already: all have written theirs
            if not have_all_dumped():
                raise
    time.sleep(1000)


if __name__ == "__main__":
    for number in range(SIZE):
        if os.fork() == 0:
            sys.exit(main(number))
    for _ in range(SIZE):
        if os.wait()[1] != 0:
            os.killpg(0, signal.SIGKILL)  # the others would wait for its dump
