"""A rank that reports metrics: the loss of rank 1 is no number from step 5 on, that of the others from step 6 on. The
norm of the gradients overflows once, as under a loss scaler, which is no fault."""
import math
import os
import pathlib
import sys
import time

import titantrace

MEET = pathlib.Path(os.environ["E2E_MEET"])
RANK = int(os.environ["RANK"])
LAST_STEP = int(sys.argv[1])
FIRST_BAD = 5 if RANK == 1 else 6


def meet(name):
    """Waits for the other two: one that ends before another starts is of another job."""
    (MEET / f"{name}.{RANK}").touch()
    while len(list(MEET.glob(f"{name}.*"))) < 3:
        time.sleep(0.01)


titantrace.label("role", "trainer")  # all record before the first is through
meet("up")
for step in range(LAST_STEP + 1):
    titantrace.step(step)
    with titantrace.span("step"):
        with titantrace.span("backward"):
            titantrace.metric("loss", 2.0 - 0.1 * step if step < FIRST_BAD else math.nan)
        titantrace.metric("grad_norm", math.inf if step == 3 else 1.5)
    if RANK != 0:  # a stage of a pipeline that has no data
        titantrace.metric("tokens", 100, reduce="sum")
        titantrace.metric("accuracy", RANK / 10, reduce="mean", weight=RANK)
    if step == 2:
        for reduce in ("none", "mean", "sum", "min", "max", "std", "last"):
            for value in (RANK + 1, RANK + 3):
                titantrace.metric(f"by {reduce}", value, reduce=reduce, weight=value)
        titantrace.metric("by mean", 3, reduce="mean", weight=0)  # a batch without a token
    if step == 4:
        titantrace.event("checkpoint saved")
titantrace.dump("the loss is watched")
meet("over")
