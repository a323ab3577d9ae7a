"""Threads in known places, for test_python.py: python_places.py LIBRARY DIRECTORY SCENARIO."""
import ctypes
import faulthandler
import os
import sys
import threading

LIBRARY, DIRECTORY, SCENARIO = sys.argv[1:4]
GO = os.path.join(DIRECTORY, "go").encode()
IS_HERE = os.path.join(DIRECTORY, "is_here").encode()  # appears when the last thread is where it should be
program = ctypes.CDLL(None)
without_gil = ctypes.CDLL(LIBRARY)
with_gil = ctypes.PyDLL(LIBRARY)
ready = threading.Semaphore(0)
never = threading.Event()
over = False


def waits_for_lock():
    ready.release()
    never.wait()


def computes():
    ready.release()
    turns = 0
    while not over:
        turns += 1


def is_in_cpp():
    ready.release()
    without_gil.wait_in_cpp(GO, None)


def recurses(depth):
    if depth == 0:
        ready.release()
        never.wait()
    else:
        recurses(depth - 1)


def numbers():
    ready.release()
    never.wait()
    yield 1


def in_generator():
    sum(n for n in numbers())


def holds_the_gil():
    with_gil.wait_in_cpp(GO, IS_HERE)


def in_subinterpreter():
    try:
        import _interpreters as interpreters
        started = interpreters.create("legacy")  # ctypes refuses those that share less
    except ImportError:
        import _xxsubinterpreters as interpreters
        started = interpreters.create(isolated=False)
    code = f"import ctypes\ndef inside():\n    ctypes.CDLL({LIBRARY!r}).wait_in_cpp({GO!r}, {IS_HERE!r})\ninside()\n"
    ready.release()
    interpreters.run_string(started, code)
    interpreters.destroy(started)


def in_greenlet():
    import greenlet

    def inner():
        ready.release()
        without_gil.wait_in_cpp(GO, IS_HERE)

    greenlet.greenlet(inner).switch()


def crashes():
    without_gil.crash_in_cpp()


def overflows():
    without_gil.overflow_in_cpp()


def places(*bodies):
    threads = [threading.Thread(target=body, args=arguments, name=body.__name__, daemon=True)
               for body, *arguments in bodies]
    for thread in threads:
        thread.start()
    for _ in threads:
        ready.acquire()
    return threads


def main():
    global over
    if hasattr(program, "titan_step"):
        program.titan_step(ctypes.c_int64(7))
    if SCENARIO == "places":
        threads = places((waits_for_lock,), (computes,), (is_in_cpp,), (recurses, 30), (in_generator,))
        holds_the_gil()
        over = True
        never.set()
        for thread in threads:
            thread.join()
    elif SCENARIO in ("subinterpreter", "greenlet"):
        threads = places((in_subinterpreter if SCENARIO == "subinterpreter" else in_greenlet,))
        for thread in threads:
            thread.join()
    elif SCENARIO == "crash":
        faulthandler.enable()
        crashes()
    elif SCENARIO == "overflow":
        faulthandler.enable()
        overflows()
    print("done", flush=True)


main()
