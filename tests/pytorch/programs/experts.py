"""Mixture of experts: tokens go to the ranks of their experts, as many as this step routes there, and come back."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake

WIDTH = 8


def routed(source, target, step):
    """Tokens of a rank for another rank's experts: other numbers in each step."""
    return 16 * (1 + (source + 2 * target + step) % 3)


def exchange(device, sent, received):
    tokens = torch.ones(sum(sent), WIDTH, device=device)
    output = torch.empty(sum(received), WIDTH, device=device)
    dist.all_to_all_single(output, tokens, received, sent)


def main():
    options = parsed()
    device = start()
    rank, ranks = dist.get_rank(), range(dist.get_world_size())
    for step in range(options.steps):
        wrong = mistake(options, step)
        routing = step - 1 if wrong == "splits" else step  # numbers of the step before
        sent = [routed(rank, other, routing) for other in ranks]
        received = [routed(other, rank, routing) for other in ranks]
        exchange(device, sent, received)
        if wrong != "skip":
            exchange(device, received, sent)
        torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
