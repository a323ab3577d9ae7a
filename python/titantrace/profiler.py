"""PyTorch's profiler ranges as spans, whether or not a profiler runs:

    import titantrace.profiler
    titantrace.profiler.install()

Every `torch.profiler.record_function`, as a context manager or a decorator, is a span of that name: those of the
program and those that PyTorch makes itself around optimizers, data loaders, DDP, FSDP and pipeline stages. Ranges
inside functions that are compiled (torch.compile, TorchScript) are not seen, and neither are `_RecordFunctionFast`'s:
it is written in C, and PyTorch makes these only while a profiler runs.
"""
import contextlib
import sys
import threading
from typing import Any, Dict, List

from . import tracer
from .bridges import after, before, hook, open_span
from .spans import close_span, marks_now

# The attribute of a range that holds its open spans, by thread: a decorated function has one range for all its calls.
_OPEN = "_titantrace_open"


def _place() -> tracer.Place:
    """The place at which the range is entered; for a decorated function, the place of its call."""
    depth = 4  # of who called our __enter__, from here
    while sys._getframe(depth).f_code.co_filename == contextlib.__file__:
        depth += 1
    return tracer.place(depth)


def _entered(_: Any, entered: Any) -> None:
    if marks_now():
        spans: Dict[int, List[int]] = entered.__dict__.setdefault(_OPEN, {})
        opened = open_span(entered.name, _place())
        spans.setdefault(threading.get_ident(), []).append(opened)


def _left(left: Any, *exception: Any) -> None:
    spans: Dict[int, List[int]] = left.__dict__.get(_OPEN) or {}
    thread = threading.get_ident()
    if spans and thread not in spans:  # entered on another thread
        thread = next(iter(spans))
    opened = spans.get(thread)
    if opened:
        close_span(opened.pop(), exception[1] if len(exception) > 1 else None)
        if not opened:
            del spans[thread]


def install() -> bool:
    """Makes spans of ranges from now on, in the whole process. False where the tracer or PyTorch is not there."""
    if not tracer.is_loaded:
        return False
    try:
        from torch.autograd import profiler
    except ImportError:
        return False
    hook(profiler.record_function, "__enter__", after(_entered))
    hook(profiler.record_function, "__exit__", before(_left))
    return True
