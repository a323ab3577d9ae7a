"""Runs torchtitan's own program, torchtitan.train, on PyTorch's CPU device, in each process of torchrun:

    torchrun ... torchtitan_on_cpu.py --module torchtitan_on_cpu --config tiny ...

torchtitan 0.3.0 knows accelerators only. Nothing of it is changed: PyTorch is told to offer the CPU as one, and does
what Gloo and the CPU lack. Its small Llama gets PyTorch's own attention: FlexAttention has no backward pass there.
"""
import runpy
import sys
import types
from unittest import mock


def offer_the_cpu():
    # What looks for Triton must have found before that there is none.
    import torch
    import torch._inductor
    import torch.distributed.pipelining  # noqa: F401
    import torch.nn.attention.flex_attention  # noqa: F401
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives

    torch._utils._get_available_device_type = lambda: "cpu"
    torch.cpu.current_device = lambda: 0
    torch.cpu.get_device_name = lambda device=None: "CPU"
    torch.cpu.get_device_properties = lambda device=None: types.SimpleNamespace(total_memory=1 << 30)
    torch.cpu.memory_stats = lambda device=None: {"active_bytes.all.peak": 1 << 28, "reserved_bytes.all.peak": 1 << 29,
                                                  "num_alloc_retries": 0, "num_ooms": 0}
    torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda: None

    # Gloo sums, and does not multiply before.
    divide_factors = _fsdp_collectives._get_gradient_divide_factors
    _fsdp_collectives._get_gradient_divide_factors = lambda *told: divide_factors(*told[:5], True)
    if not hasattr(torch.distributed, "set_timeout"):  # before PyTorch 2.14
        torch.distributed.set_timeout = lambda timeout, group=None: None

    # Kernels that are defined when they are imported, and never run.
    triton = {name: mock.MagicMock() for name in ("triton", "triton.language")}
    sys.modules.update(triton)
    import torchtitan.distributed.minimal_async_ep.kernels  # noqa: F401
    for name in triton:
        del sys.modules[name]


def tiny():
    """torchtitan's configuration for debugging, for `--config`."""
    from torch.nn.attention import SDPBackend
    from torchtitan.models.common.attention import FlexAttention, ScaledDotProductAttention
    from torchtitan.models.llama3.config_registry import llama3_debugmodel

    ScaledDotProductAttention.sdpa_backends = [SDPBackend.MATH]
    config = llama3_debugmodel()
    for _, _, parent, name in list(config.model_spec.model.traverse(FlexAttention.Config)):
        setattr(parent, name, ScaledDotProductAttention.Config())
    return config


if __name__ == "__main__":
    offer_the_cpu()
    runpy.run_module("torchtitan.train", run_name="__main__", alter_sys=True)
