"""A step in a CUDA graph, its all_reduces included, and a distributed checkpoint over a Gloo group at the end."""
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint
from common import model, parsed, start
from mistakes import mistake


def main():
    options = parsed()
    device = start()
    host_group = dist.new_group(backend="gloo")
    network = model(device)
    batch = torch.zeros(16, 32, device=device)

    def step():
        network(batch).pow(2).mean().backward()
        for parameter in network.parameters():
            dist.all_reduce(parameter.grad)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for number in range(options.steps):
        if mistake(options, number) != "skip":
            graph.replay()
        torch.cuda.synchronize()
    directory = pathlib.Path(tempfile.gettempdir()) / "checkpoint"
    dist.checkpoint.save({"model": network.state_dict()}, checkpoint_id=directory, process_group=host_group)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
