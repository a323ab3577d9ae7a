"""A stand-in for torchtitan 0.3.0's structured logger: the names, the records and the hooks that a bridge meets, in a
few lines and without PyTorch."""
from .step_state import add_step_tag, get_relative_step, get_step, get_step_tags, set_step
from .structured_logging import init_structured_logger, log_trace_instant, log_trace_scalar, log_trace_span

__all__ = ["add_step_tag", "get_relative_step", "get_step", "get_step_tags", "init_structured_logger",
           "log_trace_instant", "log_trace_scalar", "log_trace_span", "set_step"]
