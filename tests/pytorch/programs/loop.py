"""A training loop as people write it: DDP, tokens and losses counted over all ranks, validation and checkpoints every
few steps. Most mistakes are decisions that one rank takes by itself."""
import signal
import time

import torch
import torch.distributed as dist
from common import model, parsed, start
from mistakes import mistake
from torch.nn.parallel import DistributedDataParallel

WRITING_S = 15  # of a slow checkpoint
LATE_S = 0.03   # of each step of a straggler


def read(wrong):
    batch = torch.zeros(16, 32)
    if wrong == "nan":
        batch[3, 5] = float("nan")
    return batch


def train(network, batch, wrong):
    try:
        if wrong == "oom_retry":
            torch.empty(1 << 46, device="cuda")
        network(batch).pow(2).mean().backward()
    except torch.OutOfMemoryError:  # once more, in halves
        for half in batch.chunk(2):
            network(half).pow(2).mean().backward()


def count(device, wrong):
    totals = [torch.ones(2, device=device), torch.ones(3, device=device)]  # of losses, of tokens
    for total in reversed(totals) if wrong == "swap" else totals:
        dist.all_reduce(total)
    return totals[0].tolist()


def validate(device):
    right_and_seen = torch.ones(5, device=device)
    dist.all_reduce(right_and_seen)
    return right_and_seen.tolist()


def log(device):
    norms = [torch.ones(4, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(norms, torch.ones(4, device=device))
    for norm in norms:
        print("norm", [float(value) for value in norm], flush=True)


def write():
    time.sleep(WRITING_S)


def save(wrong="none"):
    """Rank 0 writes; the others wait for it."""
    if wrong == "checkpoint":
        write()
    dist.barrier()


def stop_early():
    dist.destroy_process_group()


def on_sigterm(*_):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    dist.broadcast(torch.ones(64, device="cuda"), src=dist.get_rank())
    torch.cuda.synchronize()


def act_alone(wrong, device):
    """What only this rank does in this step."""
    if wrong == "validate":
        validate(device)
    if wrong == "save":
        save()
    if wrong == "log":
        log(device)
    if wrong == "sigterm":
        signal.signal(signal.SIGTERM, on_sigterm)
        signal.raise_signal(signal.SIGTERM)


def main():
    options = parsed()
    device = start()
    network = DistributedDataParallel(model(device), device_ids=[device.index])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    late = False
    for step in range(options.steps):
        wrong = mistake(options, step)
        late = late or wrong == "late"
        if late:
            time.sleep(LATE_S)
        if wrong == "early_stop":
            return stop_early()
        if wrong == "uneven":
            break
        batch = read(wrong)
        if batch.isnan().any():
            continue
        train(network, batch.to(device), wrong)
        optimizer.step()
        optimizer.zero_grad()
        count(device, wrong)
        act_alone(wrong, device)
        if step % 4 == 3:
            validate(device)
        if step % 2 == 1 and wrong != "barrier":
            save(wrong)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
