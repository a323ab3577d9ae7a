"""Groups of the program's own, sends and receives, coalesced and asynchronous calls."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake


def exchange(rank, size, device, to_next=1):
    """A ring: to the next rank, from the one before."""
    sent, received = torch.full((64,), float(rank)).to(device), torch.zeros(64, device=device)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, (rank + to_next) % size),
                                    dist.P2POp(dist.irecv, received, (rank - 1) % size)])
    for work in works:
        work.wait()
    assert received[0].item() == (rank - 1) % size


def main():
    options = parsed()
    device = start()
    rank, size = dist.get_rank(), dist.get_world_size()
    even = dist.new_group(list(range(0, size, 2)), group_desc="even ranks")
    odd = dist.new_group(list(range(1, size, 2)), group_desc="odd ranks")
    mine = odd if rank % 2 else even
    for step in range(options.steps):
        wrong = mistake(options, step)
        value = torch.ones(128, device=device)
        calls = [lambda: dist.all_reduce(value, group=mine), lambda: dist.all_reduce(value[:16])]
        for call in reversed(calls) if wrong == "order" else calls:
            call()
        if wrong != "skip":
            exchange(rank, size, device, to_next=2 if wrong == "peer" else 1)
        with dist._coalescing_manager(device=device, async_ops=True) as coalesced:
            for part in value.chunk(4):
                dist.all_reduce(part)
        coalesced.wait()
        work = dist.all_reduce(torch.ones(1, device=device), async_op=True)
        work.wait()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
