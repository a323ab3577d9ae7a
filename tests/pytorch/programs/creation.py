"""Groups that not all ranks make, or not in the same order, with communicators that are made at the first call.
PyTorch 2.15 bears both."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake


def main():
    options = parsed()
    device = start(lazily=True)
    rank, value = dist.get_rank(), torch.ones(64, device=device)
    dist.all_reduce(value)
    wrong = mistake(options, options.at)
    halves = [[0, 1], [2, 3]]
    if wrong == "other_order":
        halves.reverse()
    groups = {tuple(half): dist.new_group(half) for half in halves if wrong != "members_only" or rank in half}
    mine = next(group for half, group in groups.items() if rank in half)
    for _ in range(options.steps):
        dist.all_reduce(value, group=mine)
        value.tolist()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
