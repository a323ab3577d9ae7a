"""Spans: named parts of a step, as context managers and decorators.

A span belongs to the thread that runs it; inside a task of asyncio, or in a generator, to that task or generator, for
these take turns on their thread. Spans nest accordingly, and any thread may end them.
"""
import ctypes
import functools
import inspect
import itertools
import sys
from contextvars import ContextVar
from types import TracebackType
from typing import Any, AsyncGenerator, Callable, Dict, Generator, Iterator, List, Optional, Type, TypeVar, Union

from . import native, tracer

_Wrapped = TypeVar("_Wrapped", bound=Callable[..., Any])

# Of the span that opened last in the task: its id, 0 once it has ended, and the same of the one around it.
_innermost: ContextVar[Optional[List[Any]]] = ContextVar("titantrace_span", default=None)
# Generators are numbered from here on: addresses, which number the tasks, are smaller.
_generators = itertools.count(1 << 63)


def current_task() -> int:
    """The number of the running task of asyncio; 0 outside of tasks, and where asyncio is not in use."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return 0
    try:
        return id(asyncio.current_task()) if asyncio._get_running_loop() is not None else 0
    except (AttributeError, RuntimeError):
        return 0


def marks_now() -> bool:
    """Whether a marker would be recorded. Not while torch.compile traces: what is called then is not called when the
    compiled function runs."""
    if not tracer.is_loaded:
        return False
    torch = sys.modules.get("torch")
    compiler = getattr(torch, "compiler", None)
    return compiler is None or not compiler.is_compiling()


def add_attributes(marked: int, attributes: Dict[str, object]) -> None:
    for key, value in attributes.items():
        name = tracer.to_bytes(key)
        if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            tracer.attribute_integer(marked, name, value)
        elif isinstance(value, float):
            tracer.attribute_double(marked, name, value)
        else:
            tracer.attribute_text(marked, name, tracer.to_bytes(value))


def mark_error(marked: int, error: BaseException) -> None:
    tracer.error(marked, tracer.to_bytes(type(error).__name__) + b": " + tracer.to_bytes(error))


def mark_failure(opened: int, error: BaseException) -> None:
    """An exception leaves it: it has failed, unless that only ends a generator."""
    if not isinstance(error, (GeneratorExit, StopIteration, StopAsyncIteration)):
        try:
            mark_error(opened, error)
        except (ctypes.ArgumentError, RecursionError):  # no room left on the stack, for that is the error
            pass


def close_span(opened: int, error: Optional[BaseException]) -> None:
    """Ends it, as failed where an exception leaves it."""
    try:
        if error is not None and opened:
            mark_failure(opened, error)
    finally:
        tracer.span_close(opened, None)


def _open_from(known: Optional[List[Any]]) -> Optional[List[Any]]:
    while known is not None and known[0] == 0:
        known = known[1]
    return known


class _Open:
    """An open span, closed at the end of a `with`."""

    __slots__ = ("id", "_in_task")

    def __init__(self, name: bytes, attributes: Dict[str, object], place: tracer.Place, task: int,
                 around: Optional[List[Any]]) -> None:
        self._in_task: Optional[List[Any]] = None  # what the context knows of it
        if task == 0:
            self.id = tracer.span_open(name, place[1])
        else:
            self.id = tracer.span_open(name, tracer.mark_of(place[0], task, 0 if around is None else around[0]))
        if attributes and self.id:
            add_attributes(self.id, attributes)

    def become_innermost(self, around: Optional[List[Any]]) -> None:
        self._in_task = [self.id, around]
        _innermost.set(self._in_task)

    def __enter__(self) -> "_Open":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._in_task is not None:
            self._in_task[:] = 0, _open_from(self._in_task[1])  # so that chains of ended ones do not grow
        close_span(self.id, error)


class Span:
    """One named part, to be entered any number of times. What `span` returns."""

    __slots__ = ("_name", "_attributes", "_entered")

    def __init__(self, name: object, attributes: Dict[str, object]) -> None:
        self._name = tracer.to_bytes(name)
        self._attributes = attributes
        self._entered: List[_Open] = []

    def open(self, place: tracer.Place) -> _Open:
        """Of the running task, or the thread."""
        task = current_task()
        around = _open_from(_innermost.get()) if task != 0 else None
        opened = _Open(self._name, self._attributes, place, task, around)
        if task != 0:
            opened.become_innermost(around)
        return opened

    def open_of_generator(self, place: tracer.Place) -> _Open:
        """A generator runs in the context of whoever asks for the next item: it is nobody's innermost span."""
        return _Open(self._name, self._attributes, place, next(_generators), _open_from(_innermost.get()))

    def enter(self, place: tracer.Place) -> None:
        """As `with`, from that place; for those who have asked whether it marks_now."""
        self._entered.append(self.open(place))

    def __enter__(self) -> "Span":
        if marks_now():
            self.enter(tracer.place(1))
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._entered and marks_now():
            self._entered.pop().__exit__(kind, error, trace)

    def set(self, **attributes: object) -> None:
        """Adds facts to the span while it is entered: text, int or float."""
        if self._entered:
            add_attributes(self._entered[-1].id, attributes)

    def __call__(self, function: _Wrapped) -> _Wrapped:
        """The function, with each call of it in a span of its own. One that is a generator lasts as long as it is
        consumed."""
        return _wrapped(function, self)


def _function_place(function: Callable[..., Any]) -> Callable[[], tracer.Place]:
    """Where a decorated function is defined, told once there is a record."""
    code = getattr(function, "__code__", None)
    text = (f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno} {function.__qualname__}"
            if code is not None else getattr(function, "__qualname__", ""))
    return lambda: tracer.told_place(text)


def _wrapped(function: _Wrapped, of: Span) -> _Wrapped:
    place = _function_place(function)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if not marks_now():
            return function(*arguments, **named)
        with of.open(place()):
            return function(*arguments, **named)

    @functools.wraps(function)
    async def coroutine(*arguments: Any, **named: Any) -> Any:
        with of.open(place()):
            return await function(*arguments, **named)

    @functools.wraps(function)
    def generator(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
        with of.open_of_generator(place()):
            return (yield from function(*arguments, **named))

    @functools.wraps(function)
    async def async_generator(*arguments: Any, **named: Any) -> AsyncGenerator[Any, Any]:
        items = function(*arguments, **named)
        with of.open_of_generator(place()):
            try:
                item = await items.__anext__()
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await items.aclose()
                        raise
                    except BaseException as error:
                        item = await items.athrow(error)
                    else:
                        item = await items.asend(sent)
            except StopAsyncIteration:
                return

    for is_such, wrapper in ((inspect.isasyncgenfunction, async_generator), (inspect.iscoroutinefunction, coroutine),
                             (inspect.isgeneratorfunction, generator)):
        if is_such(function):
            return wrapper  # type: ignore[return-value]
    return call  # type: ignore[return-value]


def make_again(name: str, attributes: Dict[str, object]) -> Any:
    """A span of which a copy or a pickle was made."""
    return span(name, **attributes)


def span(name: Union[str, Callable[..., Any], None] = None, /, **attributes: object) -> Any:
    """A named part of a step: `with span("forward"):`, `@span("forward")`, or `@span` by the function's own name.

    Takes functions, coroutine functions, generators and async generators; further arguments are facts about the span
    (text, int or float). An exception that leaves it marks it as failed. Costs a call in Python where the tracer is not
    loaded, and nothing is marked while torch.compile traces. Where CPython lets us, it is made in C: see native.py."""
    if callable(name):
        return Span(name.__qualname__ if hasattr(name, "__qualname__") else type(name).__name__, attributes)(name)
    return Span("" if name is None else name, attributes)


span = native.faster(span, make_again, add_attributes, tracer.number_of_place, marks_now, mark_failure, _innermost.get,
                     _innermost.set)


class Loader:
    """What `wrap` returns: the loader, each of whose items is waited for in a span."""

    def __init__(self, loader: Any, name: str, place: str) -> None:
        self._loader = loader
        self._name = name
        self._place = place

    def __iter__(self) -> Iterator[Any]:
        items = iter(self._loader)
        waiting = Span(self._name, {})
        while True:
            if marks_now():
                waiting.enter(tracer.told_place(self._place))
            try:
                item = next(items)
            except StopIteration:
                waiting.__exit__(None, None, None)
                return
            except BaseException as error:
                waiting.__exit__(type(error), error, None)
                raise
            waiting.__exit__(None, None, None)
            yield item

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def wrap(loader: Any, name: str = "data_loading") -> Loader:
    """The loader, with a span around the wait for each of its items: `for batch in titantrace.wrap(loader):`. All else
    is the loader's own."""
    return Loader(loader, name, tracer.words_of(sys._getframe(1)))
