"""Hybrid sharding: parameters sharded over half of the ranks, gradients all-reduced between the halves."""
import torch
import torch.distributed as dist
from common import model, parsed, start
from mistakes import mistake
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main():
    options = parsed()
    device = start()
    mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard"))
    network = model(device)
    fully_shard(network, mesh=mesh)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(options.steps):
        wrong = mistake(options, step)
        network.set_requires_all_reduce(wrong != "all_reduce")  # as if this were not the last micro-batch
        network(torch.zeros(16, 32, device=device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
