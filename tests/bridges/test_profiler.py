"""PyTorch's profiler ranges as spans (python/titantrace/profiler.py).

    test_profiler.py --library LIB [--real]      --real: with PyTorch, and a training; else with the stand-in beside
                                                 this file
"""
import bridge_case
from bridge_case import REAL, STAND_INS

INSTALL = """
import sys
import titantrace.profiler
assert "torch" not in sys.modules
installed = titantrace.profiler.install()
assert titantrace.profiler.install() == installed == titantrace.active()
assert installed or "torch" not in sys.modules
"""

PROGRAM = INSTALL + r"""
import copy, json, os, threading
from torch.profiler import record_function

results = []
with record_function("outer") as outer:
    results.append((outer.name, type(outer).__name__))
    with record_function("inner", "arguments"):
        pass
try:
    with record_function("fails"):
        raise ValueError("no such row")
except ValueError as error:
    results.append(str(error))

@record_function("decorated")
def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)
results.append((factorial(2), factorial.__name__))

# Two threads are in one range at the same time, and leave it in the order in which they came.
both, first_left = threading.Barrier(2), threading.Event()
@record_function("shared")
def work(is_first):
    both.wait()
    is_first or first_left.wait()
def thread(is_first):
    work(is_first)
    if is_first:
        with record_function("after the first"):
            first_left.set()
threads = [threading.Thread(target=thread, args=(is_first,)) for is_first in (True, False)]
[thread.start() for thread in threads], [thread.join() for thread in threads]

begun_here = record_function("left elsewhere")
begun_here.__enter__()
leaving = threading.Thread(target=begun_here.__exit__, args=(None, None, None))
leaving.start(), leaving.join()
try:
    begun_here.__exit__()
except TypeError:
    results.append("theirs to refuse")
results.append(sorted(set(vars(begun_here)) - {"_titantrace_open"}))

# A forked child is no rank.
with record_function("over a fork"):
    child = os.fork()
    if child == 0:
        with record_function("in the child"):
            pass
if child == 0:
    os._exit(0)
results.append(os.waitpid(child, 0)[1])
print(json.dumps([titantrace.dump(), results]))
"""

# What a profiler sees is what it sees without us.
TRAINING = INSTALL + r'''
import json, linecache, tempfile, torch
from torch.profiler import profile, record_function, ProfilerActivity

torch.manual_seed(3)
meeting_place = tempfile.NamedTemporaryFile()
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting_place.name}", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
rows = torch.utils.data.TensorDataset(torch.arange(24.0).reshape(6, 4))
losses = []
with profile(activities=[ProfilerActivity.CPU]) as profiled:
    for batch, in torch.utils.data.DataLoader(rows, batch_size=2, shuffle=True):
        with record_function("forward"):
            loss = model(batch).square().mean()
        with record_function("backward"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
seen = sorted(event.name for event in profiled.events()
              if event.is_user_annotation and not event.name.startswith("gloo:"))

# TorchScript compiles the class of the range, from its source.
source = """def scripted(x: torch.Tensor):
    with torch.autograd.profiler.record_function("scripted"):
        return x + 1
"""
linecache.cache["scripted.py"] = len(source), None, source.splitlines(True), "scripted.py"
exec(compile(source, "scripted.py", "exec"))
scripts = torch.jit.script(scripted)(torch.ones(2)).tolist()

# One graph: a range that torch.compile could not trace would break it in two, which fullgraph forbids.
@torch.compile(backend="eager", fullgraph=True)
def compiled(x):
    with record_function("compiled"):
        return x * 2
print(json.dumps([titantrace.dump(), [losses, seen, scripts, compiled(torch.ones(2)).tolist()]]))
'''
TRAINED = {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": 4, "forward": 3, "backward": 3,
           "DistributedDataParallel.forward": 3, "Optimizer.step#AdamW.step": 3,
           "Optimizer.zero_grad#AdamW.zero_grad": 3}


class Profiler(bridge_case.Case):
    def marked(self, program):
        return self.same_without_tracer(program, *([] if REAL else [STAND_INS / "profiler"]))

    def begins_of(self, name):
        return [begin for begin, _ in self.spans_of(name)]

    def parents_of(self, name):
        return [self.begun[marker["parent"]]["name"] if marker["parent"] else "" for marker in self.begins_of(name)]

    def test_ranges_of_the_program(self):
        self.marked(PROGRAM)
        self.assertEqual(sorted(marker["name"] for marker in self.begun.values()),
                         sorted(["outer", "inner", "fails", "shared", "shared", "after the first", "left elsewhere",
                                 "over a fork"] + 3 * ["decorated"]))
        self.assertEqual(self.parents_of("inner"), ["outer"])
        self.assertEqual(self.parents_of("decorated"), ["", "decorated", "decorated"])
        error, = [marker for marker in self.markers if marker["marker"] == "error"]
        self.assertEqual((error["text"], error["span"]),
                         ("ValueError: no such row", self.begins_of("fails")[0]["span"]))
        self.assertRegex(self.begins_of("inner")[0]["called_at"], r"^<string>:\d+ <module>$")
        self.assertEqual([marker["called_at"].rpartition(" ")[2] for marker in self.begins_of("decorated")],
                         ["<module>", "factorial", "factorial"])
        self.assertRegex(self.begins_of("shared")[0]["called_at"], r"^<string>:\d+ thread$")
        self.check_threads()

    def check_threads(self):
        """Threads that are in one range end their own spans."""
        first, = self.begins_of("after the first")
        for begin, end in self.spans_of("shared"):
            self.assertEqual(end["thread"], begin["thread"])
            self.assertEqual(end["ticket"] < first["ticket"], begin["thread"] == first["thread"])
        (begin, end), = self.spans_of("left elsewhere")
        self.assertNotEqual(begin["thread"], end["thread"])

    if REAL:
        def test_a_training(self):
            _, seen, _, _ = self.marked(TRAINING)
            counted = {name: len(self.begins_of(name)) for name in TRAINED}
            self.assertEqual(counted, TRAINED)
            self.assertEqual({marker["name"] for marker in self.begun.values()}, set(TRAINED))
            self.assertEqual(sorted(seen), sorted(name for name, count in TRAINED.items() for _ in range(count)))


if __name__ == "__main__":
    bridge_case.main()
