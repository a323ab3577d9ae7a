"""A rank of a job that calls no NCCL and ends well: rank 1 loads data for long, so that the other one waits for it in
its optimizer; once the loss of rank 0 is no number. Arguments: steps, the step in which rank 1 is killed (-1: none)."""
import math
import os
import signal
import socket
import sys
import time

import titantrace

RANK = int(os.environ["RANK"])
STEPS, KILLED_AT = int(sys.argv[1]), int(sys.argv[2])
BAD_STEP = 20


def connect(path):
    """One end of a connection between the two ranks."""
    if RANK == 0:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path + ".new")
        listening.listen()
        os.rename(path + ".new", path)  # there once it can be connected to
        return listening.accept()[0]
    while not os.path.exists(path):
        time.sleep(0.01)
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    return peer


peer = connect(sys.argv[3])
for step in range(STEPS):
    titantrace.step(step)
    with titantrace.span("data_loading"):
        time.sleep(0.03 if RANK == 1 else 0.005)
    with titantrace.span("forward_backward"):
        time.sleep(0.02)
    if step == KILLED_AT and RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with titantrace.span("optimizer"):
        peer.sendall(b"x")
        if not peer.recv(1):
            sys.exit(1)
    titantrace.metric("loss", math.nan if step == BAD_STEP and RANK == 0 else 1 / (step + 1))
