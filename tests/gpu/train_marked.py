"""A training for real GPUs that marks what it does, under torchrun: GPU spans beside CUDA events of its own, some
steps under PyTorch's profiler, a function for torch.compile, a collective in a CUDA graph. What it computed is printed;
what it measured itself goes to $E2E_MEET/rank<N>.json, and the profiler's trace beside it."""
import json
import os
import pathlib
import sys
import time

if os.environ.get("GPU_CHECK_NODE_PER_RANK"):
    os.environ["NCCL_HOSTID"] = f"gpu-check-{os.environ['RANK']}"  # NCCL reads it once, at its first use

import titantrace
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

STEPS, PROFILED = 24, range(12, 18)
WIDTH, LAYERS, ROWS, LENGTH = 512, 4, 8, 128
REPLAYS = 5


@torch.compile
def rescaled(values):
    return torch.nn.functional.gelu(values) * 2 + 1


class Training:
    def __init__(self, device):
        torch.manual_seed(0)
        torch.backends.cuda.enable_mem_efficient_sdp(False)  # its gradients differ from run to run
        layers = [torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0, batch_first=True)
                  for _ in range(LAYERS)]
        self.device = device
        self.model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to(device),
                                                               device_ids=[device.index])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.events, self.losses = [], []

    def step(self, number):
        with titantrace.step(number):
            with titantrace.span("data"):
                batch = torch.randn(ROWS, LENGTH, WIDTH, device=self.device)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with titantrace.gpu_span("forward", rows=ROWS):
                begin.record()
                loss = rescaled(self.model(batch)).square().mean()
                end.record()
            with titantrace.gpu_span("backward"):
                self.optimizer.zero_grad()
                loss.backward()
            with titantrace.span("optimizer"):
                self.optimizer.step()
            self.losses.append(loss.item())
            titantrace.metric("loss", self.losses[-1])
            self.events.append((begin, end))

    def forward_ms(self):
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in self.events]


def replayed(device):
    """What a replayed collective adds up to."""
    values = torch.ones(1024, device=device)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        dist.all_reduce(values.clone())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(values)
    values.fill_(1)
    for _ in range(REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    return values[0].item()


def main():
    rank = int(os.environ["RANK"])
    meet = pathlib.Path(os.environ["E2E_MEET"])
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    training = Training(device)
    for number in range(PROFILED.start):
        training.step(number)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for number in PROFILED:
            training.step(number)
        torch.cuda.synchronize()
    calls = titantrace.record(last=1000)
    profiler.export_chrome_trace(str(meet / f"profiler{rank}.json"))
    began = time.perf_counter()
    for number in range(PROFILED.stop, STEPS):
        training.step(number)
    torch.cuda.synchronize()
    step_ms = (time.perf_counter() - began) * 1e3 / (STEPS - PROFILED.stop)
    total = replayed(device)
    print(f"rank {rank}: replayed {total:.0f}, losses {training.losses}", flush=True)
    seen = {"forward_ms": training.forward_ms(), "calls": calls, "step_ms": step_ms}
    (meet / f"rank{rank}.json").write_text(json.dumps(seen))
    titantrace.dump("the end of the training")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
