"""DeepSpeed, ZeRO stage 3: parameters, gradients and optimizer states sharded, parameters gathered before each
layer."""
import deepspeed
import torch
import torch.distributed as dist
from common import model, parsed, start
from mistakes import mistake

SETTINGS = {
    "train_micro_batch_size_per_gpu": 16,
    "gradient_accumulation_steps": 1,
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
}


# DeepSpeed makes a text of all parameters, which it drops; how many of their numbers are to be shown is not computed
# here.
torch.nn.Parameter.__repr__ = object.__repr__


def main():
    options = parsed()
    device = start()
    deepspeed.init_distributed("nccl")
    network = model(device)
    engine, _, _, _ = deepspeed.initialize(model=network, optimizer=torch.optim.AdamW(network.parameters()),
                                           config=SETTINGS)
    for step in range(options.steps):
        if mistake(options, step) == "skip":
            continue
        engine.backward(engine(torch.zeros(16, 32, device=device)).pow(2).mean())
        engine.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
