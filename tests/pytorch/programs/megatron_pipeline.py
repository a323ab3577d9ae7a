"""Megatron-core: its parallel state (2 tensor x 2 pipeline ranks), its parallel linear layers, and its 1F1B
schedule."""
import torch
import torch.distributed as dist
from common import parsed, start
from megatron.core import parallel_state, tensor_parallel
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import TransformerConfig
from mistakes import mistake
from torch import nn

SEQUENCE, BATCH, WIDTH = 4, 2, 32


class Stage(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.arrived = config, None
        settings = {"config": config, "init_method": nn.init.zeros_, "bias": True, "skip_bias_add": False}
        self.up = tensor_parallel.ColumnParallelLinear(WIDTH, 64, gather_output=False, **settings)
        self.down = tensor_parallel.RowParallelLinear(64, WIDTH, input_is_parallel=True, **settings)

    def set_input_tensor(self, arrived):
        self.arrived = arrived[0] if isinstance(arrived, list) else arrived

    def forward(self, batch):
        return self.down(self.up(batch if self.arrived is None else self.arrived)[0])[0]


def forward_step(batches, stage):
    return stage(next(batches)), lambda output: (output.pow(2).mean(), {})


def main():
    options = parsed()
    device = start()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2, pipeline_model_parallel_size=2)
    stage = Stage(TransformerConfig(num_layers=2, hidden_size=WIDTH, num_attention_heads=4,
                                    tensor_model_parallel_size=2,
                                    pipeline_model_parallel_size=2, pipeline_dtype=torch.float32,
                                    use_cpu_initialization=True)).to(device)
    optimizer = torch.optim.AdamW(stage.parameters())
    schedule = get_forward_backward_func()
    for step in range(options.steps):
        if mistake(options, step) == "skip":
            continue
        batches = iter([torch.zeros(SEQUENCE, BATCH, WIDTH, device=device)] * 4)
        schedule(forward_step_func=forward_step, data_iterator=batches, model=stage, num_microbatches=4,
                 seq_length=SEQUENCE,
                 micro_batch_size=BATCH, forward_only=False)
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
