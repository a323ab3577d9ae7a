"""Spans of titantrace in a loop, for instruction_counts.py: python_spans_program.py CALL_BACK CALLS

Each way of marking is measured four times: CALLS and twice as many, of it and of the loop alone."""
import asyncio
import ctypes
import sys

import titantrace

WORK = ctypes.PYFUNCTYPE(None)
CALL_BACK = ctypes.PyDLL(sys.argv[1])
CALLS = int(sys.argv[2])


def spans(count):
    for _ in range(count):
        with titantrace.span("forward"):
            pass


def nothing(count):
    for _ in range(count):
        pass


async def in_a_task():
    measure()


def measure():
    for work in spans, nothing:
        work(3)  # its place is known, and CPython has specialized it
        for count in (CALLS, 2 * CALLS):
            CALL_BACK.call_back(WORK(lambda count=count, work=work: work(count)))


measure()
asyncio.run(in_a_task())
