"""titantrace from Python: markers for the flight recorder, and the place of its library.

    import titantrace

    titantrace.label("dp", "3")
    for number, batch in enumerate(titantrace.wrap(loader)):
        with titantrace.step(number):
            with titantrace.span("forward"):
                ...
            titantrace.metric("loss", loss, reduce="mean", weight=len(batch))

    titantrace.record(last=20)             # this process' newest NCCL calls, as dictionaries

The markers are thin calls of the C functions in titantrace.h. Without the preload (titan-run) every call does nothing,
and none ever raises.
"""
import os as _os

from .calls import record
from .gpu_spans import gpu_span
from .loader import wrap
from .markers import active, dump, event, label, metric, status, step, step_tag
from .spans import span

try:
    from ._version import __version__
except ImportError:  # the source tree
    __version__ = "0+source"

__all__ = ["active", "dump", "event", "gpu_span", "include", "label", "library", "metric", "record", "span", "status",
           "step", "step_tag", "wrap"]

_HERE = _os.path.dirname(_os.path.abspath(__file__))


def library() -> str:
    """The path of libtitantrace.so, for LD_PRELOAD."""
    return _os.path.join(_HERE, "libtitantrace.so")


def include() -> str:
    """The directory of titantrace.h."""
    return _os.path.join(_HERE, "include")
