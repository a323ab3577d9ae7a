"""Asks stacks_inside.cpp, within the process, where this program stands, and compares. Prints what it found as JSON.

    inside_program.py LIBRARY
"""
import collections
import ctypes
import json
import sys
import threading
import time

inside = ctypes.CDLL(sys.argv[1])
holding = ctypes.PyDLL(sys.argv[1])  # calls keep the GIL: short ones need not wait for it to come back
inside.inside_open.restype = ctypes.c_char_p
for bench_function in (inside.inside_bench_direct, inside.inside_bench_safe, inside.inside_bench_paged):
    bench_function.restype = ctypes.c_double
inside.inside_signal.argtypes = [ctypes.c_ulong]


OUTERMOST = ["run", "_bootstrap_inner", "_bootstrap"]


def described(count):
    text = ctypes.create_string_buffer(1024)
    return [text.value.decode() if holding.inside_describe(i, text, len(text)) > 0 else "?" for i in range(count)]


def expected(frame):
    out = []
    while frame:
        code = frame.f_code
        out.append("%s:%d:%s" % (code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name)))
        frame = frame.f_back
    return out


def compare():
    here, count = expected(sys._getframe()), inside.inside_walk()
    native_runs, marks_in_runs, marks = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    all_marks = inside.inside_native(ctypes.byref(native_runs), ctypes.byref(marks_in_runs), ctypes.byref(marks))
    return {"expected": here, "seen": described(count), "runs": inside.inside_runs(), "native_runs": native_runs.value,
            "all_marks": all_marks, "marks": marks.value, "marks_in_runs": marks_in_runs.value}


class Sorted:
    def __init__(self, depth):
        self.depth = depth

    def __lt__(self, other):
        self.found = through_c(self.depth)
        return True


def through_c(depth):
    """C calls Python calls C: a generator, sorted() and map() in turn."""
    if depth == 0:
        return compare()
    if depth % 3 == 0:
        return next(through_c(depth - 1) for _ in range(1))
    if depth % 3 == 1:
        pair = [Sorted(depth - 1), Sorted(depth - 1)]
        pair.sort()
        return pair[1].found if hasattr(pair[1], "found") else pair[0].found
    return list(map(through_c, [depth - 1]))[0]


def dig(depth, leaf):
    return leaf() if depth == 0 else dig(depth - 1, leaf)


def bench():
    frames = inside.inside_walk()
    return {"frames": frames, "direct_ns": min(inside.inside_bench_direct(20, 20000) for _ in range(5)),
            "safe_ns": min(inside.inside_bench_safe(20, 1000) for _ in range(5)),
            "paged_ns": min(inside.inside_bench_paged(20, 1000) for _ in range(5))}


def spin(ready):
    """Pushes and pops frames of every kind."""
    ready.append(threading.get_ident())
    n = 0
    while len(ready) < 2:
        n += dig(n % 5, lambda: 1)
        n += sum(x for x in range(3))
        n += max([1, 2], key=lambda x: x)
        try:
            dig(2, lambda: 1 // 0)
        except ZeroDivisionError:
            n += 1


def signals():
    """Handlers that walk on a thread that runs Python at full speed: whatever it does, the outer part of its stack is
    known."""
    ready = []
    sys.setswitchinterval(0.0005)
    thread = threading.Thread(target=dig, args=(10, lambda: spin(ready)))
    thread.start()
    while not ready:
        time.sleep(0.001)
    bad, torn, names = [], 0, collections.Counter()
    for _ in range(2000):
        count = inside.inside_signal(ready[0])
        stack = [line.rsplit(":", 1)[1].split(".")[-1] for line in described(max(count, 0))]
        cut = holding.inside_cut() != 0
        torn += cut
        names[stack[0] if stack else "nothing"] += 1
        # In the few instructions in which the interpreter enters a frame there is no stack to walk, and the walk says
        # so.
        if not cut and stack[-16:] != ["spin", "<lambda>"] + ["dig"] * 11 + OUTERMOST:
            bad.append([count, stack])
    ready.append(None)
    thread.join()
    return {"bad": bad[:3], "torn": torn, "innermost": names}


why = inside.inside_open().decode()
if why:
    print(json.dumps({"refused": why}))
else:
    print(json.dumps({"plain": compare(), "through_c": through_c(7), "bench": dig(25, bench), "signals": signals()}))
