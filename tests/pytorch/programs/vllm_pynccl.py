"""vLLM's own binding of NCCL (pynccl), which opens the library itself: a communicator beside a Gloo group, calls on a
stream."""
import os

import torch
import torch.distributed as dist
from common import parsed
from mistakes import mistake
from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator


def main():
    options = parsed()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.cuda.set_stream(
        torch.cuda.current_stream())  # vLLM keeps it by thread; by itself it would look for a GPU with NVML
    dist.init_process_group("gloo")
    communicator = PyNcclCommunicator(dist.group.WORLD, device)
    rank, size = dist.get_rank(), dist.get_world_size()
    activations = torch.ones(64, 32).to(device)
    for step in range(options.steps):
        if mistake(options, step) != "skip":
            communicator.all_reduce(activations)
        gathered = torch.empty(64 * size, 32, device=device)
        communicator.all_gather(gathered, activations)
        if rank > 0:
            communicator.recv(activations, rank - 1)
        if rank < size - 1:
            communicator.send(activations, rank + 1)
        torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
