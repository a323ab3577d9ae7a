"""What all programs share: start, model, and faults by name. A fault is a mistake that a user could make, on one
rank."""
import argparse
import datetime
import os

import torch
import torch.distributed as dist
from torch import nn

def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="none")
    parser.add_argument("--rank", type=int, nargs="+", default=[1], help="that makes the mistake")
    parser.add_argument("--at", type=int, default=5, help="step of the mistake")
    parser.add_argument("--steps", type=int, default=8)
    return parser.parse_args()


def start(lazily=False):
    """Lazily: a communicator is made at its first call, and one for each pair that sends."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    if "DIST_TIMEOUT_S" in os.environ:  # for all groups, also those of a device mesh, which are given none
        dist.distributed_c10d.default_pg_nccl_timeout = datetime.timedelta(seconds=float(os.environ["DIST_TIMEOUT_S"]))
    if "ABORT_APART_MS" in os.environ:  # the watchdog waits before it aborts: each rank so much longer than the last
        wait_ms = int(os.environ["TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC"]) + \
            int(os.environ["RANK"]) * int(os.environ["ABORT_APART_MS"])
        os.environ["TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC"] = str(wait_ms)
    dist.init_process_group("nccl", device_id=None if lazily else device)
    if "DEBUG_SERVER_FILES" in os.environ:  # PyTorch's own: a process beside rank 0 that asks all ranks each second
        from torch.distributed.debug import start_debug_server
        start_debug_server(port=0, dump_dir=os.environ["DEBUG_SERVER_FILES"], dump_interval=1)
    return device


def model(device, width=32):
    return nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width)).to(device)
