"""How long a training step of one rank takes where the host sets the pace: many small kernels, DistributedDataParallel.
Prints `ddp_step_us`, the median of batches of steps, and how many steps there were."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

LAYERS, WIDTH, BATCHES, STEPS = 32, 256, 21, 20


def main():
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="localhost")
    os.environ.setdefault("MASTER_PORT", "29517")
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to(device), device_ids=[0],
                                                      bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(32, WIDTH, device=device)
    times = []
    for number in range(BATCHES):
        began = time.perf_counter()
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        torch.cuda.synchronize()
        if number > 0:
            times.append((time.perf_counter() - began) / STEPS * 1e6)
    print(f"ddp_step_us {statistics.median(times):.1f}\nddp_steps {BATCHES * STEPS}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
