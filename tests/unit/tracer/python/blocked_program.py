"""A program whose threads stand in every kind of place; told by `sys._current_frames` where, it prints that and waits.

Runs on any CPython from 3.6 on, without packages but greenlet (if there). One line of JSON on stdout; ends with stdin.
"""
import asyncio
import functools
import json
import os
import sys
import threading
import time

THREADS, READY = [], []
LOCK = threading.Lock()
LOCK.acquire()
PIPE = os.pipe()


def native_id():
    return threading.get_native_id() if hasattr(threading, "get_native_id") else 0


def thread(kind, blocked=True):
    """Makes the function a thread's body."""
    def register(body):
        def run():
            READY.append((kind, threading.get_ident(), native_id(), blocked))
            body()
        THREADS.append(run)
        return body
    return register


def wait_in_sleep():
    time.sleep(1000)


def wait_in_lock():
    LOCK.acquire()


def wait_in_read():
    os.read(PIPE[0],
            1)


thread("sleep")(wait_in_sleep)
thread("lock")(wait_in_lock)
thread("read")(wait_in_read)


@thread("recursion")
def recursion(depth=300):
    if depth == 0:
        wait_in_lock()
    recursion(depth - 1)


@thread("spinning", blocked=False)
def spinning():
    n = 0
    while True:
        n += 1


@thread("generator")
def generator_thread():
    def inner():
        yield 1
        wait_in_lock()
        yield 2

    def outer():
        yield from inner()

    for _ in outer():
        pass


@thread("coroutine")
def coroutine_thread():
    async def leaf():
        wait_in_lock()

    async def middle():
        await leaf()

    asyncio.new_event_loop().run_until_complete(middle())


@thread("lambda")
def lambda_thread():
    (lambda f:
     f())(lambda: wait_in_lock())


@thread("comprehension")
def comprehension_thread():
    return [wait_in_lock()
            for _ in range(3)
            if [x for x in (1, 2)]]


def twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


class Übung:
    class Tief:
        @twice
        def größe(self):
            return self.fertig

        @property
        def fertig(self):
            return wait_in_lock()

        @classmethod
        def 方法(cls):
            return cls().größe()


thread("methods")(lambda: Übung.Tief.方法())


class Callbacks:
    """Python called from C called from Python: several runs of the interpreter's C function on one stack."""

    def __lt__(self, other):
        return wait_in_lock()

    def __getattr__(self, name):
        return sorted([Callbacks.__new__(Callbacks), self])


@thread("callbacks")
def callbacks_thread():
    list(map(lambda x: getattr(x, "missing"), [Callbacks()]))


@thread("exec")
def exec_thread():
    exec(compile("x = 1\n\n\ndef made_up():\n    y = 2\n    wait()\nmade_up()\n", "<made up: \U0001f40d>", "exec"),
         {"wait": wait_in_lock})


@thread("long lines")
def long_lines_thread():
    source = "def far():\n" + "\n" * 5000 + "    if x:\n" + "        y = [%s]\n" % ", ".join(["x"] * 300) + \
        "\n" * 70000 + "    wait()\n" + "    y = 1\n" * 3000 + "far()\n"
    exec(compile(source, "far.py", "exec"), {"wait": wait_in_lock, "x": 0})


@thread("finalizer")
def finalizer_thread():
    class Last:
        def __del__(self):
            wait_in_lock()
    last = Last()
    del last


def try_greenlet():
    try:
        import greenlet
    except ImportError:
        return "not installed"

    @thread("greenlet")
    def greenlet_thread():
        def child():
            parent.switch()
            wait_in_lock()

        def other():
            first.switch()

        parent = greenlet.getcurrent()
        first = greenlet.greenlet(child)
        first.switch()
        greenlet.greenlet(other).switch()
    return "tested"


def try_subinterpreter():
    """A thread of a sub-interpreter that sleeps. Before 3.12 it would share the GIL, and starve behind `spinning`."""
    why = "shares the GIL"
    if sys.version_info < (3, 12):
        return why
    code = "import time\ndef in_sub():\n    time.sleep(1000)\nin_sub()\n"
    for name, arguments in (("_interpreters", ()), ("_xxsubinterpreters", ())):
        try:
            module = __import__(name)
            interpreter = module.create(*arguments)
        except (ImportError, RuntimeError, TypeError) as error:
            why = repr(error)
            continue
        run = getattr(module, "run_string", None) or module.exec
        threading.Thread(target=run, args=(interpreter, code), daemon=True).start()
        return "tested"
    return why


def frames_of(ident):
    frame, found = sys._current_frames().get(ident), []
    while frame is not None:
        code = frame.f_code
        found.append([code.co_filename, getattr(code, "co_qualname", code.co_name), frame.f_lineno or 0,
                      code.co_firstlineno])
        frame = frame.f_back
    return found


def churn():
    """Threads that come, recurse at random, raise, make generators and code, and go: nothing stands still."""
    import random

    def dig(depth):
        if depth == 0:
            return sum(x for x in range(random.randrange(20)))
        if depth % 7 == 0:
            return sum(dig(depth - 1) for _ in range(1))
        if depth % 11 == 0:
            exec(compile("dig(%d)" % (depth - 1), "<%d>" % depth, "exec"), {"dig": dig})
            return 0
        return dig(depth - 1)

    def body():
        for _ in range(20):
            try:
                dig(random.randrange(200))
            except RecursionError:
                pass

    print("{}", flush=True)
    end = time.monotonic() + 600
    threading.Thread(target=lambda: (sys.stdin.buffer.raw.read(), os._exit(0)), daemon=True).start()
    while time.monotonic() < end:
        threads = [threading.Thread(target=body) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def main():
    if sys.argv[1:] == ["churn"]:
        churn()
    extra = {"greenlet": try_greenlet(), "subinterpreter": try_subinterpreter()}
    for run in THREADS:
        threading.Thread(target=run, daemon=True).start()
    while len(READY) < len(THREADS):
        time.sleep(0.01)
    time.sleep(0.3)  # all stand where they wait
    before = None
    for _ in range(100):
        now = {kind: frames_of(ident) for kind, ident, _, blocked in READY if blocked}
        if now == before:
            break
        before = now
        time.sleep(0.05)
    threads = [{"kind": kind, "ident": ident, "native": native, "blocked": blocked, "frames": frames_of(ident)}
               for kind, ident, native, blocked in READY]
    print(json.dumps({"threads": threads, "extra": extra, "main": [threading.get_ident(), native_id()]}), flush=True)
    sys.stdin.buffer.raw.read()
    os._exit(0)


main()
