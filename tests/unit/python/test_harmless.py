"""Markers run no code of the program, load no module for it, and leave its exceptions alone: every entry of the package
against objects whose every method would tell, with spans in C and in Python, with a record, without, and without the
tracer."""
import unittest

import package_case

# `call_all(x)` gives x to every entry in every place; `entries` are those alone.
ENTRIES = r"""
import json, os, sys
import titantrace as tt
from titantrace import gpu_span, span
def raises(x):
    with span("raises"):
        raise x
def set_in(x):
    with span("sets") as entered:
        entered.set(k=x)
def in_gpu_span(x):
    with gpu_span("gpu", k=x):
        pass
def in_step(x):
    with tt.step(x):
        pass
def decorated(x):
    span("decorates")(x), gpu_span("decorates")(x)
    span(x)
def in_span(x):
    with span("span", k=x):
        pass
def named_by(x):
    made = span(x)
    if hasattr(type(made), "__enter__"):
        with made:
            pass
entries = {
    "span": in_span, "named": named_by, "set": set_in, "gpu_span": in_gpu_span, "step": in_step,
    "event": lambda x: tt.event("event", k=x), "event named": lambda x: tt.event(x),
    "relative_step": lambda x: tt.step(1, x), "step_tag": lambda x: tt.step_tag(x),
    "metric": lambda x: tt.metric("metric", x), "metric named": lambda x: tt.metric(x, 1.0),
    "reduce": lambda x: tt.metric("metric", 1.0, reduce=x), "weight": lambda x: tt.metric("metric", 1.0, weight=x),
    "label": lambda x: tt.label("key", x), "label named": lambda x: tt.label(x, "value"),
    "record": lambda x: tt.record(x),
}
"""

HOSTILE = ENTRIES + r"""
import warnings
warnings.simplefilter("error")
ran, is_armed = [], False
class Reached(BaseException):
    pass
def tells(name):
    def method(self, *arguments, **named):
        if is_armed:
            ran.append(name)
            raise Reached(name)
        return NotImplemented
    return method
NAMES = ("str repr bytes format bool index int float complex len iter next contains getitem eq ne lt gt le ge add "
         "getattribute getattr set_name enter exit reduce reduce_ex instancecheck subclasscheck fspath length_hint "
         "trunc round floor ceil call get dir").split()
def hostile_of(base):
    plain = base.__getattribute__
    class Meta(type(base)):
        def __getattribute__(cls, name):
            if is_armed:
                ran.append(f"class.{name}")
                raise Reached(name)
            return super().__getattribute__(name)
        __eq__ = tells("class eq")
        __hash__ = lambda cls: tells("class hash")(cls) if is_armed else type.__hash__(cls)
        __instancecheck__ = tells("class instancecheck")
        if not issubclass(base, BaseException):  # CPython asks it itself when it raises one
            __subclasscheck__ = tells("class subclasscheck")
        __name__ = property(tells("class name"))
    body = {f"__{name}__": tells(name) for name in NAMES}
    body["__getattribute__"] = lambda self, name: (tells(f"getattribute {name}")(self) if is_armed
                                                   else plain(self, name))
    body["__hash__"] = lambda self: tells("hash")(self) if is_armed else base.__hash__(self)
    body.update({name: property(tells(name)) for name in ("item", "device", "dtype", "args", "value", "_name_")})
    body["__class__"] = property(lambda self: tells("__class__")(self) if is_armed else base)
    return Meta("Hostile", (base,), body)
class Without:
    pass
objects = [hostile_of(Without)(), hostile_of(str)("text"), hostile_of(int)(5), hostile_of(float)(0.5),
           hostile_of(bytes)(b"bytes"), hostile_of(tuple)((1, 2)), hostile_of(list)([1, 2]),
           hostile_of(dict)({"loss": 1.0}), hostile_of(Without)]
inside = [[each] for each in objects] + [(each,) for each in objects] + [{"loss": each} for each in objects]
errors = [hostile_of(kind)(*objects[:2]) for kind in (Exception, KeyError, OSError, BaseException, UnicodeError)]
errors += [kind(*objects[:3]) for kind in (ValueError, KeyError, OSError, RuntimeError, StopIteration)]
errors[-3].strerror = objects[0]
seen = []
is_armed = True
others = [None, object(), b"bytes", 1 << 70, 10 ** 5000, float("nan"), "\udcff", ""]
for turn, x in enumerate(objects + inside + others):
    for name, entry in [*entries.items(), ("decorates", decorated)]:
        if name == "decorates" and not callable(x) or name == "named" and callable(x):
            continue
        try:
            entry(x)
        except BaseException as error:
            seen.append([turn, name, BaseException.__repr__(error)])
for error in errors:
    try:
        raises(error)
    except BaseException as caught:
        if caught is not error:
            seen.append(BaseException.__repr__(caught))
is_armed = False
print(json.dumps([seen, ran]))
"""

# Modules that the program has only named. (What a warning is printed with is loaded by Python.)
LAZY = ENTRIES + r"""
import importlib.util, pathlib, warnings
warnings.simplefilter("ignore")
names = ["torch", "torch.compiler", "torch.nn", "numpy"]
place = pathlib.Path(os.environ["PLACE"])
for name in names:
    file = place / (name + ".py")
    file.write_text("print('loaded', __name__)")
    spec = importlib.util.spec_from_file_location(name, file)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
before = set(sys.modules)
class Own:
    pass
for x in ("text", 1, 0.5, None, Own(), [1], {"loss": 2.0}):
    for entry in entries.values():
        entry(x)
try:
    raises(ValueError(Own()))
except ValueError:
    pass
print(json.dumps([type(sys.modules[name]).__name__ for name in names] + sorted(set(sys.modules) - before)))
"""

# As far as the stack goes, with a marker in every frame; then a marker where 0 to 60 frames are left.
NO_STACK = ENTRIES + r"""
other = []
def recurse(entry):
    entry(1)
    recurse(entry)
def nested():
    with span("nested"):
        nested()
def down(frames, entry):
    if frames:
        return down(frames - 1, entry)
    entry(1)
works = {"nested": nested, **{name: lambda entry=entry: recurse(entry) for name, entry in entries.items()}}
for name, work in works.items():
    try:
        work()
    except RecursionError:
        continue
    except BaseException as error:
        other.append([name, repr(error)])
def deepest():
    depth = 0
    def deeper():
        nonlocal depth
        depth += 1
        deeper()
    try:
        deeper()
    except RecursionError:
        return depth
most = deepest()
for name, entry in entries.items():
    for left in range(60):
        try:
            down(most - left, entry)
        except RecursionError:
            pass
        except BaseException as error:
            other.append([name, left, repr(error)])
with span("after"):
    tt.event("in it")
print(json.dumps(other))
"""

# A handler raises in the midst of markers: the program sees each of its exceptions, and no other. What raises in a
# callback of the interpreter's own is nobody's: sys.unraisablehook counts it.
INTERRUPTED = ENTRIES + r"""
import signal
class Timeout(BaseException):
    pass
raised = caught = ignored = 0
others, is_on = [], False
def handler(*_):
    global is_on, raised
    if is_on:
        is_on = False  # another signal may come before this one has raised
        raised += 1
        raise Timeout
def unraisable(found):
    global ignored
    ignored += found.exc_type is Timeout
sys.unraisablehook = unraisable
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
def fails(x):
    try:
        raises(ValueError("words", x))
    except ValueError:
        pass
while caught + ignored < 300 and not others:
    try:
        is_on = True
        for entry in [*entries.values(), fails] * 20:
            entry(1)
        is_on = False
    except Timeout:
        is_on = False
        caught += 1
    except BaseException as error:
        is_on = False
        others.append(repr(error))
signal.setitimer(signal.ITIMER_REAL, 0)
print(json.dumps([raised - caught - ignored, others]))
"""

# Each span of a task begins before the one before it has ended; and three at a time.
OVERLAP = r"""
import asyncio, collections, gc, json, sys
import titantrace
async def main():
    open_spans = collections.deque()
    def run(count, most):
        for _ in range(count):
            entered = titantrace.span("overlaps").__enter__()
            open_spans.append(entered)
            if len(open_spans) > most:
                open_spans.popleft().__exit__(None, None, None)
    grown = []
    for most in 1, 3:
        run(100, most)
        gc.collect()
        before = sys.getallocatedblocks()
        run(5000, most)
        gc.collect()
        grown.append(sys.getallocatedblocks() - before)
    return grown
print(json.dumps(asyncio.run(main())))
"""


class Harmless(package_case.Case):
    newest_by_day = True

    def each_way(self, program, **variables):
        """What it prints on each Python: with a record, in a process that is no rank, and without the tracer."""
        variables["PLACE"] = str(self.place)
        rank = {"RANK": "3", "WORLD_SIZE": "8"}
        for python in self.each_python():
            for where, preload, more in (("record", True, rank), ("no rank", True, {}), ("no tracer", False, rank)):
                for self.preamble in ("", package_case.IN_PYTHON) if preload else ("",):
                    with self.subTest(where=where, spans="in Python" if self.preamble else "as they are"):
                        yield self.run_program(python, "run", preload, program, **more, **variables)

    def test_no_code_of_the_program_runs(self):
        for answer in self.each_way(HOSTILE):
            self.assertEqual(answer, [[], []])

    def test_no_module_is_loaded(self):
        for answer in self.each_way(LAZY):
            self.assertEqual(answer, 4 * ["_LazyModule"])

    def test_no_stack_is_left(self):
        for answer in self.each_way(NO_STACK):
            self.assertEqual(answer, [])

    def test_exceptions_of_handlers(self):
        for answer in self.each_way(INTERRUPTED):
            self.assertEqual(answer, [0, []])

    def test_spans_that_overlap(self):
        for grown in self.each_way(OVERLAP):
            self.assertLess(max(grown), 300)


if __name__ == "__main__":
    package_case.main()
