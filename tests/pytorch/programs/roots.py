"""Settings broadcast from rank 0 in each step, losses gathered."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake


def main():
    options = parsed()
    device = start()
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in range(options.steps):
        wrong = mistake(options, step)
        settings = torch.ones(32 if wrong == "short" else 64, device=device)
        dist.broadcast(settings, src=rank if wrong == "own_root" else 0)
        losses = torch.empty(16 * size, device=device)
        dist.all_gather_into_tensor(losses, settings[:16].clone())
        losses.tolist()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
