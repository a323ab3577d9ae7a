"""What the bridges share whose library calls them back: one call opens a span, a later one closes it."""
import os
import time
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import tracer
from .bridges import open_span
from .spans import add_attributes, mark_error
from .values import number_of


def now_ns() -> int:
    """For Stack.complete."""
    return time.monotonic_ns()


def host_values(values: Mapping[str, Any]) -> Dict[str, Any]:
    """The values that can be read without waiting for a device: numbers, numpy's, and tensors of one element in host
    memory."""
    return {name: value for name, value in values.items() if type(value) is not bool and number_of(value) is not None}


class Stack:
    """The spans that one trainer has open, innermost last. A copy of it has none, nor has a forked child's."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._open: List[Tuple[str, int]] = []
        self._process = os.getpid()

    def __reduce__(self) -> Tuple[Any, Tuple[str]]:
        return Stack, (self._library,)

    def _opened(self) -> List[Tuple[str, int]]:
        if self._process != os.getpid():
            self._open, self._process = [], os.getpid()
        return self._open

    def place(self) -> tracer.Place:
        return tracer.told_place(self._library)

    def __contains__(self, name: str) -> bool:
        return any(name == known for known, _ in self._opened())

    def begin(self, name: str, **attributes: object) -> None:
        """Opens it inside those that are open; nothing where one of that name is."""
        if name in self:
            return
        opened = open_span(name, self.place())
        self._open.append((name, opened))
        if opened:
            add_attributes(opened, attributes)

    def end(self, name: str) -> None:
        """Closes it, with what was left open inside; nothing where it is not open."""
        while name in self:
            tracer.span_close(self._open.pop()[1], None)

    def complete(self, name: str, begun_ns: int) -> None:
        """A span that ends now, of which nothing was known when it began."""
        tracer.span_close(open_span(name, self.place(), time_ns=begun_ns, clock=tracer.CLOCK_MONOTONIC), None)

    def end_all(self, error: Optional[BaseException] = None) -> None:
        """Closes all, the innermost as failed where there is an error."""
        opened = self._opened()
        if error is not None and opened:
            mark_error(opened[-1][1], error)
        while opened:
            tracer.span_close(opened.pop()[1], None)


def subclass(module: Dict[str, Any], name: str, part: type, base: type) -> type:
    """Makes a bridge's class where it is first asked for, since its base is the library's, and names it in the module
    for all who ask later."""
    made = type(name, (part, base), {"__module__": module["__name__"], "__doc__": part.__doc__})
    return module.setdefault(name, made)  # type: ignore[no-any-return]
