"""What keeps one rank from its next call, in Python: a file, a socket, a lock, a queue, a compiler, the GIL."""
import ctypes
import fcntl
import queue
import socket
import subprocess
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from common import parsed, start
from mistakes import mistake


def wait_for_file():
    while True:
        try:
            with open("/nowhere/ready", encoding="utf-8"):
                return
        except FileNotFoundError:
            time.sleep(0.05)


def read_socket():
    asking, _answering = socket.socketpair()
    asking.recv(1)


def take_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def take_from_queue():
    queue.Queue().get()


def retry_download():
    while True:
        try:
            socket.create_connection(("127.0.0.1", 1), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)


def compile_kernel():
    subprocess.run(["sleep", "100"], check=True)


def lock_cache():
    with tempfile.NamedTemporaryFile() as first, open(first.name, "rb") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        fcntl.flock(second, fcntl.LOCK_EX)


def spin():
    while True:
        pass


def keep_gil():
    ctypes.PyDLL(None).sleep(10_000)


WAITS = {"file": wait_for_file, "socket": read_socket, "lock": take_lock, "queue": take_from_queue,
         "retry": retry_download, "compiler": compile_kernel, "flock": lock_cache, "spin": spin, "gil": keep_gil}


def main():
    options = parsed()
    device = start()
    value = torch.ones(64, device=device)
    for step in range(options.steps):
        wrong = mistake(options, step)
        if wrong in WAITS:
            WAITS[wrong]()
        dist.all_reduce(value)
        value.tolist()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
