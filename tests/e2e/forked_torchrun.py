"""torchrun, forked from a process that has imported PyTorch: the import takes one or two seconds of a processor.

    place.start([TORCHRUN, ...], env, by=forked_torchrun.start)
"""

import atexit
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

# A child of the test in the end: whoever forks it has gone, and the test adopts orphans.
SERVER = """
import json, os, sys, traceback
from torch.distributed import run


def job(argv, env, cwd, out, err):
    os.setsid()
    os.chdir(cwd)
    for number, path in ((0, "/dev/null"), (1, out), (2, err)):
        os.dup2(os.open(path, os.O_RDWR | (os.O_APPEND if number else 0)), number)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = argv
    status = 1
    try:
        run.main(argv[1:])
        status = 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


print(flush=True)
for line in sys.stdin:
    reader, writer = os.pipe()
    if os.fork() == 0:
        pid = os.fork()
        if pid == 0:
            job(*json.loads(line))
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.wait()
    print(os.read(reader, 20).decode(), flush=True)
    os.close(reader)
    os.close(writer)
"""
PR_SET_CHILD_SUBREAPER = 36
lock = threading.Lock()
server = None


class Process:
    """As much of subprocess.Popen as harness.Ran needs."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None
        self.waiting = threading.Lock()

    def poll(self):
        with self.waiting:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            return self.returncode

    def wait(self, timeout=None):
        deadline = time.monotonic() + (timeout or 1e9)
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("torchrun", timeout)
            time.sleep(0.02)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


def start(argv, env, cwd, stdout, stderr, **_):
    """The first job's environment is the server's, its preload included, as torchrun itself would have it."""
    global server
    with lock:
        if server is None:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            server = subprocess.Popen([pathlib.Path(argv[0]).with_name("python"), "-c", SERVER], env=env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                      start_new_session=True)
            atexit.register(lambda: (server.kill(), server.wait()))
            server.stdout.readline()
        print(json.dumps([argv, env, str(cwd), stdout.name, stderr.name]), file=server.stdin, flush=True)
        return Process(int(server.stdout.readline()))
