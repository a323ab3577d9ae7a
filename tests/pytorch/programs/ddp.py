"""DistributedDataParallel, gradients accumulated over two batches, and a flag that all ranks agree on in each step."""
import contextlib
import time

import torch
import torch.distributed as dist
from common import model, parsed, start
from mistakes import mistake
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 5  # steps


def main():
    options = parsed()
    device = start()
    network = DistributedDataParallel(model(device), device_ids=[device.index])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    stop = torch.zeros(1, device=device)
    started = None
    for step in range(options.steps):
        if step == WARM_UP:
            started = time.perf_counter(), time.process_time()
        wrong = mistake(options, step)
        if wrong == "oom":
            continue
        for batch in range(2):
            with network.no_sync() if batch == 0 else contextlib.nullcontext():
                network(torch.zeros(16, 32, device=device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if wrong == "shape":
            stop = torch.zeros(2, device=device)
        if wrong == "dtype":
            stop = stop.double()
        if wrong != "skip":
            dist.all_reduce(stop)
        stop.sum().item()
    if started and dist.get_rank() == 0:
        steps = options.steps - WARM_UP
        clock, processors = time.perf_counter() - started[0], time.process_time() - started[1]
        print(f"{steps / clock:.2f} steps/s, {processors / steps * 1e3:.4f} ms of processors a step", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
