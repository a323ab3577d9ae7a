"""DistributedDataParallel, gradients accumulated over two batches, and a flag that all ranks agree on in each step."""
import contextlib

import torch
import torch.distributed as dist
from common import model, parsed, start
from mistakes import mistake
from torch.nn.parallel import DistributedDataParallel


def main():
    options = parsed()
    device = start()
    network = DistributedDataParallel(model(device), device_ids=[device.index])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    stop = torch.zeros(1, device=device)
    for step in range(options.steps):
        wrong = mistake(options, step)
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
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
