"""What the bridges share."""
import contextlib
import functools
import os
from typing import Any, Callable, Dict, Generic, Hashable, Mapping, TypeVar

from . import tracer
from .spans import current_task, marks_now, task_name, tell_task
from .values import text_of

# The tracer holds as many open spans. One that its library never ends is forgotten here when this many are newer.
_MOST_OPEN = 8192
_IS_OURS = "_titantrace_hook"  # of a function that we put into a library
_About = TypeVar("_About")


def harmless(tell: Callable[..., None]) -> Callable[..., None]:
    """What a bridge tells, if it would be recorded. Its failure is not the program's."""
    @functools.wraps(tell)
    def call(*arguments: Any, **named: Any) -> None:
        try:
            if marks_now():
                tell(*arguments, **named)
        except Exception:
            pass
    return call


def quietly(work: Callable[..., None], /, *arguments: Any, **named: Any) -> None:
    """Calls it; what goes wrong in it is none of the program's business."""
    try:
        work(*arguments, **named)
    except Exception:
        pass


def hook(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts `make(original)` in the place of a function of a class or a module; a second time it does nothing.

    Whoever asks for the source of the function, as TorchScript does, finds the original's."""
    original = getattr(owner, name)
    if not hasattr(original, _IS_OURS):
        ours = functools.wraps(original)(make(original))
        setattr(ours, _IS_OURS, True)
        setattr(owner, name, ours)


def before(tell: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For `hook`: tells what the function is given, before it is called. Its caller is at tracer.place(3) of `tell`."""
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            quietly(tell, *arguments, **named)
            return original(*arguments, **named)
        return call
    return make


def after(tell: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Likewise what it has returned, and then what it was given."""
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            quietly(tell, result, *arguments, **named)
            return result
        return call
    return make


def numbers_of(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in values.items()
            if issubclass(type(value), (float, int)) and type(value) is not bool}


def plain(value: object) -> object:
    """As one attribute or label: a list by its items, a truth as in JSON."""
    if type(value) is bool:
        return "true" if value else "false"
    return ",".join(map(text_of, value)) if type(value) is list or type(value) is tuple else value


_told_by: Dict[str, str] = {}  # the library whose bridge tells the open span of that name
os.register_at_fork(after_in_child=_told_by.clear)


def is_told(name: str, library: str) -> bool:
    """Whether another library's bridge has a span of that name open: of two that tell the same, as Lightning and
    one-logger's callback in it, one is recorded."""
    return _told_by.get(name, library) != library


def begin_telling(name: str, library: str) -> None:
    _told_by[name] = library


def end_telling(name: str, library: str) -> None:
    if _told_by.get(name) == library:
        del _told_by[name]


def open_span(name: str, place: tracer.Place, parent: int = 0, time_ns: int = 0,
              clock: int = tracer.CLOCK_REALTIME) -> int:
    """The id of a span that the bridge ends itself, of the running task or the thread."""
    task = current_task()
    is_here_and_now = task == 0 and parent == 0 and time_ns == 0
    opened = tracer.span_open(tracer.to_bytes(name),
                              place[1] if is_here_and_now else tracer.mark_of(place[0], task, parent, time_ns, clock))
    if task != 0 and parent == 0:
        tell_task(opened, task_name())
    return opened


class OpenSpans(Generic[_About]):
    """What is known about each open span, by the library's own key of it."""

    def __init__(self, absent: _About) -> None:
        self._known: Dict[Hashable, _About] = {}  # without a lock, which a fork could leave taken
        self._absent = absent

    def add(self, key: Hashable, about: _About) -> None:
        if len(self._known) >= _MOST_OPEN:
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # other threads add and remove meanwhile
                del self._known[next(iter(self._known))]
        self._known[key] = about

    def get(self, key: Hashable) -> _About:
        return self._known.get(key, self._absent)

    def pop(self, key: Hashable) -> _About:
        return self._known.pop(key, self._absent)
