"""Context parallelism: in each step every block of keys travels once around the ring of ranks."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake


def hop(block, wrong):
    rank, size = dist.get_rank(), dist.get_world_size()
    to, source = (rank + 1) % size, (rank - 1) % size
    if wrong == "swapped":
        to, source = source, to
    if wrong == "size":
        block = block[:32].clone()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, block, to), dist.P2POp(dist.irecv, received, source)])
    for work in works:
        work.wait()
    return received


def main():
    options = parsed()
    device = start()
    for step in range(options.steps):
        wrong = mistake(options, step)
        keys, output = torch.ones(64, device=device), torch.ones(16, device=device)
        for number in range(dist.get_world_size() - 1):
            if wrong == "hop" and number == 1:
                continue
            arrived = hop(keys, wrong if wrong == "swapped" or number == 1 else "none")
            keys = arrived if arrived.shape == keys.shape else keys
        dist.all_reduce(output)
        output.tolist()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
