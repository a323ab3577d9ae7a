"""A training whose forward passes are spans with the time of the GPU, beside CUDA events of its own around and inside
each: what these say are metrics."""
import titantrace
import torch
import torch.distributed as dist
from common import model, parsed, start
from torch.nn.parallel import DistributedDataParallel


def passed():
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def main():
    options = parsed()
    device = start()
    network = DistributedDataParallel(model(device))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    events = []
    for step in range(options.steps):
        with titantrace.step(step):
            before = passed()
            with titantrace.gpu_span("forward"):
                begun = passed()
                loss = network(torch.ones(8, 32, device=device)).sum()
                ended = passed()
            events.append((before, begun, ended, passed()))
            loss.backward()
            optimizer.step()
    torch.cuda.synchronize()
    with titantrace.gpu_span("last"):  # those before are read now
        pass
    for before, begun, ended, after in events:
        titantrace.metric({"inside_ms": begun.elapsed_time(ended), "around_ms": before.elapsed_time(after)})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
