"""The process' own record: its newest calls of NCCL, as dictionaries."""
import ctypes
from typing import Dict, List, Optional, Union

from .tracer import OWN_ERRORS, function

MOST_CALLS = 65536  # of one answer
_UNKNOWN = 0


class _Call(ctypes.Structure):
    """titan_call of titantrace.h."""
    _fields_ = [("ticket", ctypes.c_uint64), ("communicator", ctypes.c_uint64), ("sequence", ctypes.c_int64),
                ("count", ctypes.c_uint64), ("group", ctypes.c_uint64), ("step", ctypes.c_int64),
                ("entered_ns", ctypes.c_int64), ("returned_ns", ctypes.c_int64), ("gpu_started_ns", ctypes.c_int64),
                ("gpu_finished_ns", ctypes.c_int64), ("peer", ctypes.c_int32), ("comm_rank", ctypes.c_int32),
                ("device", ctypes.c_int32), ("result", ctypes.c_int32), ("thread", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("op", ctypes.c_char_p), ("datatype", ctypes.c_char_p),
                ("reduction", ctypes.c_char_p), ("state", ctypes.c_char_p), ("communicator_name", ctypes.c_char * 64),
                ("span", ctypes.c_char * 64)]


_record = function(ctypes.CDLL, "titan_record", ctypes.POINTER(_Call), ctypes.c_size_t, ctypes.c_size_t,
                   result=ctypes.c_size_t)

Value = Union[int, str, None]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _time(nanoseconds: int) -> Optional[int]:
    return nanoseconds if nanoseconds != _UNKNOWN else None


def _dictionary(call: _Call) -> Dict[str, Value]:
    return {"ticket": call.ticket, "op": _text(call.op), "communicator": f"{call.communicator:016x}",
            "communicator_name": _text(call.communicator_name), "seq": call.sequence if call.sequence >= 0 else None,
            "count": call.count, "datatype": _text(call.datatype), "reduction": _text(call.reduction),
            "peer": call.peer, "comm_rank": call.comm_rank, "state": _text(call.state), "result": call.result,
            "step": call.step, "span": _text(call.span), "group": call.group, "thread": call.thread,
            "device": call.device, "entered_realtime_ns": _time(call.entered_ns),
            "returned_realtime_ns": _time(call.returned_ns), "gpu_started_realtime_ns": _time(call.gpu_started_ns),
            "gpu_finished_realtime_ns": _time(call.gpu_finished_ns)}


def record(last: int = 100) -> List[Dict[str, Value]]:
    """The newest `last` NCCL calls of this process, oldest first; at most MOST_CALLS, and what the ring still holds.

    Keys and values are those of `titan-analyze show --json`; times are nanoseconds since 1970, None where there is none
    yet. No file is written, and other threads may call NCCL meanwhile. Empty where the tracer is not loaded or has
    nothing recorded."""
    most = min(int.__int__(last), MOST_CALLS) if issubclass(type(last), int) else 0
    if most <= 0:
        return []
    try:
        calls = (_Call * most)()
        found = _record(calls, most, ctypes.sizeof(_Call))
        return [_dictionary(calls[number]) for number in range(max(found, 0))]
    except OWN_ERRORS:
        return []
