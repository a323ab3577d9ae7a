"""Spans in C (titantrace/_spans.c) are those in Python: they tell the same, cost no memory, and neither an exception
of the program's nor torch.compile sees a difference."""
import argparse
import subprocess
import unittest

import package_case
import nightly  # package_case names its directory
from package_case import IN_PYTHON, ROOT

# What the program sees of spans, and what they tell, in every way that they can be used.
EVERY_WAY = r"""
import asyncio, contextlib, copy, json, os, pickle, signal, sys, threading
import titantrace
seen = []
def see(what):
    seen.append(what)

# names
class Text(str):
    pass
class Silent:
    def __str__(self):
        raise RuntimeError("no words")
for name in ("", "plain", "h\xe4lfte \u20ac", "cut \udcff here", "up to\0NUL", "x" * 1000, Text("subclass"), 7, None,
             Silent(), b"bytes"):
    with titantrace.span(name):
        pass
for wrong in (lambda: titantrace.span("a", "b"), lambda: titantrace.span(name="a").set(1),
              lambda: titantrace.span("a").set(1), lambda: titantrace.span("a")(), lambda: titantrace.span("a")(1, 2)):
    try:
        wrong()
    except TypeError:
        see("TypeError")
titantrace.span(*["by star"], **{}).__enter__().__exit__(None, None, None)

# attributes
for given in ({"n": 1, "share": 0.5, "text": "t"}, {"big": 2 ** 63 - 1, "least": -2 ** 63},
              {"too big": 2 ** 64, "n": 2}, {"flag": True, "none": None}, {"cut": "\udcff"}, {"cut \udcff": 1},
              {"in": "up to\0NUL", "name": "n"}, {"own": Text("subclass")}, {"silent": Silent()},
              {"nan": float("nan"), "list": [1, 2]}, {"": ""}):
    with titantrace.span("told", **given) as entered:
        entered.set(**given)
    made = titantrace.span("copied", **given)
    with copy.copy(made) as entered:
        see(entered is not made)
    @titantrace.span("decorator with attributes", **given)
    def decorated():
        pass
    decorated()
with pickle.loads(pickle.dumps(titantrace.span("pickled", n=1, text="t"))):
    pass

# one object again and again, out of order, recursively, and by threads
again = titantrace.span("again")
see(again.__exit__(None, None, None))
again.set(before=1)
def deeper(depth):
    with again as entered:
        see(entered is again)
        again.set(depth=depth, text="t", share=0.5)
        if depth:
            deeper(depth - 1)
deeper(3)
again.__enter__()
again.__enter__()
def beside():
    again.__enter__()
    with again:
        titantrace.event("beside")
    again.__exit__(None, None, None)
thread = threading.Thread(target=beside)
thread.start()
thread.join()
for _ in range(3):
    again.__exit__(None, None, None)
unfinished = titantrace.span("unfinished")
unfinished.__enter__()
unfinished.__enter__()
del unfinished
with contextlib.ExitStack() as stack:
    see(stack.enter_context(titantrace.span("of a stack")) is not None)
for name in "one place", "the same place":
    with titantrace.span(name): pass

# what leaves a span
class Own(BaseException):
    pass
for error in (ValueError("wrong"), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), StopIteration(4), Own("mine"),
              ValueError):
    try:
        with titantrace.span("fails"), titantrace.span("inner"):
            raise error
    except BaseException as caught:
        see([type(caught).__name__, caught is error, caught.__context__ is None])
def interrupted(*_):
    raise TimeoutError("from a handler")
signal.signal(signal.SIGUSR2, interrupted)
try:
    with titantrace.span("interrupted"):
        os.kill(os.getpid(), signal.SIGUSR2)
        for _ in range(100):
            pass
except TimeoutError as caught:
    see(str(caught))
class Loud(Exception):
    def __str__(self):
        raise Own("nobody asks for these words")
for fails in (lambda: titantrace.span("fails loudly"), lambda: titantrace.span("in Python", what=Loud())):
    try:
        with fails() as entered:
            entered.set(what=Loud())
            raise Loud("its argument is text")
    except Loud:
        see("Loud")
def generator():
    with titantrace.span("in a generator"):
        yield 1
        yield 2
next(generator())
with titantrace.span("handled"):
    try:
        raise KeyError("kept")
    except KeyError:
        with titantrace.span("while handled"):
            see(repr(sys.exc_info()[1]))

# decorators, copies
decorated = titantrace.span("decorator")
@decorated
def twice(x):
    return 2 * x
see([twice(4), twice.__name__, titantrace.span(twice)(5)])
held = {"span": again, "function": titantrace.span}
copied = copy.deepcopy(held)
see([copied["span"] is not again, copied["function"] is titantrace.span])
with copied["span"]:
    pass
with pickle.loads(pickle.dumps(titantrace.span("pickled"))):
    pass
see(pickle.loads(pickle.dumps(titantrace.span)) is titantrace.span)
import inspect
see([str(inspect.signature(titantrace.span))[:5], titantrace.span.__name__, titantrace.span.__module__,
     bool(titantrace.span.__doc__)])

# tasks, callbacks, a task that is told while another is in a span
async def worker(n, turns):
    with titantrace.span(f"worker {n}"):
        await turns[n].wait()
        with titantrace.span("inside", n=n), titantrace.span("innermost"):
            await asyncio.sleep(0)
        turns[n + 1].set()
        if n == 2:
            raise ValueError("a task's")
async def items():
    with titantrace.span("items"):
        yield 1
        yield 2
async def main():
    with titantrace.span("main"):
        turns = [asyncio.Event() for _ in range(4)]
        turns[0].set()
        workers = [worker(n, turns) for n in range(3)]
        see([repr(result) for result in await asyncio.gather(*workers, return_exceptions=True)])
        async for item in items():
            with titantrace.span("item"):
                await asyncio.sleep(0)
        done = asyncio.Event()
        def callback():
            with titantrace.span("callback"):
                done.set()
        asyncio.get_running_loop().call_soon(callback)
        await done.wait()
        def in_thread():
            with titantrace.span("other thread"):
                pass
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
with titantrace.span("around"):
    asyncio.run(main())

# a child has no record, and the parent's goes on
with titantrace.span("over a fork"):
    child = os.fork()
    if child == 0:
        for _ in range(3):
            with titantrace.span("in the child"):
                pass
        os._exit(0)
    see(os.waitpid(child, 0)[1])
for _ in range(2):
    with titantrace.span("after the fork"):
        pass
print(json.dumps([titantrace.dump(), seen]))
"""

# How much is left of SPANS spans and more: blocks of memory, references, pages.
LEFT = r"""
import asyncio, copy, gc, json, os, sys
import titantrace
again = titantrace.span("again")
name = "".join(["na", "me"])
def recurse(depth):
    with again:
        if depth:
            recurse(depth - 1)
def fail():
    try:
        with titantrace.span(name):
            raise ValueError("wrong")
    except ValueError:
        pass
def attributes():
    with titantrace.span(name) as entered:
        entered.set(n=1)
def unfinished():
    titantrace.span(name).__enter__()
def round(count):
    for _ in range(count):
        with titantrace.span(name):
            pass
    for i in range(count // 100):
        recurse(5), fail(), attributes(), titantrace.span(name)(fail)()
        copy.copy(titantrace.span(name, n=1, text="t", share=0.5)), titantrace.span(name, n=None, m=1)
        with titantrace.span(name, n=i, text=name, share=0.5):
            pass
        titantrace.span(name, n=1)(fail)()
    for _ in range(20):
        unfinished()
async def task(count):
    round(count)
def all_of(count):
    round(count)
    asyncio.run(task(count // 4))
def held():
    gc.collect()
    with open("/proc/self/statm") as numbers:
        pages = int(numbers.read().split()[1])
    counted = sys.getrefcount(name), sys.getrefcount(type(again)), sys.getrefcount(round.__code__)
    return sys.getallocatedblocks(), sys.getrefcount(None), pages, *counted
all_of(100_000)
before = held()
all_of(int(os.environ["SPANS"]))
after = held()
print(json.dumps([titantrace.dump(), [now - then for then, now in zip(before, after)]]))
"""

# A span must not turn this error into another, nor end the process.
NO_STACK = r"""
import json, titantrace
reached = 0
def recurse():
    global reached
    reached += 1
    with titantrace.span("recursion"):
        recurse()
try:
    recurse()
except RecursionError as error:
    caught = type(error).__name__
with titantrace.span("after"):
    pass
print(json.dumps([titantrace.dump(), caught, reached > 50]))
"""

IS_IN_C = r"""
import json, titantrace
print(json.dumps([type(titantrace.span).__name__, type(titantrace.span("x")).__name__]))
"""

# Interpreters in one process, one after another: the first one has spans in C, and the others meet none of its objects.
INTERPRETERS = r"""
import json, sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
try:  # as the oldest ones are made, which share the GIL and take any extension
    make = lambda: interpreters.create("legacy")
    first = make()
except TypeError:
    make = interpreters.create if sys.version_info < (3, 12) else lambda: interpreters.create(isolated=False)
    first = make()
run = getattr(interpreters, "run_string", None) or interpreters.exec
SPANS = '''
import titantrace
with titantrace.span("of another interpreter"):
    pass
assert type(titantrace.span).__name__ == "function"
'''
failed = [run(first, SPANS)]
import titantrace
for _ in range(2):
    with titantrace.span("of the first"):
        second = make()
        failed.append(run(second, SPANS))
        interpreters.destroy(second)
interpreters.destroy(first)
print(json.dumps([titantrace.dump(), type(titantrace.span).__name__, failed]))
"""

# In one graph, as long as the span begins inside. One from outside breaks it, and the result is the same.
COMPILED = r"""
import json, threading, warnings
warnings.simplefilter("ignore")
import titantrace, torch
from titantrace import span
outside = span("outside")
def plain(x):
    with titantrace.span("a"), span("b", k=2) as inner:
        inner.set(n=1)
        for i in range(2):
            with span(f"layer {i}"):
                x = x + i
    return x * 2
class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = span("part")
    @span
    def forward(self, x):
        with span("forward"):
            return x + 1
class Broken(Module):
    def forward(self, x):
        with self.part:
            x = x + 1
        return x * 3
one = torch.ones(1)
results = [torch.compile(of, backend="eager", fullgraph=True)(one).item() for of in (plain, Module())]
results += [torch.compile(of, backend="eager")(one).item() for of in (Broken(), Module())]
breaks = torch._dynamo.explain(plain)(one).graph_break_count
with titantrace.span("eager"):
    pass
torch.compiler._is_compiling_flag = True  # as what runs while a graph is made sees it
with titantrace.span("while it compiles"):
    pass
torch.compiler._is_compiling_flag = False
print(json.dumps([titantrace.dump(), results, breaks]))
"""


def told(markers):
    """What each tells beside times and numbers; a span's parent by name."""
    names = {marker["span"]: marker["name"] for marker in markers if marker["marker"] == "span_begin"}
    tasks = {0: 0}
    for marker in markers:
        tasks.setdefault(marker.get("task", 0), len(tasks))
    return [[marker["marker"], marker["name"], marker["text"], marker["depth"], names.get(marker.get("span")),
             names.get(marker.get("parent")), tasks[marker.get("task", 0)],
             marker["called_at"] if marker["marker"] == "span_begin" else ""] for marker in markers]


class Native(package_case.Case):
    def run_both_ways(self, python, name, program):
        """[(result, markers)]: in C, in Python."""
        both = []
        for where, self.preamble in ("c", ""), ("python", "\n" + IN_PYTHON):
            # The first line is the preamble's in both.
            self.preamble = self.preamble.strip() + "\n"
            result = self.run_program(python, f"{name}-{where}", True, program, RANK="3", WORLD_SIZE="8")
            both.append((result, self.markers_in(self.dump_of_rank(f"{name}-{where}"))))
        self.preamble = ""
        return both

    def setUp(self):
        super().setUp()
        if package_case.options.extension is None:
            self.skipTest("the extension module is not built: no Python.h (python3-dev)")

    def test_where_spans_are_in_c(self):
        for python in self.each_python():
            in_c = not python.minor.endswith("t")
            self.assertEqual(self.run_program(python, "c", True, IS_IN_C),
                             ["SpanMaker", "SpanInC"] if in_c else ["function", "Span"])
            self.assertEqual(self.run_program(python, "none", False, IS_IN_C), ["function", "Span"])

    def test_they_tell_the_same(self):
        for python in self.each_python():
            (in_c, markers), (in_python, markers_in_python) = self.run_both_ways(
                python, package_case.name_of(python), EVERY_WAY)
            self.assertTrue(in_c[0])
            self.assertEqual(in_c, in_python)
            self.assertGreater(len(markers), 150)
            self.assertEqual(told(markers), told(markers_in_python))

    def test_interpreters(self):
        for python in self.each_python():
            name = package_case.name_of(python)
            self.assertEqual(self.run_program(python, name, True, INTERPRETERS, RANK="3", WORLD_SIZE="8"),
                             [True, "SpanMaker", [None] * 3])
            begun = [marker["name"] for marker in self.markers_in(self.dump_of_rank(name))
                     if marker["marker"] == "span_begin"]
            self.assertEqual(begun, ["of another interpreter", *(2 * ["of the first", "of another interpreter"])])

    def test_no_stack_is_left(self):
        for python in self.each_python():
            name = package_case.name_of(python)
            self.assertEqual(self.run_program(python, name, True, NO_STACK, RANK="3", WORLD_SIZE="8"),
                             [True, "RecursionError", True])
            markers = self.markers_in(self.dump_of_rank(name))
            self.assertEqual([marker["depth"] for marker in markers if marker["name"] == "after"], [0, 0])

    def test_a_million_leave_nothing(self):
        """A fifth of that on all but the newest. Without a journal, whose writer takes 2 MB as it begins."""
        *_, newest = self.each_python()
        for python in self.each_python():
            spans = 1_000_000 if python == newest else 200_000
            dumped, (blocks, nones, pages, *counted) = self.run_program(
                python, package_case.name_of(python), True, LEFT, RANK="3", WORLD_SIZE="8", SPANS=str(spans),
                TITANTRACE_JOURNAL_MIB="0")
            self.assertTrue(dumped)
            self.assertLess(blocks, 500)
            self.assertEqual(counted, [0, 0, 0])
            self.assertLess(abs(nones), 100)
            self.assertLess(pages, 500)

    @nightly.at_night  # it compiles for ten seconds
    def test_torch_compile(self):
        command = [str(ROOT / ".venv" / "bin" / "python")]
        if subprocess.run([*command, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no PyTorch in .venv: scripts/setup without --no-torch installs it")
        python = argparse.Namespace(command=command)
        (in_c, markers), (in_python, _) = self.run_both_ways(python, "compiled", COMPILED)
        self.assertEqual(in_c, [True, [4.0, 2.0, 6.0, 2.0], 0])
        self.assertEqual(in_c, in_python)
        names = {marker["name"] for marker in markers if marker["marker"] == "span_begin"}
        self.assertEqual(names & {"eager", "while it compiles", "a", "forward"}, {"eager"})


if __name__ == "__main__":
    package_case.main()
