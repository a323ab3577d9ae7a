"""Four ranks that have used NCCL and then wait for each other outside it, but for rank 2.

beside_nccl.py WAIT LIBRARY: the wait, and a library that calls NCCL. STORE_TIMEOUT_S: how long the store waits. Without
a launcher it forks its ranks, which then import PyTorch once."""
import ctypes
import datetime
import os
import sys
import time

import torch.distributed as dist


def load():
    time.sleep(600)


def step(wait):
    if wait == "monitored_barrier":
        dist.monitored_barrier()
    elif wait == "all_gather_object":
        dist.all_gather_object([None] * dist.get_world_size(), {"rank": dist.get_rank()})
    else:
        store = dist.distributed_c10d._get_default_store()
        store.set_timeout(datetime.timedelta(seconds=float(os.environ.get("STORE_TIMEOUT_S", "300"))))
        store.get("never set")


meet = {}
if "RANK" not in os.environ:
    os.environ.update(WORLD_SIZE="4", LOCAL_WORLD_SIZE="4")
    for rank in "0123":
        meet = {"init_method": f"file://{os.environ['E2E_MEET']}/store", "rank": int(rank), "world_size": 4}
        os.environ.update(RANK=rank, LOCAL_RANK=rank)
        if os.fork() == 0:
            break
    else:
        os.wait()
        sys.exit()

dist.init_process_group("gloo", **meet)
ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_LOCAL).user_reduce()
dist.barrier()
with open(f"{os.environ['E2E_MEET']}/up.{dist.get_rank()}", "w", encoding="utf-8") as file:
    file.write(str(os.getpid()))
if dist.get_rank() == 2:
    load()
step(sys.argv[1])
