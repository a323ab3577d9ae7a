"""Spans: named parts of a step, as context managers and decorators.

A span belongs to the thread that runs it; inside a task of asyncio, or in a generator, to that task or generator, for
these take turns on their thread. Spans nest accordingly, and any thread may end them.
"""
import functools
import inspect
import itertools
import sys
from contextvars import ContextVar
from types import FunctionType, TracebackType
from typing import Any, AsyncGenerator, Callable, Dict, Generator, Iterator, List, Optional, Set, Type, TypeVar, Union

from . import native, tracer
from .values import is_of_python, name_of_callable, names_in, plain_of, text_of_error

_Wrapped = TypeVar("_Wrapped", bound=Callable[..., Any])

# The span that opened last in the task: its id, 0 once it has ended, the same of the span around it, and the number and
# name of its task. A task begins with what is known in the one that makes it.
_innermost: ContextVar[Optional[List[Any]]] = ContextVar("titantrace_span", default=None)
_task_names: Set[bytes] = set()
_MOST_TASK_NAMES = 1024
# Generators are numbered from here on: addresses, which number the tasks, are smaller.
_generators = itertools.count(1 << 63)


def current_task() -> int:
    """The number of the running task of asyncio; 0 outside of tasks, and where asyncio is not in use."""
    asyncio = names_in("asyncio")
    running_loop = asyncio.get("_get_running_loop")
    if running_loop is None:
        return 0
    try:
        loop = running_loop()
        return id(asyncio["current_task"](loop)) if loop is not None else 0
    except (KeyError, RuntimeError):  # it is being imported; no loop, after all
        return 0


def task_name() -> Optional[bytes]:
    """The name that the program gave the running task: numbers of tasks are used again and say nothing to people.
    asyncio's own, Task-7, say no more, and would fill the table of texts; so would names without end."""
    try:
        asyncio = names_in("asyncio")
        task, kind = asyncio["current_task"](), asyncio["Task"]
        if not issubclass(type(task), kind):
            return None
        name = tracer.to_bytes(kind.get_name(task))  # its class may have a get_name of its own
        is_told = name in _task_names or len(_task_names) < _MOST_TASK_NAMES
        if not is_told or b"\0" in name or (name.startswith(b"Task-") and name[5:].isdigit()):
            return None
        _task_names.add(name)
        return name
    except (KeyError, RuntimeError, *tracer.OWN_ERRORS):
        return None


def tell_task(opened: int, name: Optional[bytes]) -> None:
    """About a span that lies in no other one of the task."""
    if opened and name is not None:
        tracer.attribute_text(opened, b"task_name", name)


def marks_now() -> bool:
    """Whether a marker would be recorded. Not while torch.compile traces: what is called then is not called when the
    compiled function runs."""
    if not tracer.is_loaded:
        return False
    is_compiling = names_in("torch.compiler").get("is_compiling")
    return is_compiling is None or not is_compiling()


def add_attributes(marked: int, attributes: Dict[str, object]) -> None:
    try:
        for key, value in attributes.items():
            name, plain = tracer.to_bytes(key), plain_of(value)
            if type(plain) is int and -(1 << 63) <= plain < 1 << 63:
                tracer.attribute_integer(marked, name, plain)
            elif type(plain) is float:
                tracer.attribute_double(marked, name, plain)
            else:
                tracer.attribute_text(marked, name, tracer.to_bytes(plain))
    except tracer.OWN_ERRORS:
        pass


def mark_error(marked: int, error: BaseException) -> None:
    tracer.error(marked, tracer.to_bytes(text_of_error(error)))


def mark_failure(opened: int, error: BaseException) -> None:
    """An exception leaves it: it has failed, unless that only ends a generator."""
    try:
        if not issubclass(type(error), (GeneratorExit, StopIteration, StopAsyncIteration)):
            mark_error(opened, error)
    except tracer.OWN_ERRORS:  # that may be the very error
        pass


def close_span(opened: int, error: Optional[BaseException]) -> None:
    """Ends it, as failed where an exception leaves it."""
    try:
        if error is not None and opened:
            mark_failure(opened, error)
    finally:
        try:
            tracer.span_close(opened, None)
        except tracer.OWN_ERRORS:
            pass


def _open_from(known: Optional[List[Any]]) -> Optional[List[Any]]:
    while known is not None and known[0] == 0:
        known = known[1]
    return known


class _Open:
    """An open span, closed at the end of a `with`."""

    __slots__ = ("id", "_in_task")

    def __init__(self, name: bytes, attributes: Dict[str, object], place: tracer.Place, task: int,
                 around: Optional[List[Any]], open_it: Callable[..., int] = tracer.span_open) -> None:
        self._in_task: Optional[List[Any]] = None  # what the context knows of it
        if task == 0:
            self.id = open_it(name, place[1])
        else:
            self.id = open_it(name, tracer.mark_of(place[0], task, 0 if around is None else around[0]))
        if attributes and self.id:
            add_attributes(self.id, attributes)

    def become_innermost(self, around: Optional[List[Any]], task: int) -> None:
        newest = _innermost.get()
        name = newest[3] if newest is not None and newest[2] == task else task_name()
        if around is None or around[2] != task:
            tell_task(self.id, name)
        self._in_task = [self.id, around, task, name]
        _innermost.set(self._in_task)

    def __enter__(self) -> "_Open":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        try:
            if self._in_task is not None:
                self._in_task[0] = 0
                self._in_task[1] = _open_from(self._in_task[1])  # so that chains of ended ones do not grow
            close_span(self.id, error)
        except tracer.OWN_ERRORS:
            try:  # without a frame more
                tracer.span_close(self.id, None)
            except tracer.OWN_ERRORS:  # it stays open
                pass


_NOT_OPEN = _Open(b"", {}, tracer.NOWHERE, 0, None, tracer.no_id)


class Span:
    """One named part, to be entered any number of times. What `span` returns."""

    __slots__ = ("_name", "_attributes", "_entered")

    def __init__(self, name: object, attributes: Dict[str, object]) -> None:
        try:
            self._name = tracer.to_bytes(name)
        except tracer.OWN_ERRORS:
            self._name = b""
        self._attributes = attributes
        self._entered: List[_Open] = []

    def open(self, place: tracer.Place) -> _Open:
        """Opens it for the running task, or for the thread."""
        opened = _NOT_OPEN
        try:
            task = current_task()
            around = _open_from(_innermost.get()) if task != 0 else None
            opened = _Open(self._name, self._attributes, place, task, around)
            if task != 0:
                opened.become_innermost(around, task)
        except tracer.OWN_ERRORS:
            pass
        return opened

    def open_of_generator(self, place: tracer.Place) -> _Open:
        """A generator runs in the context of whoever asks for the next item: it is nobody's innermost span."""
        try:
            return _Open(self._name, self._attributes, place, next(_generators), _open_from(_innermost.get()))
        except tracer.OWN_ERRORS:
            return _NOT_OPEN

    def enter(self, place: tracer.Place) -> None:
        """As `with`, from that place; for those who have asked whether it marks_now."""
        self._entered.append(self.open(place))

    def __enter__(self) -> "Span":
        try:
            if marks_now():
                self.enter(tracer.place(1))
        except tracer.OWN_ERRORS:
            pass
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        opened = _NOT_OPEN
        try:
            if self._entered and marks_now():
                opened = self._entered.pop()
                opened.__exit__(kind, error, trace)
        except tracer.OWN_ERRORS:
            try:
                tracer.span_close(opened.id, None)
            except tracer.OWN_ERRORS:
                pass

    def set(self, **attributes: object) -> None:
        """Adds facts to the span while it is entered: text, int or float."""
        if self._entered:
            add_attributes(self._entered[-1].id, attributes)

    def __call__(self, function: _Wrapped) -> _Wrapped:
        """The function, with each call of it in a span of its own. One that is a generator lasts as long as it is
        consumed."""
        return _wrapped(function, self)


def place_of_function(function: Callable[..., Any]) -> Callable[[], tracer.Place]:
    """The place of a decorated function's definition, recorded once there is a record."""
    text = name_of_callable(function)
    if type(function) is FunctionType:
        text = f"{function.__code__.co_filename.rpartition('/')[2]}:{function.__code__.co_firstlineno} {text}"
    return lambda: tracer.told_place(text)


def _alike(function: Callable[..., Any]) -> Callable[[_Wrapped], _Wrapped]:
    """As functools.wraps, which asks objects of the program for attributes."""
    def decorate(wrapper: _Wrapped) -> _Wrapped:
        if is_of_python(function):
            return functools.update_wrapper(wrapper, function)  # type: ignore[return-value]
        wrapper.__wrapped__ = function  # type: ignore[attr-defined]
        return wrapper
    return decorate


def _wrapped(function: _Wrapped, of: Span) -> _Wrapped:
    place = place_of_function(function)
    looks_alike = _alike(function)

    @looks_alike
    def call(*arguments: Any, **named: Any) -> Any:
        if not marks_now():
            return function(*arguments, **named)
        with of.open(place()):
            return function(*arguments, **named)

    @looks_alike
    async def coroutine(*arguments: Any, **named: Any) -> Any:
        with of.open(place()):
            return await function(*arguments, **named)

    @looks_alike
    def generator(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
        with of.open_of_generator(place()):
            return (yield from function(*arguments, **named))

    @looks_alike
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
        if is_of_python(function) and is_such(function):
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
        return Span(name_of_callable(name), attributes)(name)
    return Span("" if name is None else name, attributes)


span = native.faster(span, make_again, add_attributes, tracer.number_of_place, marks_now, mark_failure, _innermost.get,
                     _innermost.set, task_name)
