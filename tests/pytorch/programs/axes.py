"""Tensor and data parallel groups of a 2 x 2 mesh, called by hand."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake
from torch.distributed.device_mesh import init_device_mesh


def main():
    options = parsed()
    device = start()
    mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    dp, tp = mesh.get_group("dp"), mesh.get_group("tp")
    activations, gradients = torch.ones(64, device=device), torch.ones(256, device=device)
    for step in range(options.steps):
        wrong = mistake(options, step)
        calls = [(activations, tp), (gradients, tp if wrong == "wrong_group" else dp)]
        if wrong == "order":
            calls.reverse()
        if wrong == "skip":
            del calls[0]
        for value, group in calls:
            dist.all_reduce(value, group=group)
        torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
