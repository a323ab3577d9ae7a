"""Megatron-LM's timers (megatron.core.timers, 0.16.1) as spans, its iterations as steps:

    import titantrace.megatron
    titantrace.megatron.install()

before or after Megatron is imported. Each start and stop of a timer is a span of its name. Timers above
--timing-log-level, which Megatron leaves out because each waits for the GPU, are recorded, too: the spans wait for
nothing. A timer that waits by itself still does, at the moments when it did.

Where megatron.training runs the loop, a step is the iteration as its log prints it, from 1, and what the log knows as
numbers on the host is a metric, on every rank, by the names that Megatron gives TensorBoard. Losses lie on the GPU.
"""
import importlib
import inspect
import sys
from typing import Any, Callable, Dict

from . import tracer
from .bridges import after, before, hook, numbers_of, open_span
from .markers import mark_metrics, step
from .spans import close_span, marks_now

_TRAINING = "megatron.training.training"
_OPEN = "_titantrace_open"  # of a timer: its open span
_NAME = "_titantrace_name"  # of a timer that Megatron left out
_LEFT_OUT = "_titantrace_left_out"  # of the timers: those
_MOST_LEFT_OUT = 1024
_NAMELESS = "dummy timer"

# Arguments of training_log, and what Megatron calls them in TensorBoard.
_NUMBERS = {"learning_rate": "learning-rate", "loss_scale": "loss-scale", "grad_norm": "grad-norm",
            "params_norm": "params-norm", "num_zeros_in_grad": "num-zeros"}

_Function = Callable[..., Any]


def _close(timer: Any) -> None:
    opened = timer.__dict__.pop(_OPEN, 0)
    if opened:
        close_span(opened, None)


def _started(_: None, timer: Any, *__: Any, **___: Any) -> None:
    """A timer has at most one open span: if it was reset, or left by an exception, its span ends as the next begins."""
    if not marks_now():
        return
    _close(timer)
    name = timer.__dict__.get(_NAME, timer.name)
    if name != _NAMELESS:
        timer.__dict__[_OPEN] = open_span(name, tracer.place(3))


def _stopped(_: None, timer: Any, *__: Any, **___: Any) -> None:
    _close(timer)


def _calling(original: _Function) -> _Function:
    """All timers that are left out are one and the same without a name: they get one each."""
    def call(self: Any, name: str, *arguments: Any, **named: Any) -> Any:
        timer = original(self, name, *arguments, **named)
        if timer is not self.__dict__.get("_dummy_timer"):
            return timer
        left_out: Dict[str, Any] = self.__dict__.setdefault(_LEFT_OUT, {})
        known = left_out.get(name)
        if known is None and len(left_out) < _MOST_LEFT_OUT:
            known = type(timer)()
            known.__dict__[_NAME] = name
            known = left_out.setdefault(name, known)
        return timer if known is None else known
    return call


def _follow_training(*_: Any, **__: Any) -> None:
    """Megatron makes its timers after its modules are imported, and before it trains."""
    training = sys.modules.get(_TRAINING)
    if training is not None:
        hook(training, "train_step", _training_step(training))
        hook(training, "training_log", _logging)


def _training_step(training: Any) -> Callable[[_Function], _Function]:
    first = None

    def mark(*_: Any, **__: Any) -> None:
        nonlocal first
        iteration = training.get_args().curr_iteration + 1
        first = iteration if first is None else first
        step(iteration, iteration - first + 1)
    return before(mark)


def _logging(original: _Function) -> _Function:
    signature = inspect.signature(original)

    def mark(*arguments: Any, **named: Any) -> None:
        if marks_now():
            given = signature.bind(*arguments, **named).arguments
            mark_metrics(numbers_of({name: given.get(key) for key, name in _NUMBERS.items()}), tracer.place(3))
    return before(mark)(original)


def install() -> bool:
    """Marks what Megatron's timers and its training do from now on. False where the tracer or Megatron is not there."""
    if not tracer.is_loaded:
        return False
    try:
        timers: Any = importlib.import_module("megatron.core.timers")
    except ImportError:
        return False
    for kind in (timers.Timer, timers.DummyTimer):
        hook(kind, "start", after(_started))
        hook(kind, "stop", after(_stopped))
    hook(timers.Timers, "__call__", _calling)
    hook(timers.Timers, "__init__", after(_follow_training))
    _follow_training()
    return True
