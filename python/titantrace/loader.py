"""`titantrace.wrap(loader)`: the loader, each of whose items is waited for in a span."""
import copy
import sys
import weakref
from typing import Any, AsyncIterator, Callable, Dict, Iterator, Tuple

from . import tracer
from .spans import Span, _NOT_OPEN, _Open, marks_now

# Special methods that are the loader's own, where it has them: all but these.
_OF_EVERY_OBJECT = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__repr__", "__str__",
                    "__format__", "__dir__", "__sizeof__"}
_NOT_FORWARDED = {*vars(object)} - _OF_EVERY_OBJECT | {"__getattr__", "__del__", "__copy__", "__deepcopy__"}
_COPIES = ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__")


def _bare(value: Any) -> Any:
    return _loader_of(value) if issubclass(type(value), Loader) else value


class Loader:
    """What `wrap` returns is of a class made of this one, which has the special methods of the loader's class. All
    attributes are the loader's, its class included, but for what copies and pickles are made by."""

    __slots__ = ("_loader", "_name", "_place", "__weakref__")

    def __getattribute__(self, name: str) -> Any:
        is_ours = name in _COPIES or name in _WAITING and name in vars(type(self))
        return object.__getattribute__(self, name) if is_ours else getattr(_loader_of(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_loader_of(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_loader_of(self), name)

    def __reduce__(self) -> Tuple[Any, ...]:
        return _wrap, (_loader_of(self), _name_of(self), _place_of(self))

    def __reduce_ex__(self, protocol: Any) -> Tuple[Any, ...]:
        return _wrap, (_loader_of(self), _name_of(self), _place_of(self))

    def __copy__(self) -> Any:
        return _wrap(copy.copy(_loader_of(self)), _name_of(self), _place_of(self))

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        return _wrap(copy.deepcopy(_loader_of(self), memo), _name_of(self), _place_of(self))


_loader_of = Loader.__dict__["_loader"].__get__
_name_of = Loader.__dict__["_name"].__get__
_place_of = Loader.__dict__["_place"].__get__


def _wait(loader: Any) -> _Open:
    try:
        if marks_now():
            return Span(_name_of(loader), {}).open(tracer.told_place(_place_of(loader)))
    except tracer.OWN_ERRORS:
        pass
    return _NOT_OPEN


def _around(self: Any, items: Any) -> Any:
    """The same around what the loader makes of itself."""
    return self if items is _loader_of(self) else _wrap(items, _name_of(self), _place_of(self))


def _iter(self: Any) -> Iterator[Any]:
    return _around(self, iter(_loader_of(self)))  # type: ignore[no-any-return]


def _next(self: Any) -> Any:
    with _wait(self):
        return next(_loader_of(self))


def _aiter(self: Any) -> AsyncIterator[Any]:
    loader = _loader_of(self)
    return _around(self, type(loader).__aiter__(loader))  # type: ignore[no-any-return]


async def _anext(self: Any) -> Any:
    loader = _loader_of(self)
    with _wait(self):
        return await type(loader).__anext__(loader)


def _forward(name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        loader = _loader_of(self)
        result = getattr(type(loader), name)(loader, *map(_bare, arguments), **named)
        return self if result is loader else result
    return call


def _added_to(self: Any, other: Any) -> Any:
    return _bare(other) + _loader_of(self)


_WAITING = {"__iter__": _iter, "__next__": _next, "__aiter__": _aiter, "__anext__": _anext}
_classes: "weakref.WeakKeyDictionary[type, type]" = weakref.WeakKeyDictionary()


def _class_for(kind: type) -> type:
    """With the special methods that the class has, so that whoever asks whether there is one gets the same answer. By
    its name, for messages."""
    known = _classes.get(kind)
    if known is None:
        has = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()
               if name.startswith("__") and name.endswith("__") and name not in _NOT_FORWARDED}
        if "__getitem__" in has:
            has.setdefault("__iter__", iter)  # which goes by indexes then
        methods = {name: value and (_WAITING.get(name) or _forward(name)) for name, value in has.items()
                   if value is None or callable(value)}
        if "__add__" in has:
            methods.setdefault("__radd__", _added_to)  # as lists are that are added to one
        made = weakref.ref(kind)

        def again(cls: type, *arguments: Any, **named: Any) -> Any:  # type(loader)(...): a loader of its own
            return made()(*arguments, **named)  # type: ignore[misc]
        known = _classes[kind] = type(kind.__name__, (Loader,), {
            **methods, "__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__, "__new__": again})
    return known


def _wrap(loader: Any, name: str, place: str) -> Any:
    made = object.__new__(_class_for(type(loader)))
    for slot, value in (("_loader", loader), ("_name", name), ("_place", place)):
        Loader.__dict__[slot].__set__(made, value)
    return made


def wrap(loader: Any, name: str = "data_loading") -> Any:
    """The loader, with a span around the wait for each of its items: `for batch in titantrace.wrap(loader):`. All else
    is the loader's own."""
    return _wrap(loader, name, tracer.words_of(sys._getframe(1)))
