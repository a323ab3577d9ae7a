"""What can go wrong on one rank in one step. Programs ask in each step, and act on what they are told."""
import ctypes
import os
import signal
import sys
import time

import torch
import torch.distributed as dist


def hanging_loader():
    time.sleep(10_000)


def mistake(options, step):
    """The name of the mistake that this rank makes in this step, after those are made that need no help."""
    restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    if options.fault == "none" or dist.get_rank() not in options.rank or step != options.at or restarted:
        return "none"
    print(f"rank {dist.get_rank()} makes a mistake: {options.fault}", flush=True)
    if options.fault == "exception":
        raise ValueError("a batch that cannot be read")
    if options.fault == "exit":
        sys.exit(3)
    if options.fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if options.fault == "crash":
        ctypes.string_at(0)
    if options.fault == "leave":
        sys.exit(0)
    if options.fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if options.fault == "loader":
        hanging_loader()
    if options.fault == "destroy":
        try:
            raise ValueError("a batch that cannot be read")
        finally:
            dist.destroy_process_group()
    if options.fault == "oom":
        try:
            torch.empty(1 << 46, device="cuda")
        except torch.OutOfMemoryError:
            print("out of memory: this batch is left out", flush=True)
    return options.fault
