"""Spans of the Python package: of functions, coroutines, generators and tasks, what they tell, and where they must not
get in the way."""
import package_case

# Labels, and then more names of events than there is room for in markers and texts.
LABELS = r"""
import json, time, titantrace
titantrace.label("dp", 3)
titantrace.label("dp", 4)
titantrace.label("role", "trainer")
for i in range(40):
    titantrace.label(f"key {i}", f"value {i}")
for i in range(8_000):
    titantrace.event(f"event {i}")
    if i % 200 == 0:
        time.sleep(0.05)  # names that nobody refers to are freed meanwhile
print(json.dumps(titantrace.dump()))
"""

# Every kind of function, and what their callers see of them is what they see without the decorator.
KINDS = r"""
import asyncio, inspect, json, sys
import titantrace

@titantrace.span
def plain(x):
    return 2 * x

@titantrace.span("named", rows=3, path="/data", share=0.5)
def fails():
    raise ValueError("no such row")

@titantrace.span("items")
def items(n):
    for i in range(n):
        got = yield i
    return got

@titantrace.span("async items")
async def async_items():
    got = "first"
    while got is not None:
        got = yield got

@titantrace.span
async def coroutine(n):
    with titantrace.span("inner"):
        await asyncio.sleep(0.01 * n)
    return n

class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no words")

try:
    with titantrace.span("silent", what=Silent()):
        raise Silent()
except Silent:
    pass
assert plain(4) == 8 and plain.__name__ == "plain"
try:
    fails()
except ValueError:
    pass
assert inspect.isgeneratorfunction(items) and inspect.iscoroutinefunction(coroutine)
assert inspect.isasyncgenfunction(async_items)
first = items(2)
assert next(first) == 0
with titantrace.span("between"):
    assert first.send("a") == 1
try:
    first.send("b")
except StopIteration as end:
    assert end.value == "b"

async def main():
    answers = async_items()
    assert [await answers.asend(None), await answers.asend("second")] == ["first", "second"]
    await answers.aclose()
    tasks = [asyncio.create_task(coroutine(2), name="named"), asyncio.create_task(coroutine(1))]
    assert await asyncio.gather(*tasks) == [2, 1]

asyncio.run(main())
print(json.dumps(titantrace.dump()))
"""

TELLS = r"""
import json, math, os, threading, warnings
import titantrace
with titantrace.step(7, relative_step=2) as step:
    titantrace.step_tag("eval")
    titantrace.metric({"loss": 1.5, "tokens": 3}, reduce="mean", weight=10)
    titantrace.metric("grad_norm", float("nan"))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            titantrace.metric("lr", 1e-3, reduce="no such")
            titantrace.metric("tokens", 1, reduce="mean", weight=-1)
    said = ["titantrace.metric does not know reduce='no such': there",
            "titantrace.metric counts -1 as a weight of 0: weights a"]
    assert [str(one.message)[:55] for one in warned] == (said if titantrace.active() else []), warned
    assert {one.filename for one in warned} <= {"<string>"}, warned
    titantrace.event("saved", bytes=2 ** 40, path="/ckpt", done=True)
for batch in titantrace.wrap([1, 2], "data"):
    pass
loader = titantrace.wrap([1, 2, 3])
assert len(loader) == 3 and loader.count(2) == 1

# Two threads in spans of one name do not swap durations.
both = threading.Barrier(2)
def work(name):
    with titantrace.span(name):
        both.wait()
threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
[thread.start() for thread in threads], [thread.join() for thread in threads]

# A forked child is no rank: what it marks, and ends, is not of this record.
open_span = titantrace.span("open over a fork")
open_span.__enter__()
child = os.fork()
if child == 0:
    open_span.__exit__(None, None, None)
    with titantrace.span("in the child"):
        pass
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
open_span.__exit__(None, None, None)
open_span.__exit__(None, None, None)  # once too often
titantrace.event("x" * 10_000)
status = titantrace.status()
print(json.dumps([titantrace.dump(), status]))
"""

MANY = r"""
import asyncio, json, threading
import titantrace

async def task(n):
    with titantrace.span("task"):
        await asyncio.sleep(0)
        with titantrace.span("inner"):
            await asyncio.sleep(0)

async def main():
    await asyncio.gather(*(task(n) for n in range(10_000)))

asyncio.run(main())

def work():
    for _ in range(3):
        with titantrace.span("thread"):
            titantrace.metric("value", 1.0)

threads = [threading.Thread(target=work) for _ in range(1000)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
with titantrace.span("after"):
    pass
print(json.dumps(titantrace.dump()))
"""

# Spans of a task that end in another order, and one that another task ends.
CROSSED = r"""
import asyncio, json
import titantrace
async def ends(span):
    span.__exit__(None, None, None)
    with titantrace.span("by another"):
        pass
async def inherits():
    with titantrace.span("inherited"):
        pass
async def main():
    first, second, third = map(titantrace.span, ("first", "second", "third"))
    first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    with titantrace.span("in the second"):
        await asyncio.create_task(inherits())
    second.__exit__(None, None, None)
    with titantrace.span("in none"):
        pass
    third.__enter__()
    await asyncio.create_task(ends(third))
    with titantrace.span("in none, too"):
        pass
asyncio.run(main())
print(json.dumps(titantrace.dump()))
"""

# The begins of its open spans are overwritten long before the dump.
OPEN = r"""
import asyncio, json
import titantrace
async def main():
    with titantrace.span("of a task"):
        for _ in range(1000):
            titantrace.event("many")
        print(json.dumps(titantrace.dump()))
with titantrace.span("of the thread"):
    asyncio.run(main())
"""

# The interpreter shuts down inside a span, and its finalizers mark.
LATE = r"""
import json, sys
import titantrace
class Late:
    def __del__(self):
        with titantrace.span("late"):
            titantrace.event("later")
keep = Late()
sys.late = Late()
span = titantrace.span("never ends")
span.__enter__()
print(json.dumps(True))
"""


class Spans(package_case.Case):
    newest_by_day = True

    def marked(self, program, dumped=True, most=65536):
        """The markers of the newest Python."""
        *_, python = self.each_python()
        self.answer = self.run_program(python, "run", True, program, RANK="3", WORLD_SIZE="8",
                                       TITANTRACE_MARKERS=str(most))
        self.plain = self.run_program(python, "plain", False, program, RANK="3", WORLD_SIZE="8")
        self.markers = self.markers_in(self.dump_of_rank("run")) if dumped else []
        return self.markers

    def ends_of(self, name):
        return [marker for marker in self.markers if marker["marker"] == "span_end" and marker["name"] == name]

    def begins_of(self, name):
        return [marker for marker in self.markers if marker["marker"] == "span_begin" and marker["name"] == name]

    def between(self, name):
        """Names of what began and ended while the only span of that name was open."""
        begin, = self.begins_of(name)
        end, = self.ends_of(name)
        self.assertEqual(begin["span"], end["span"])
        self.assertEqual(begin["ticks"], end["begun_ticks"])
        return [(marker["marker"], marker["name"]) for marker in self.markers
                if begin["ticket"] < marker["ticket"] < end["ticket"]]

    def test_every_kind_of_function(self):
        for python in self.each_python():
            name = package_case.name_of(python)
            self.assertTrue(self.run_program(python, name, True, KINDS, RANK="3", WORLD_SIZE="8"))
            self.assertFalse(self.run_program(python, name, False, KINDS, RANK="3", WORLD_SIZE="8"))
            self.markers = self.markers_in(self.dump_of_rank(name))
            self.assertEqual(self.between("plain"), [])
            self.assertIn(("span_begin", "between"), self.between("items"))
            self.assertEqual(self.between("named"), [("attribute", "rows"), ("attribute", "path"),
                                                     ("attribute", "share"), ("error", "")])
            errors = [(marker["text"], marker["span"]) for marker in self.markers if marker["marker"] == "error"]
            self.assertEqual(errors, [("Silent", self.ends_of("silent")[0]["span"]),
                                      ("ValueError: no such row", self.ends_of("named")[0]["span"])])
            self.assertEqual(len(self.ends_of("async items")), 1)

    def test_tasks_nest_in_themselves(self):
        self.marked(KINDS)
        outer = {marker["task"]: marker["span"] for marker in self.begins_of("coroutine")}
        self.assertEqual(len(outer), 2)
        self.assertEqual({marker["task"]: marker["parent"] for marker in self.begins_of("inner")}, outer)
        # Of the outermost span alone the name that the program gave the task is told.
        (named, name), = [(marker["span"], marker["text"]) for marker in self.markers if marker["name"] == "task_name"]
        self.assertIn(named, outer.values())
        self.assertEqual(name, "named")
        self.assertEqual(self.begins_of("between")[0]["task"], 0)
        self.assertEqual(self.begins_of("between")[0]["parent"], 0, "a generator is nobody's outer span")

    def test_spans_that_cross(self):
        """A span lies in the innermost one of its task that is open: never in one that has ended."""
        self.marked(CROSSED)
        begun = [marker for marker in self.markers if marker["marker"] == "span_begin"]
        names = {0: None, **{marker["span"]: marker["name"] for marker in begun}}
        self.assertEqual([(marker["name"], names[marker["parent"]]) for marker in begun],
                         [("first", None), ("second", "first"), ("in the second", "second"),
                          ("inherited", "in the second"), ("in none", None), ("third", None), ("by another", None),
                          ("in none, too", None)])

    def test_what_markers_tell(self):
        self.marked(TELLS)
        told = {(marker["marker"], marker["name"]): marker for marker in self.markers}
        self.assertEqual(told["step", ""]["relative_step"], 2)
        self.assertIn(("step_tag", "eval"), told)
        loss = told["metric", "loss"]
        self.assertEqual((loss["value"], loss["reduction"], loss["weight"]), (1.5, "mean", 10))
        self.assertEqual(loss["span"], self.begins_of("step")[0]["span"])
        self.assertRegex(loss["called_at"], r"^<string>:\d+ <module>$")
        self.assertEqual(told["metric", "grad_norm"]["value"], "nan")
        self.assertEqual(told["metric", "lr"]["reduction"], "")
        self.assertEqual((told["attribute", "bytes"]["value"], told["attribute", "path"]["text"]), (2 ** 40, "/ckpt"))
        self.assertEqual(told["attribute", "bytes"]["span"], told["event", "saved"]["span"])
        self.assertEqual(len(self.ends_of("data")), 3)
        for name in ("one", "two"):
            self.assertEqual(self.ends_of(name)[0]["begun_ticks"], self.begins_of(name)[0]["ticks"])
        self.assertEqual(len(self.ends_of("open over a fork")), 1)
        self.assertEqual(self.begins_of("in the child"), [])
        self.assertIn(("event", "x" * 240), told)

    def test_status(self):
        self.marked(TELLS)
        dumped, status = self.answer
        self.assertTrue(dumped)
        self.assertEqual((status["recording"], status["active"], status["why"]), (True, True, None))
        self.assertTrue(status["ring"].startswith(str(self.place)), status)
        self.assertEqual(status["dumps"], str(self.place / "run"))
        self.assertEqual(status["gpu"], "not yet, or not at all")  # no communicator has been made
        dumped, status = self.plain
        self.assertEqual((dumped, status["recording"], status["ring"]), (False, False, None))
        self.assertIn("LD_PRELOAD", status["why"])

    def test_ten_thousand_tasks_and_a_thousand_threads(self):
        """Not all tasks find room: none ends a span of another, and what is lost is counted."""
        self.marked(MANY, most=65536)
        begun = {marker["span"]: marker["name"] for marker in self.markers if marker["marker"] == "span_begin"}
        ended = {marker["span"]: marker["name"] for marker in self.markers if marker["marker"] == "span_end"}
        self.assertTrue(begun == ended)
        self.assertGreaterEqual(len(self.ends_of("task")), 8000)
        self.assertEqual(len(self.ends_of("thread")), 3_000)
        self.assertEqual(self.begins_of("after")[0]["parent"], 0)
        lost = self.ring_in(self.dump_of_rank("run")).losses()
        self.assertEqual(lost["spans_dropped"], 20_000 - len(self.ends_of("task")) - len(self.ends_of("inner")))
        self.assertEqual(lost["spans_unmatched"], 0)

    def test_spans_that_have_not_ended(self):
        self.marked(OPEN, most=256)
        self.assertEqual(self.begins_of("of a task"), [])
        (thread, no_task), (task, number) = self.ring_in(self.dump_of_rank("run")).open_spans()
        self.assertEqual((thread, no_task, task, number != 0), ("of the thread", 0, "of a task", True))

    def test_labels_outlive_their_markers(self):
        for python in self.each_python():
            name = package_case.name_of(python)
            self.assertTrue(self.run_program(python, name, True, LABELS, RANK="3", WORLD_SIZE="8",
                                             TITANTRACE_MARKERS="64", TITANTRACE_LABELS="application=llama,note=a=b"))
            dump = self.dump_of_rank(name)
            self.assertEqual([marker["name"] for marker in self.markers_in(dump) if marker["marker"] == "label"], [])
            self.assertEqual(self.ring_in(dump).labels(),
                             {"application": "llama", "note": "a=b", "role": "trainer", "dp": "4",
                              **{f"key {i}": f"value {i}" for i in range(40)}})

    def test_an_interpreter_that_shuts_down(self):
        self.marked(LATE, dumped=False)
        self.assertEqual((self.answer, self.plain), (True, True))


class SpansInPython(Spans):
    preamble = package_case.IN_PYTHON

    def each_python(self):
        *_, newest = super().each_python()
        yield newest


if __name__ == "__main__":
    package_case.main()
