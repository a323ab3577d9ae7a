"""How long the work between two CUDA events took, read once the GPU has passed them: nobody waits for it."""
import collections
import os
import threading
import weakref
from typing import Any, Callable, Deque, Tuple

_MOST_PENDING = 1024
_all: "weakref.WeakSet[GpuTimes]" = weakref.WeakSet()


class GpuTimes:
    """Pairs of PyTorch's CUDA events that were recorded, oldest first."""

    def __init__(self, waits_for_oldest: bool) -> None:
        """With more than 1,024 pending, the oldest is waited for, or dropped."""
        self._waits_for_oldest = waits_for_oldest
        self.clear()
        _all.add(self)

    def clear(self) -> None:
        self._pending: Deque[Tuple[Any, Any, Callable[[float], None]]] = collections.deque()
        self._lock = threading.Lock()

    def add(self, start: Any, end: Any, tell: Callable[[float], None]) -> None:
        """`tell` gets the milliseconds from one to the other."""
        self._pending.append((start, end, tell))

    def read(self, wait: bool = False) -> None:
        """Tells those that are over; where `wait` is true, waits for the others. Where another thread does so already,
        it is left to that one."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            while self._pending:
                start, end, tell = self._pending[0]
                if not end.query():
                    is_full = len(self._pending) > _MOST_PENDING
                    if not wait and not is_full:
                        break
                    if not wait and not self._waits_for_oldest:
                        self._pending.popleft()
                        continue
                    end.synchronize()
                self._pending.popleft()
                tell(start.elapsed_time(end))
        finally:
            self._lock.release()


def _forget_all() -> None:
    """In a forked child the lock may be taken, and CUDA does not work."""
    for times in list(_all):
        times.clear()


os.register_at_fork(after_in_child=_forget_all)
