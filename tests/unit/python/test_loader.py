"""titantrace.wrap(loader) behaves as the loader: each protocol that a loader can have, of a wrapped one and of the bare
one, on every Python, with and without the tracer."""
import unittest

import package_case

# Each row is a protocol: what a program sees of a loader that has it, by value, and by its type and its words where it
# fails. `make()` makes the loader; `of(loader)` makes it the bare or the wrapped one.
PROTOCOLS = r"""
import asyncio, collections, collections.abc, copy, gc, json, multiprocessing, operator, pickle, subprocess, sys, typing
import weakref
import titantrace

class Items(list):  # everything a sequence has, and attributes
    batch = 2
    label: str = "items"
class Streams:  # no length
    batch = 2
    def __init__(self, *given): self.given = given
    def __iter__(self): return iter(range(self.batch))
class Guarded(Streams):
    def __enter__(self): return self
    def __exit__(self, *error): self.error = error[0]
    def __eq__(self, other): return isinstance(other, Guarded) and self.given == other.given
    def __getattr__(self, name): raise AttributeError(f"no {name} here")
    def __bool__(self): return self.batch == 3
    def __len__(self): return 7
    def __length_hint__(self): return 9
    def __call__(self, *numbers): return sum(numbers)
class Other(Streams):
    def __enter__(self): return "another"
    def __exit__(self, *error): return True
    def __hash__(self): return 17
class ByIndex:
    def __getitem__(self, number):
        if number > 2: raise IndexError(number)
        return number
class Asynchronous:
    def __init__(self): self.left = 3
    def __aiter__(self): return self
    async def __anext__(self):
        self.left -= 1
        if self.left < 0: raise StopAsyncIteration
        return self.left
class Slots:
    __slots__ = ("batch",)
    def __init__(self): self.batch = 2
    def __iter__(self): return iter([self.batch])
class Fails(Streams):
    def __iter__(self): raise ValueError("no data")
class FailsLate(Streams):
    def __iter__(self):
        yield 1
        raise ValueError("no more")
class Abstract(collections.abc.Mapping):
    def __getitem__(self, key): return {"a": 1}[key]
    def __iter__(self): return iter(["a"])
    def __len__(self): return 1
T = typing.TypeVar("T")
class Generic(typing.Generic[T]):
    def __iter__(self): return iter([1])
def generator():
    got = yield 1
    yield got
KINDS = {"list": lambda: [3, 1, 2], "items": lambda: Items([3, 1, 2]), "streams": Streams, "guarded": Guarded,
         "other": Other, "by index": ByIndex, "asynchronous": Asynchronous, "slots": Slots, "fails": Fails,
         "fails late": FailsLate, "mapping": Abstract, "generic": lambda: Generic[int](), "generator": generator,
         "iterator": lambda: iter([1, 2]), "range": lambda: range(3), "tuple": lambda: (1, 2), "dict": lambda: {"a": 1},
         "set": lambda: {1}, "none": lambda: None, "function": lambda: len}

async def items_of(loader):
    return [item async for item in loader]
async def next_of(loader):
    return await loader.__anext__()
def enter(loader):
    with loader as entered:
        return [entered is loader, entered if type(entered) is str else list(entered)]
def fails_inside(loader):
    with loader:
        raise KeyError("inside")
def set_and_get(loader):
    loader.batch = 3
    found = loader.batch, getattr(loader, "given", None), [*loader]
    del loader.batch
    return found, loader.batch
def copied_by(copier):
    def work(loader):
        made = copier(loader)
        if hasattr(made, "batch") and hasattr(made, "given"):
            made.batch = 5
            return made is loader, loader.batch, list(made), type(made) is type(loader)
        return list(made)
    return work
def add_to_itself(loader):
    loader += [4]
    return list(loader), type(loader).__name__
def first_and_rest(loader):
    items = iter(loader)
    return next(items), operator.length_hint(items), iter(items) is items, list(items)
def by_name(loader):
    return list(loader.__iter__()), hasattr(loader, "__next__"), hasattr(loader, "__len__")
def in_process(method):
    def work(loader):
        with multiprocessing.get_context(method).Pool(1) as pool:
            return pool.apply(list, (loader,)), pool.apply(sum, (loader,))
    return work
def weakly(loader):
    return weakref.ref(loader)() is loader
ROWS = {
    "iter": list, "twice": lambda l: [list(l), list(l)], "unpack": lambda l: [*l], "zip": lambda l: list(zip(l, "abc")),
    "enumerate": lambda l: list(enumerate(l)), "next": next, "step by step": first_and_rest, "by name": by_name,
    "send": lambda l: [next(l), l.send(4), l.close()], "len": len, "bool": bool, "length_hint": operator.length_hint,
    "contains": lambda l: (1 in l, 9 in l), "getitem": lambda l: l[0], "slice": lambda l: l[1:],
    "key": lambda l: l["a"],
    "setitem": lambda l: [operator.setitem(l, 0, 5), list(l)], "delitem": lambda l: [operator.delitem(l, 0), list(l)],
    "reversed": lambda l: list(reversed(l)), "sorted": sorted, "index": operator.index, "call": lambda l: l([1, 2]),
    "getattr": lambda l: (l.batch, l.label), "setattr": set_and_get, "no attribute": lambda l: l.missing,
    "no default": lambda l: getattr(l, "missing", "default"), "delattr": lambda l: delattr(l, "missing"),
    "set missing": lambda l: setattr(l, "missing", 1), "dict": lambda l: vars(l), "method": lambda l: l.count(1),
    "repr": lambda l: repr(l).partition(" at ")[0], "str": lambda l: str(l).partition(" at ")[0], "dir": dir,
    "format": lambda l: f"{l}".partition(" at ")[0], "doc": lambda l: l.__doc__,
    "class": lambda l: l.__class__.__name__,
    "type": lambda l: (type(l).__name__, type(l).__qualname__, type(l).__module__),
    "isinstance": lambda l: [isinstance(l, kind) for kind in (list, Streams, Guarded, tuple, collections.abc.Sized,
        collections.abc.Iterable, collections.abc.Iterator, collections.abc.Mapping, collections.abc.Container,
        collections.abc.Callable, collections.abc.Hashable, collections.abc.AsyncIterator, collections.abc.Generator,
        typing.Sized)],
    "equal": lambda l: (l == l, l != l, l == copy.copy(l), l == [3, 1, 2], [3, 1, 2] == l, l == 5),
    "order": lambda l: (l < [9], [9] > l), "hash": lambda l: hash(l) == hash(l), "as key": lambda l: {l: 1}[l],
    "add": lambda l: l + [4], "add on the right": lambda l: [4] + l, "add in place": add_to_itself,
    "multiply": lambda l: l * 2, "copy": copied_by(copy.copy), "deepcopy": copied_by(copy.deepcopy),
    **{f"pickle {n}": copied_by(lambda l, n=n: pickle.loads(pickle.dumps(l, n))) for n in range(6)},
    "with": enter, "with error": fails_inside, "async for": lambda l: asyncio.run(items_of(l)),
    "anext": lambda l: asyncio.run(next_of(l)), "make another": lambda l: list(type(l)()), "sum": sum,
    "fork": in_process("fork"), "spawn": in_process("spawn"),
    "generic": lambda l: l.__orig_class__.__args__[0].__name__,
    "wrapped twice": lambda l: list(titantrace.wrap(l)), "weakref": weakly,
}
# What differs: a wrapper can be referred to weakly, also where the loader cannot; has __iter__ where iter() goes by
# indexes.
SAME = lambda row, kind: not (row == "weakref" or kind == "by index" and row in ("by name", "isinstance", "dir"))

def told(value):
    if isinstance(value, (list, tuple)):
        return [told(item) for item in value]
    is_plain = type(value) in (str, int, bool, type(None))
    return value if is_plain else [type(value).__name__, str(value).partition(" at ")[0]]

def seen(work, loader):
    try:
        return told(work(loader))
    except Exception as error:
        return [type(error).__name__, str(error).replace("doesn't", "does not")]  # CPython says both

# A CPython that needs another loader than its own starts no processes.
CAN_SPAWN = subprocess.run([sys.executable, "-c", ""], capture_output=True).returncode == 0

def main():
    wrong, rows, held = [], 0, []
    for row, work in ROWS.items():
        for kind, make in KINDS.items():
            if row == "spawn" and not CAN_SPAWN:
                continue
            if row in ("fork", "spawn") and kind not in ("list", "streams", "generator", "fails late"):
                continue  # each takes its time
            bare, wrapped = seen(work, make()), seen(work, titantrace.wrap(make()))
            rows += 1
            if SAME(row, kind) and bare != wrapped:
                wrong.append([row, kind, bare, wrapped])
    classes = len(titantrace.loader._classes)
    for _ in range(100):
        list(titantrace.wrap(type("Own", (Streams,), {})()))
    gc.collect()
    print(json.dumps([wrong, rows > 1000, len(titantrace.loader._classes) - classes]))

if __name__ == "__main__":
    main()
"""

WAITS = r"""
import json, time, titantrace
class Loader:
    def __iter__(self): return (time.sleep(0.001) or n for n in range(3))
loader = titantrace.wrap(Loader(), "own name")
for _ in range(2):
    for item in loader: pass
iterator = titantrace.wrap(iter([1, 2]))
next(iterator), list(iterator)
print(json.dumps(titantrace.dump()))
"""


class Loaders(package_case.Case):
    def test_it_behaves_as_the_loader(self):
        program = self.place / "program.py"  # a file, which spawned processes find
        program.write_text(PROTOCOLS)
        run = f"import runpy, sys; sys.argv = [{str(program)!r}]; runpy.run_path(sys.argv[0], run_name='__main__')"
        program.write_text(PROTOCOLS)
        for python in self.each_python():
            for preload in True, False:
                with self.subTest(preload=preload):
                    self.assertEqual(self.run_program(python, "run", preload, run, RANK="3", WORLD_SIZE="8"),
                                     [[], True, 0])

    def test_each_wait_is_a_span(self):
        for python in self.each_python():
            name = package_case.name_of(python)
            self.assertTrue(self.run_program(python, name, True, WAITS, RANK="3", WORLD_SIZE="8"))
            begun = [marker["name"] for marker in self.markers_in(self.dump_of_rank(name))
                     if marker["marker"] == "span_begin"]
            self.assertEqual(begun, 8 * ["own name"] + 3 * ["data_loading"])


if __name__ == "__main__":
    package_case.main()
