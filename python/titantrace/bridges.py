"""What the bridges share."""
import contextlib
import functools
from typing import Any, Callable, Dict, Hashable, Mapping

from . import tracer
from .spans import current_task, marks_now

# The tracer holds as many open spans. One that its library never ends is forgotten here when this many are newer.
_MOST_OPEN = 8192


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


def numbers_of(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in values.items()
            if isinstance(value, (float, int)) and not isinstance(value, bool)}


def open_span(name: str, place: tracer.Place, parent: int = 0, time_ns: int = 0,
              clock: int = tracer.CLOCK_REALTIME) -> int:
    """The id of a span that the bridge ends itself, of the running task or the thread."""
    task = current_task()
    plain = task == 0 and parent == 0 and time_ns == 0
    return tracer.span_open(tracer.to_bytes(name),
                            place[1] if plain else tracer.mark_of(place[0], task, parent, time_ns, clock))


class OpenSpans:
    """The ids of open spans, by the library's own names for them."""

    def __init__(self) -> None:
        self._ids: Dict[Hashable, int] = {}  # without a lock, which a fork could leave taken

    def add(self, key: Hashable, marked: int) -> None:
        if len(self._ids) >= _MOST_OPEN:
            with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # other threads add and remove meanwhile
                del self._ids[next(iter(self._ids))]
        self._ids[key] = marked

    def get(self, key: Hashable) -> int:
        """0 where there is none."""
        return self._ids.get(key, 0)

    def pop(self, key: Hashable) -> int:
        return self._ids.pop(key, 0)
