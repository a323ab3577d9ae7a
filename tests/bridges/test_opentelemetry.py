"""OpenTelemetry's spans on the recorder (python/titantrace/opentelemetry.py): a program that knows only OpenTelemetry,
by the span processor and by OTEL_TRACES_EXPORTER.

    test_opentelemetry.py --library LIB [--real]
"""
import bridge_case

PROGRAM = r"""
import asyncio, json, os, sys, threading, time
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

class Kept(SpanProcessor):      # what the program itself gets
    spans = []
    def on_end(self, span):
        self.spans.append([span.name, len(span.events), sorted(span.attributes), span.status.status_code.name])

if os.environ.get("OTEL_TRACES_EXPORTER"):
    from opentelemetry.instrumentation.auto_instrumentation import initialize
    initialize()
else:
    trace.set_tracer_provider(TracerProvider())
provider = trace.get_tracer_provider()
for _ in range(int(os.environ.get("PROCESSORS", "0"))):
    import titantrace.opentelemetry
    provider.add_span_processor(titantrace.opentelemetry.SpanProcessor())
provider.add_span_processor(Kept())
tracer = trace.get_tracer("example")
now = time.time_ns()

# Told afterwards: 2 s of loading, 10 s ago, with an event after 1 s of them.
loading = tracer.start_span("loading", start_time=now - 10_000_000_000)
loading.add_event("half", {"bytes": 5}, timestamp=now - 9_000_000_000)
loading.end(end_time=now - 8_000_000_000)

def train():
    with tracer.start_as_current_span("train", attributes={"epoch": 1, "lr": 0.5, "mesh": ("dp", "tp")}) as span:
        with tracer.start_as_current_span("forward"):
            pass
        span.set_attribute("epoch", 2)
        span.set_attribute("late", "yes")
before = time.time_ns()
train()
around = tracer.start_span("around", start_time=before)
around.end(end_time=time.time_ns())

try:
    with tracer.start_as_current_span("evaluate"):
        raise ValueError("no data")
except ValueError:
    pass
failed = tracer.start_span("request")
failed.set_status(trace.StatusCode.ERROR, "503")
failed.end()

async def rollout(n):
    with tracer.start_as_current_span("rollout"):
        await asyncio.sleep(0.01 * n)
        with tracer.start_as_current_span("generate"):
            await asyncio.sleep(0.01)

async def main():
    await asyncio.gather(rollout(2), rollout(1))
asyncio.run(main())

# Of a parent that has ended, and ended by another thread.
saving = tracer.start_span("save", context=trace.set_span_in_context(failed))
thread = threading.Thread(target=saving.end)
with tracer.start_as_current_span("step"):
    thread.start()
    thread.join()

child = os.fork()
if child == 0:
    with tracer.start_as_current_span("of a child"):
        pass
    os._exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

if os.environ.get("PROCESSORS") == "1":
    import titantrace
    kept, titantrace.tracer.span_open = titantrace.tracer.span_open, None
    with tracer.start_as_current_span("unrecorded"):
        pass
    titantrace.tracer.span_open = kept
hanging = tracer.start_span("hanging")
import titantrace
print(json.dumps({"spans": Kept.spans, "child": status, "dumped": titantrace.dump()}))
sys.stdout.flush()
os._exit(0)
"""

SPANS = ["around", "evaluate", "forward", "generate", "generate", "hanging", "loading", "request", "rollout", "rollout",
         "save", "step", "train"]


class OpenTelemetry(bridge_case.Case):
    def check(self, name, **variables):
        self.assertEqual({**self.bridged(name, PROGRAM, **variables), "dumped": False},
                         self.bridged(name, PROGRAM, preload=False, **variables))
        markers = self.markers_of(name)
        told = bridge_case.by_name(markers)
        self.check_spans(markers, told)
        self.check_times(told)
        self.check_facts(markers)

    def check_spans(self, markers, told):
        begun = bridge_case.begun(markers)
        ended = {marker["span"]: marker["name"] for marker in markers if marker["marker"] == "span_end"}
        self.assertEqual(sorted(marker["name"] for marker in begun.values()), SPANS)
        self.assertEqual(sorted([*ended.values(), "hanging"]), SPANS)
        name_of = {span: marker["name"] for span, marker in begun.items()}
        parents = {marker["name"]: name_of.get(marker["parent"]) for marker in begun.values()}
        # OpenTelemetry knows no parent of "step": it lies where a span of ours would, in the thread's innermost.
        self.assertEqual(parents, {**dict.fromkeys(SPANS), "forward": "train", "generate": "rollout", "step": "save"})
        self.assertEqual(len({marker["task"] for marker in begun.values() if marker["name"] == "rollout"} - {0}), 2)
        self.assertNotEqual(told["span_begin", "save"]["thread"], told["span_end", "save"]["thread"])
        self.assertRegex(told["span_begin", "train"]["called_at"], r"^<string>:\d+ train$")

    def check_times(self, told):
        begin, end = (told[kind, "loading"]["ticks"] for kind in ("span_begin", "span_end"))
        self.assertAlmostEqual((told["event", "half"]["ticks"] - begin) / (end - begin), 0.5, delta=0.001)
        # The loading began 10 s before the program told of it, as long as five loadings; then came the training, which
        # the program told of as it was, and of what lay around it by the clock.
        (outer, inner), (inner_end, outer_end) = (
            [(told[kind, name]["ticks"] - begin) / (end - begin) for name in names]
            for kind, names in (("span_begin", ("around", "train")), ("span_end", ("train", "around"))))
        for earlier, later in ((5, outer), (outer, inner), (inner, inner_end), (inner_end, outer_end)):
            self.assertLess(earlier, later + 0.001)

    def check_facts(self, markers):
        begun = bridge_case.begun(markers)
        facts = bridge_case.facts_of(markers)
        self.assertEqual({key: value for key, value in facts.items() if key[0] in ("train", "half")},
                         {("train", "epoch"): 2, ("train", "lr"): 0.5, ("train", "mesh"): "dp,tp",
                          ("train", "late"): "yes", ("half", "bytes"): 5})
        told = [marker["name"] for marker in markers if marker["marker"] == "attribute"]
        self.assertEqual((told.count("epoch"), told.count("lr")), (2, 1))
        self.assertEqual([(begun[marker["span"]]["name"], marker["text"]) for marker in markers
                          if marker["marker"] == "error"], [("evaluate", "ValueError: no data"), ("request", "503")])

    def test_by_the_processor(self):
        self.check("one", PROCESSORS="1")

    def test_two_processors_record_once(self):
        self.check("two", PROCESSORS="2")

    def test_by_the_environment(self):
        self.check("environment", OTEL_TRACES_EXPORTER="titantrace", OTEL_METRICS_EXPORTER="none",
                   OTEL_LOGS_EXPORTER="none", PYTHONPATH=self.path_with_entry_points())

    def test_without_opentelemetry_a_clear_error(self):
        program = r"""
import json
try:
    import titantrace.opentelemetry
except ImportError as error:
    print(json.dumps(str(error)))
"""
        *_, python = self.each_python()
        self.assertEqual(self.run_program(python, "absent", True, program),
                         "titantrace.opentelemetry needs opentelemetry-sdk")


if __name__ == "__main__":
    bridge_case.main()
