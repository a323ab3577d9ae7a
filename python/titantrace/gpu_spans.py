"""Spans with the time that the GPU took for what was launched inside, without waiting for it.

Two CUDA events of PyTorch stand around it on the current stream; their distance becomes the span's attribute `gpu_ms`
when the GPU has passed them and another such span begins or ends. It is the stream's own time, with its gaps: work on
other streams is not in it, nor time in which the host launched nothing yet.
"""
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Type, TypeVar

from . import tracer
from .gpu_times import GpuTimes
from .spans import Span, _alike, _Open, marks_now, place_of_function
from .values import names_in

_Wrapped = TypeVar("_Wrapped", bound=Callable[..., Any])

# What PyTorch says of a context that has failed, and ours. All else is the program's, by a handler of a signal.
_OF_CUDA = (RuntimeError, AssertionError, AttributeError, *tracer.OWN_ERRORS)
_times = GpuTimes(waits_for_oldest=False)


def _cuda() -> Any:
    """torch.cuda, if the program has begun to use it and events may be recorded; its own start is the program's."""
    cuda = names_in("torch").get("cuda")
    return cuda if cuda is not None and cuda.is_initialized() and not cuda.is_current_stream_capturing() else None


def _event() -> Any:
    """One that stands on the current stream from now on, or None."""
    try:
        cuda = _cuda()
        if cuda is None:
            return None
        event = cuda.Event(enable_timing=True)
        event.record()
        return event
    except _OF_CUDA:  # the span tells what the host took
        return None


def _read() -> None:
    try:
        _times.read()
    except _OF_CUDA:  # a context that has failed: the program will see it itself
        _times.clear()


def _tell(marked: int) -> Callable[[float], None]:
    def tell(milliseconds: float) -> None:
        tracer.attribute_double(marked, b"gpu_ms", milliseconds)
    return tell


class GpuSpan:
    """What `gpu_span` returns."""

    def __init__(self, name: str, attributes: Dict[str, object]) -> None:
        self._name = name
        self._attributes = attributes
        self._entered: List[Any] = []  # the open span and its event

    def _enter(self, place: tracer.Place) -> None:
        _read()
        opened: _Open = Span(self._name, self._attributes).open(place)
        self._entered.append((opened, _event()))

    def __enter__(self) -> "GpuSpan":
        try:
            if marks_now():
                self._enter(tracer.place(1))
        except tracer.OWN_ERRORS:
            pass
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        try:
            if not self._entered or not marks_now():
                return
            opened, start = self._entered.pop()
            end = _event() if start is not None else None
            opened.__exit__(kind, error, trace)
            if end is not None and opened.id:
                _times.add(start, end, _tell(opened.id))
            _read()
        except tracer.OWN_ERRORS:
            pass

    def __call__(self, function: _Wrapped) -> _Wrapped:
        place = place_of_function(function)

        @_alike(function)
        def call(*arguments: Any, **named: Any) -> Any:
            around = GpuSpan(self._name, self._attributes)
            try:
                if marks_now():
                    around._enter(place())
            except tracer.OWN_ERRORS:
                pass
            try:
                result = function(*arguments, **named)
            except BaseException as error:
                around.__exit__(type(error), error, error.__traceback__)
                raise
            around.__exit__(None, None, None)
            return result
        return call  # type: ignore[return-value]


def gpu_span(name: str, /, **attributes: object) -> GpuSpan:
    """As `span`, with the milliseconds that the GPU took on the current stream of PyTorch as attribute `gpu_ms`, read
    later: it waits for nothing. Context manager, and decorator of functions. Without CUDA in use, and while a graph is
    captured, a plain span."""
    return GpuSpan(name, attributes)
