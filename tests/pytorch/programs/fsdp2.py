"""Fully sharded data parallel, second form: parameters gathered before and freed after each layer."""
import torch
import torch.distributed as dist
from common import model, parsed, start
from mistakes import mistake
from torch.distributed.fsdp import fully_shard


def main():
    options = parsed()
    device = start()
    network = model(device)
    for layer in network:
        fully_shard(layer)
    fully_shard(network)
    optimizer = torch.optim.AdamW(network.parameters())
    for step in range(options.steps):
        wrong = mistake(options, step)
        if wrong == "skip":
            continue
        network(torch.zeros(16, 32, device=device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
