#!/usr/bin/env python3
"""Asks one tool about directory after directory, each in a process of its own with a limit of time, and measures it.

    worker.py ADAPTER [OPTION...]       ADAPTER is a module beside this file: fr_trace, nvrx or titan

Reads a line `{"directory": ..., "limit_s": ...}` for each question, answers with a line of JSON: `named` (the sets of
ranks that the tool accuses, the first one first), `absent` (ranks that it only calls missing), `failed` (why there is
no answer, or ended without one), `core_s`, `wall_s`, `peak_bytes`, and what the adapter adds.

What a tool imports is imported once; a forked child answers each question, so that a crash or an endless loop costs one
answer, and the kernel counts the child's time and memory.
"""

import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time


def child(adapter, directory: str, answer: str, log: str):
    """Never returns: answers into the file `answer`, or becomes the tool's own program, which writes there."""
    status = 1
    try:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        if hasattr(adapter, "command"):
            os.dup2(os.open(answer, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            os.execv(adapter.command(directory)[0], adapter.command(directory))
        os.dup2(2, 1)
        said = adapter.ask(directory)
        with open(answer, "w", encoding="utf-8") as file:
            json.dump(said, file)
        status = 0
    except BaseException as error:  # also SystemExit: any end without an answer is one
        os.write(2, f"\n{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def wait(pid: int, limit_s: float):
    """(exit status, usage, whether the limit ended it)."""
    handle = os.pidfd_open(pid)
    late = not select.select([handle], [], [], limit_s)[0]
    os.close(handle)
    if late:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage, late


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def ask(adapter, directory: str, limit_s: float, scratch: str) -> dict:
    answer, log = os.path.join(scratch, "answer"), os.path.join(scratch, "log")
    for path in (answer, log):
        with open(path, "w", encoding="utf-8"):
            pass
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        child(adapter, directory, answer, log)
    status, usage, late = wait(pid, limit_s)
    said = {"named": [], "absent": [], "failed": ""}
    if late:
        said["failed"] = f"no answer within {limit_s:g} s"
    elif hasattr(adapter, "command"):
        said.update(adapter.answer(status, read(answer), read(log)))
    elif status:
        lines = [line for line in read(log).splitlines() if line.strip()]
        said["failed"] = lines[-1][:300] if lines and status > 0 else f"ended with status {status}"
    else:
        said.update(json.loads(read(answer)))
    return {**said, "core_s": usage.ru_utime + usage.ru_stime, "wall_s": time.monotonic() - began,
            "peak_bytes": usage.ru_maxrss * 1024}


def main():
    adapter = importlib.import_module(sys.argv[1])
    adapter.start(*sys.argv[2:])
    print(json.dumps({"version": adapter.version()}), flush=True)
    with tempfile.TemporaryDirectory(prefix="peers.") as scratch:
        for line in sys.stdin:
            question = json.loads(line)
            print(json.dumps(ask(adapter, question["directory"], question["limit_s"], scratch)), flush=True)


if __name__ == "__main__":
    main()
