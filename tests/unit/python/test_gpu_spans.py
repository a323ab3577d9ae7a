"""Spans that tell what the GPU took: the right times on the right spans, and nothing waits."""
import package_case

# PyTorch of a GPU whose clock goes on by the work that the program queues, and which is as far as `done`.
TORCH = r"""
import json, os, sys, types
torch = sys.modules["torch"] = types.ModuleType("torch")
queued = done = 0.0
capturing, is_initialized, refuses = False, True, False
class Event:
    made = 0
    def __init__(self, enable_timing):
        assert enable_timing
        Event.made += 1
    def record(self):
        if refuses:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        self.at = queued
    def query(self):
        if refuses:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return self.at <= done
    def synchronize(self):
        raise AssertionError("waits")
    def elapsed_time(self, end):
        assert end.query()
        return end.at - self.at
torch.cuda = types.SimpleNamespace(Event=Event, is_initialized=lambda: is_initialized,
                                   is_current_stream_capturing=lambda: capturing)
import titantrace

def work(milliseconds):
    global queued
    queued += milliseconds

@titantrace.gpu_span("decorated", rows=2)
def decorated(milliseconds):
    work(milliseconds)
    return milliseconds

"""

USE = TORCH + r"""
with titantrace.gpu_span("outer"):
    with titantrace.gpu_span("inner"):
        work(5)
    work(2)
assert decorated(3) == 3
pending = Event.made
done = queued  # the GPU has come so far
capturing = True
with titantrace.gpu_span("captured"):
    work(100)
capturing = False
is_initialized = False
with titantrace.gpu_span("before CUDA"):
    pass
is_initialized = True
assert Event.made == pending
with titantrace.gpu_span("never over"):
    work(1)
try:
    with titantrace.gpu_span("failed"):
        raise ValueError("no")
except ValueError:
    pass
refuses = True
with titantrace.gpu_span("broken GPU"):
    pass
refuses = False
if os.fork() == 0:
    with titantrace.gpu_span("child"):
        pass
    os._exit(0)
os.wait()
print(json.dumps(titantrace.dump()))
"""

# None of PyTorch's functions is called.
WITHOUT = TORCH + r"""
Event.__init__ = None
assert decorated(3) == 3
with titantrace.gpu_span("outer") as entered:
    assert isinstance(entered, titantrace.gpu_spans.GpuSpan)
print("0")
"""

MANY = TORCH + r"""
for _ in range(3000):
    with titantrace.gpu_span("pending"):
        work(1)
from titantrace import gpu_spans
print(json.dumps([len(gpu_spans._times._pending), titantrace.dump()]))
"""


class GpuSpans(package_case.Case):
    def test_times(self):
        for python in self.each_python():
            name = package_case.name_of(python)
            self.assertTrue(self.run_program(python, name, True, USE, RANK="3", WORLD_SIZE="8"))
            markers = self.markers_in(self.dump_of_rank(name))
            spans = {marker["span"]: marker["name"] for marker in markers if marker["marker"] == "span_begin"}
            self.assertEqual(list(spans.values()), ["outer", "inner", "decorated", "captured", "before CUDA",
                                                    "never over", "failed", "broken GPU"])
            times = {spans[marker["span"]]: marker["value"] for marker in markers if marker["name"] == "gpu_ms"}
            self.assertEqual(times, {"inner": 5.0, "outer": 7.0, "decorated": 3.0})
            self.assertEqual([spans[marker["span"]] for marker in markers if marker["marker"] == "error"],
                             ["failed"])

    def test_nothing_without_the_tracer(self):
        for python in self.each_python():
            self.assertEqual(self.run_program(python, "none", False, WITHOUT), 0)

    def test_a_gpu_that_stands_still(self):
        """The oldest are dropped: nothing is waited for, and memory has a limit."""
        for python in self.each_python():
            name = "many-" + package_case.name_of(python)
            pending, status = self.run_program(python, name, True, MANY, RANK="3", WORLD_SIZE="8")
            self.assertTrue(status)
            self.assertLessEqual(pending, 1025)


if __name__ == "__main__":
    package_case.main()
