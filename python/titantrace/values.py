"""What can be told of the program's objects without running its code: no `__str__`, `__float__`, `__eq__` or
`__getattr__` of its classes is called, and no module is loaded that the program has only named.

What a class says is asked of `type` and of the built-in classes, never of an object or its metaclass.
"""
import functools
import sys
import types
from typing import Any, Dict, Optional, Union

Plain = Union[str, int, float]

_name_of = type.__dict__["__name__"].__get__
_qualified_name_of = type.__dict__["__qualname__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_words_of = type.__dict__["__dict__"].__get__
_args_of = BaseException.__dict__["args"].__get__
_ALL = slice(None)
# Classes of other libraries whose objects may be asked for their text.
_WITH_TEXT = (("pathlib", "PosixPath"), ("pathlib", "PurePosixPath"), ("torch", "dtype"), ("torch", "device"))
_IN_HOST_MEMORY = "cpu"


def names_in(module: str) -> Dict[str, Any]:
    """What a module holds that the program has imported; nothing of one that is yet to be loaded."""
    found = sys.modules.get(module)
    return found.__dict__ if type(found) is types.ModuleType else {}


def class_name(kind: type) -> str:
    return _name_of(kind)  # type: ignore[no-any-return]


def full_class_name(kind: type) -> str:
    return f"{text_of(_slot(kind, '__module__'))}.{_qualified_name_of(kind)}"


def _slot(kind: type, name: str) -> Any:
    """What objects of that class have by that name from their classes, or None."""
    for base in _mro_of(kind):
        if name in _words_of(base):
            return _words_of(base)[name]
    return None


def _is_scalar_of_numpy(kind: type) -> bool:
    numpy = names_in("numpy")
    generic = numpy.get("generic")
    if type(generic) is not type:
        return False
    return (kind is numpy.get("ndarray")
            or issubclass(kind, generic) and _slot(kind, "item") is _words_of(generic).get("item"))


def _is_tensor(kind: type) -> bool:
    return kind is names_in("torch").get("Tensor") or kind is names_in("torch.nn").get("Parameter")


def number_of(value: Any) -> Optional[float]:
    """The value of a number (also numpy's), or of a one-element tensor in host memory; None: it has none."""
    kind = type(value)
    try:
        if issubclass(kind, float):
            return float.__float__(value)
        if issubclass(kind, int):
            return int.__float__(value)
        if _is_scalar_of_numpy(kind) or _is_tensor(kind) and value.device.type == _IN_HOST_MEMORY:
            item = value.item()
            return float(item) if type(item) in (bool, int, float) else None
    except (OverflowError, TypeError, ValueError, RuntimeError):
        pass
    return None


def plain_of(value: Any) -> Plain:
    """It as str, int or float, and of no subclass."""
    kind = type(value)
    if kind is str or kind is float or kind is int:
        return value  # type: ignore[no-any-return]
    if issubclass(kind, str):
        return str.__str__(value)
    if kind is type(None) or kind is bytes or kind is complex:
        return repr(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, tuple) or issubclass(kind, list):
        items = tuple.__getitem__(value, _ALL) if issubclass(kind, tuple) else list.__getitem__(value, _ALL)
        return repr(items) if all(_has_own_text(item) for item in items) else class_name(kind)
    return _text_of_others(value, kind)


def _has_own_text(value: Any) -> bool:
    kind = type(value)
    return (kind is str or kind is int or kind is float or kind is bool or kind is type(None) or kind is bytes
            or kind is complex)


def _text_of_others(value: Any, kind: type) -> Plain:
    name = class_name(kind)
    for module, known in _WITH_TEXT:
        if name == known and names_in(module).get(known) is kind:
            return str(value)
    if _is_scalar_of_numpy(kind):
        try:
            item = value.item()
        except ValueError:  # an array of more
            return name
        return plain_of(item) if _has_own_text(item) else name
    enum = names_in("enum").get("Enum")
    if enum is not None and issubclass(kind, enum):
        held = _slot(kind, "__dict__")
        member = held.__get__(value).get("_name_") if type(held) is types.GetSetDescriptorType else None
        return f"{name}.{member}" if type(member) is str else name
    return name


def is_of_python(function: Any) -> bool:
    """Whether it is callable by what Python is made of, not by a class of the program with attributes of its own."""
    kind = type(function)
    return (kind is types.FunctionType or kind is types.BuiltinFunctionType or kind is types.MethodType
            or kind is staticmethod or kind is functools.partial)


def name_of_callable(function: Any) -> str:
    kind = type(function)
    if kind is types.MethodType or kind is staticmethod:
        return name_of_callable(function.__func__)
    if kind is types.FunctionType or kind is types.BuiltinFunctionType:
        return text_of(function.__qualname__)
    return _qualified_name_of(function if issubclass(kind, type) else kind)  # type: ignore[no-any-return]


def text_of(value: Any) -> str:
    plain = repr(value) if type(value) is bool else plain_of(value)
    try:
        return plain if type(plain) is str else repr(plain)
    except ValueError:  # more digits than CPython likes to print
        return class_name(type(value))


def text_of_error(error: Any) -> str:
    """Its class and its words, which those that stand in it make up: not what a class of the program makes of them."""
    kind = type(error)
    name = class_name(kind)
    if not issubclass(kind, BaseException):
        return name
    parts = _args_of(error)
    text: Any = KeyError.__str__ if issubclass(kind, KeyError) else BaseException.__str__
    if _slot(kind, "__str__") is OSError.__str__:
        text = OSError.__str__
        parts = [_words_of(OSError)[part].__get__(error) for part in ("errno", "strerror", "filename", "filename2")]
    try:
        words = (text(error) if all(_has_own_text(part) for part in parts)
                 else ", ".join(text_of(part) for part in parts if _has_own_text(part)))
    except ValueError:  # more digits than CPython likes to print
        words = ""
    return f"{name}: {words}" if words else name
