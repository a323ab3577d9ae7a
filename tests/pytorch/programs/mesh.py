"""A 2 x 2 device mesh: tensor parallel layers within a row, data parallel across."""
import torch
import torch.distributed as dist
from common import model, parsed, start
from mistakes import mistake
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def main():
    options = parsed()
    device = start()
    mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    network = parallelize_module(model(device), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(network, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(options.steps):
        wrong = mistake(options, step)
        if wrong != "skip":
            network(torch.zeros(16, 32, device=device)).pow(2).mean().backward()
            optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
