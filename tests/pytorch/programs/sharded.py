"""FSDP2 over blocks, gradients clipped. Mistakes: the use of a sharded parameter, or of a block, that only one rank
makes."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake
from torch import nn
from torch.distributed.fsdp import fully_shard

BLOCKS = 3


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
                                    for _ in range(BLOCKS))
        self.dropped = None  # layer drop: this block is left out

    def forward(self, batch):
        for number, block in enumerate(self.blocks):
            if number != self.dropped:
                batch = block(batch)
        return batch


def log_weights(network):
    for parameter in network.parameters():
        parameter.full_tensor()
    torch.cuda.synchronize()


@torch.no_grad()
def evaluate(network, batch):
    network.eval()
    network(batch)
    network.train()


def clip(network):
    norm = nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    norm.full_tensor()


def main():
    options = parsed()
    device = start()
    network = Network().to(device)
    for block in network.blocks:
        fully_shard(block)
    fully_shard(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    batch = torch.zeros(16, 32, device=device)
    for step in range(options.steps):
        wrong = mistake(options, step)
        if wrong == "evaluate":
            evaluate(network, batch)
        network.dropped = 1 if wrong == "layer_drop" else None
        network(batch).pow(2).mean().backward()
        if wrong != "clip":
            clip(network)
        optimizer.step()
        optimizer.zero_grad()
        if wrong == "log_weights":
            log_weights(network)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
