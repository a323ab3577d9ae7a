"""What the bridges put into other libraries: functions in the place of theirs, which call theirs."""
import functools
from typing import Any, Callable

_IS_OURS = "_titantrace_hook"


def hook(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts `make(original)` in the place of a function of a class or a module; a second time it does nothing.

    Whoever asks for the source of the function, as TorchScript does, finds the original's."""
    original = getattr(owner, name)
    if not hasattr(original, _IS_OURS):
        ours = functools.wraps(original)(make(original))
        setattr(ours, _IS_OURS, True)
        setattr(owner, name, ours)


def quietly(work: Callable[..., None], *arguments: Any) -> None:
    """Calls it; what goes wrong in it is none of the program's business."""
    try:
        work(*arguments)
    except Exception:
        pass
