"""What ranks wait for beside NCCL in each step: Gloo, a key of the store, a file."""
import os
import pathlib
import tempfile
import time

import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake


def load():
    time.sleep(10_000)


def wait_for_file(path):
    while not path.exists():
        time.sleep(0.05)


def publish_weights(store, step, wrong):
    if wrong == "store":
        load()
    store.set(f"weights of step {step}", "ready")


def gather_objects(host):
    dist.all_gather_object([None] * dist.get_world_size(), {"rank": dist.get_rank()}, group=host)


def main():
    options = parsed()
    device = start()
    host = dist.new_group(backend="gloo")
    store = dist.distributed_c10d._get_default_store()
    value = torch.ones(64, device=device)
    flag = pathlib.Path(tempfile.gettempdir()) / f"weights-{os.environ['MASTER_PORT']}"
    for step in range(options.steps):
        wrong = mistake(options, step)
        dist.all_reduce(value)
        value.tolist()
        if dist.get_rank() in options.rank:
            publish_weights(store, step, wrong)
        store.get(f"weights of step {step}")
        if wrong == "monitored_barrier":
            load()
        dist.monitored_barrier(group=host)
        if wrong == "file":
            wait_for_file(flag)
        if step % 2 and wrong != "barrier":
            dist.barrier(group=host)
        if step % 2 == 0 and wrong != "objects":
            gather_objects(host)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
