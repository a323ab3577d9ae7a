"""A pipeline of as many stages as ranks, scheduled 1F1B: activations forward, gradients back."""
import torch
import torch.distributed as dist
from common import model, parsed, start
from mistakes import mistake
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


def main():
    options = parsed()
    device = start()
    rank, stages = dist.get_rank(), dist.get_world_size()
    batch = torch.zeros(8, 32, device=device)
    network = model(device)
    stage = PipelineStage(network, rank, stages, device)  # learns its shapes from its neighbours in the first step
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=lambda output, target: (output - target).pow(2).mean())
    for step in range(options.steps):
        if mistake(options, step) == "skip":
            continue
        if rank == 0:
            schedule.step(batch)
        elif rank == stages - 1:
            schedule.step(target=batch)
        else:
            schedule.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
