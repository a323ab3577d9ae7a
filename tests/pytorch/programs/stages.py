"""A pipeline written by hand: one forward, one backward, each send together with the receive that follows it."""
import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake

MICRO_BATCHES = 4
DIRECTIONS = {"send forward": (dist.isend, 1), "receive forward": (dist.irecv, -1),
              "send backward": (dist.isend, -1), "receive backward": (dist.irecv, 1)}


def exchange(device, *names):
    """The first stage has nobody before it, the last one nobody after it."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    pairs = [DIRECTIONS[name] for name in names]
    operations = [dist.P2POp(call, torch.ones(64, device=device), rank + distance) for call, distance in pairs
                  if 0 <= rank + distance < stages]
    for work in dist.batch_isend_irecv(operations) if operations else ():
        work.wait()


def run_schedule(device, micro_batches):
    warm_up = dist.get_world_size() - 1 - dist.get_rank()
    steady = micro_batches - warm_up
    for _ in range(warm_up):
        exchange(device, "receive forward")
        exchange(device, "send forward")
    exchange(device, "receive forward")
    for number in range(steady):
        exchange(device, "send forward", "receive backward")
        exchange(device, "send backward", *(["receive forward"] if number < steady - 1 else []))
    for _ in range(warm_up):
        exchange(device, "receive backward")
        exchange(device, "send backward")


def main():
    options = parsed()
    device = start()
    for step in range(options.steps):
        wrong = mistake(options, step)
        run_schedule(device, MICRO_BATCHES - (wrong == "micro_batch"))
        norm = torch.ones(1, device=device)
        dist.all_reduce(norm)
        norm.item()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
