"""Hugging Face Accelerate: model, optimizer and data loader prepared by it, gradients accumulated, a flag that all
ranks sum up."""
import torch
import torch.distributed as dist
from accelerate import Accelerator
from common import model, parsed
from mistakes import mistake
from torch.utils.data import DataLoader, TensorDataset


def main():
    options = parsed()
    accelerator = Accelerator(gradient_accumulation_steps=2)
    network = model(accelerator.device)
    data = DataLoader(TensorDataset(torch.zeros(options.steps * 16 * accelerator.num_processes, 32)), batch_size=16)
    network, optimizer, data = accelerator.prepare(network, torch.optim.SGD(network.parameters(), lr=0.1), data)
    stop = torch.zeros(1, device=accelerator.device)
    for step, (batch,) in enumerate(data):
        wrong = mistake(options, step)
        with accelerator.accumulate(network):
            accelerator.backward(network(batch).pow(2).mean())
            optimizer.step()
            optimizer.zero_grad()
        if wrong != "skip":
            stop = accelerator.reduce(stop, "sum")
        stop.item()
    accelerator.wait_for_everyone()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
