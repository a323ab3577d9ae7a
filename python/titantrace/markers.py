"""The markers beside spans: step, event, metric and label, and what goes with them.

Every function may be called from any thread, never raises and does nothing where the tracer is not loaded; without it a
call costs what a call in Python costs.
"""
import math
import os
import struct
import warnings
from types import TracebackType
from typing import Any, Dict, Optional, Set, Type, Union

from . import tracer
from .spans import Span, add_attributes, marks_now
from .values import full_class_name, names_in, number_of, text_of

_warned: Set[str] = set()
_GPU_DRIVER = "/sys/module/nvidia/version"
_versions_are_told = False


def active() -> bool:
    """True if the library is in this process."""
    return tracer.is_loaded


def _tell_versions() -> None:
    """Labels for journals, which have no list of the process's libraries: that of PyTorch, once it is imported."""
    global _versions_are_told
    torch = names_in("torch.version")
    version, cuda = torch.get("__version__"), torch.get("cuda")
    if type(version) is not str:
        return
    _versions_are_told = True
    label("pytorch", version + (f", CUDA {cuda}" if type(cuda) is str else ""))
    try:
        with open(_GPU_DRIVER, encoding="utf-8", errors="replace") as file:
            label("gpu_driver", file.read(40).strip())
    except OSError:
        pass  # no NVIDIA driver


class Step:
    """What `step` returns: as a context manager it is a span "step", too."""

    __slots__ = ("_span",)

    def __init__(self) -> None:
        self._span = Span("step", {})

    def __enter__(self) -> "Step":
        try:
            if marks_now():
                self._span.enter(tracer.place(1))
        except tracer.OWN_ERRORS:
            pass
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._span.__exit__(kind, error, trace)


def step(number: int, relative_step: Optional[int] = None) -> Step:
    """The training step that begins now, for the whole process: `step(12)`, or `with step(12):`, which also is a span.
    `relative_step` counts from where this run (re)started, from 1. What is not an int is ignored: a tensor would have
    to be fetched."""
    try:
        if issubclass(type(number), int) and marks_now():
            if not _versions_are_told:
                _tell_versions()
            if issubclass(type(relative_step), int):
                tracer.step_relative(int.__int__(number), int.__int__(relative_step))  # type: ignore[arg-type]
            else:
                tracer.step(int.__int__(number))
    except tracer.OWN_ERRORS:
        pass
    return Step()


def step_tag(tag: str) -> None:
    """A word about the step that is under way ("eval", "gc"); the next step begins without."""
    try:
        if marks_now():
            tracer.step_tag(tracer.to_bytes(tag))
    except tracer.OWN_ERRORS:
        pass


def mark_event(name: str, place: tracer.Place, attributes: Optional[Dict[str, object]] = None) -> None:
    """As `event`, from that place; for those who have asked whether it marks_now."""
    try:
        marked = tracer.event_at(tracer.to_bytes(name), place[1])
        if attributes and marked:
            add_attributes(marked, attributes)
    except tracer.OWN_ERRORS:
        pass


def event(name: str, /, **attributes: object) -> None:
    """A moment worth a name ("checkpoint saved"), with facts about it (text, int or float)."""
    try:
        if marks_now():
            mark_event(name, tracer.place(1), attributes)
    except tracer.OWN_ERRORS:
        pass


def _warn_once(key: str, text: str) -> None:
    if key not in _warned:
        _warned.add(key)
        try:
            warnings.warn(f"titantrace.metric {text}", RuntimeWarning, stacklevel=5)
        except RuntimeWarning:  # where warnings are errors
            pass


def _refuse(name: str, value: object) -> None:
    kind = full_class_name(type(value))
    _warn_once(kind, f"ignores {text_of(name)}: a {kind} is no number that can be had without waiting for a device; "
                     "give a float")


def _reduction(name: Optional[str]) -> int:
    """Its number; 0 where the program did not tell, or told what is not known."""
    number = tracer.REDUCTIONS.get(name, 0) if type(name) is str else 0
    if number == 0 and name is not None:
        known = ", ".join(tracer.REDUCTIONS)
        _warn_once("reduce", f"does not know reduce={text_of(name)!r}: there are {known}; values are joined as where "
                             "it is not given")
    return number


def _weight(value: object) -> Optional[float]:
    number = number_of(value)
    if number is not None and not 0 <= number < math.inf:
        _warn_once("weight", f"counts {number:g} as a weight of 0: weights are finite and not negative")
    return number


def mark_metrics(values: Dict[str, Any], place: tracer.Place, reduce: Optional[str] = None,
                 weight: float = 1.0) -> None:
    """As `metric`, from that place; for those who have asked whether it marks_now."""
    try:
        meaning = _reduction(reduce)
        heavy = _weight(weight)
        for key, value in dict.items(values):
            number = number_of(value)
            if number is None or heavy is None:
                _refuse(key, value if number is None else weight)
            else:
                tracer.metric_as(tracer.to_bytes(key), number, heavy, meaning, place[1])
    except tracer.OWN_ERRORS:
        pass


def metric(name: Union[str, Dict[str, Any]], value: Any = None, *, reduce: Optional[str] = None,
           weight: float = 1.0) -> None:
    """A number at this moment: `metric("loss", 2.31)`, or many: `metric({"loss": 2.31, "tokens": 4096})`.

    `reduce` says how values are joined, over the calls of a step and over ranks: "none", "mean" (by `weight`), "sum",
    "min", "max", "std" or "last"; a weight is finite and not negative. Tensors in the host's memory and numpy's numbers
    are taken; a tensor on a device would have to be waited for, and is ignored with one warning."""
    try:
        if marks_now():
            values = name if issubclass(type(name), dict) else {text_of(name): value}
            mark_metrics(values, tracer.place(1), reduce, weight)  # type: ignore[arg-type]
    except tracer.OWN_ERRORS:
        pass


def label(key: str, value: object) -> None:
    """A fact about this process: a parallel dimension ("dp", 3), its role ("role", "trainer") or a tag of the run."""
    try:
        if marks_now():
            tracer.label(tracer.to_bytes(key), tracer.to_bytes(value))
    except tracer.OWN_ERRORS:
        pass


def dump(reason: str = "asked for from Python") -> bool:
    """Asks every rank of the job for a dump and waits, 10 s at most, until this rank's is written. False when it is
    not."""
    try:
        return tracer.dump(tracer.to_bytes(reason)) == 0
    except tracer.OWN_ERRORS:
        return False


def _ring() -> Optional[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                if line.rstrip("\n").endswith(".ring") and "/titantrace-" in line:
                    return line.rstrip("\n").split(maxsplit=5)[5]
    except OSError:
        pass
    return None


def _observing(ring: Optional[str]) -> Optional[str]:
    """How the GPU's progress is observed now, from the header of the ring (formats/FORMAT.md, section 3.1)."""
    try:
        with open(ring or "", "rb") as file:
            header = file.read(4096)
        method, = struct.unpack_from("<I", header, 592)
        step, = struct.unpack_from("<q", header, 560)
        budget, full_of, light_of, launches, took_ns = struct.unpack_from("<4IQ", header, 3240)
    except (OSError, struct.error):
        return None
    if method == 0 or budget == 0:
        return {0: "not yet, or not at all", 1: "events", 2: "timing", 3: "writes"}.get(method)
    unit = f"one step of {full_of}" if step >= 0 else f"256 launches of {256 * full_of}"
    light = "events" if light_of <= 1 else f"events around one launch in {light_of}"
    chosen = "writes" if full_of == 1 else f"writes in {unit}, otherwise {light}" if full_of else light
    return f"{chosen} (TITANTRACE_BUDGET={budget / 1e4:g}: {launches} launches in {took_ns / 1e6:.3g} ms)"


def status() -> Dict[str, Union[bool, str, None]]:
    """What is recorded where, or why nothing is: `recording`, `why` (where it is not), `active` (the library is
    loaded), `ring` (the file that survives the process), `gpu` (how the progress of calls on the GPU is observed, and
    why so) and `dumps` (the directory of its dumps)."""
    recording = tracer.told_place("titantrace") is not tracer.NOWHERE  # starts the record where this process is a rank
    why = None
    if not tracer.is_loaded:
        why = "libtitantrace.so is not loaded: start the program with titan-run, or with LD_PRELOAD"
    elif not recording and os.environ.get("TITANTRACE", "1").strip().lower() in ("0", "no", "off", "false"):
        why = "TITANTRACE switches it off"
    elif not recording:
        why = ("this process has not used NCCL, and is no rank (RANK and WORLD_SIZE are not set), or TITANTRACE_RANKS "
               "leaves it out, or it is a child of a rank")
    ring = _ring() if recording else None
    return {"recording": recording, "why": why, "active": tracer.is_loaded, "ring": ring, "gpu": _observing(ring),
            "dumps": os.path.abspath(os.environ.get("TITANTRACE_DIR") or "dumps") if recording else None}
