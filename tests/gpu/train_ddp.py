"""A small DistributedDataParallel training for torchrun on real GPUs: trains until the file `go` lies in $E2E_MEET."""

import os
import pathlib
import sys

if os.environ.get("GPU_CHECK_NODE_PER_RANK"):
    os.environ["NCCL_HOSTID"] = f"gpu-check-{os.environ['RANK']}"  # NCCL reads it once, at its first use

import torch
import torch.distributed as dist

LIMIT = 200000


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 16)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to(device),
                                                      device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    go = pathlib.Path(os.environ["E2E_MEET"]) / "go"
    stop = torch.zeros(1, device=device)
    for step in range(LIMIT):
        optimizer.zero_grad()
        loss = model(torch.randn(64, 256, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        # All ranks stop in the same step: who sees the file first tells the others.
        stop.fill_(1.0 if go.exists() else 0.0)
        dist.all_reduce(stop)
        if stop.item() > 0:
            break
    print(f"rank {rank} of {size} trained {step + 1} steps, loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
