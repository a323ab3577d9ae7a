"""Oumi (0.9) on the recorder: its TelemetryTracker, TelemetryCallback and trainers.

    titantrace.oumi.install()                        # before the program makes its trainer, or
    python -m titantrace.oumi train -c config.yaml   # in the place of `oumi`

Every timer is a span of its name. What a timer of the GPU, log_gpu_memory and record_gpu_temperature measure, and what
Oumi's own trainer logs, are metrics: the MFU, and the loss for which NanInfDetectionCallback stops the run. Steps are
those of the trainer; what follows the last batch of an epoch counts to the next one. The trainers of transformers and
TRL that Oumi runs get huggingface.TitanCallback.

Oumi's cuda_timer waits for the device whenever it ends. `install(cuda_timers_wait=False)` leaves that wait out: the
time between its two CUDA events is read when the GPU has passed them, or when Oumi asks for a summary or its state.
Until then it is missing in the tracker's lists. It is the time of the stream's work alone: with the wait, the GPU is
idle when a timer starts, and the time to launch the first kernel is in it.
"""
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import huggingface, tracer
from .bridges import before, harmless, hook, open_span, quietly
from .callbacks import host_values
from .gpu_times import GpuTimes
from .markers import label, mark_metrics, step
from .spans import Span, mark_error

_LIBRARY = "oumi.performance.telemetry"
_SPANS_OF_TRAINER = {"evaluate": "validation_loop", "save_state": "checkpoint_save_sync",
                     "_load_from_checkpoint": "load_from_checkpoint"}
# .timers: those that TelemetryCallback starts while a step begins, until it has begun; .begun: those of the newest
# step; .is_told: it starts those of spans that are on record already
_held = threading.local()


@harmless
def _mark(values: Dict[str, Any], called_by: str = _LIBRARY) -> None:
    mark_metrics(host_values(values), tracer.told_place(called_by))


def _open_of(timer: Any) -> List[Tuple[int, int]]:
    """Thread and id of its open spans: as a decorator, one timer is entered again inside itself, and by any thread."""
    opened: List[Tuple[int, int]] = vars(timer).setdefault("_titantrace_open", [])
    return opened


@harmless
def _begin(timer: Any, place: tracer.Place) -> None:
    if getattr(_held, "is_told", False):
        return
    if getattr(_held, "timers", None) is not None:
        _held.timers.append((timer, place))
    else:
        _open_of(timer).append((threading.get_ident(), open_span(timer.name, place)))


@harmless
def _end(timer: Any, error: Optional[BaseException]) -> None:
    opened = _open_of(timer)
    own = [at for at, (thread, _) in enumerate(opened) if thread == threading.get_ident()]
    if own:
        _, marked = opened.pop(own[-1])
        if error is not None and not isinstance(error, (GeneratorExit, StopIteration)):
            mark_error(marked, error)
        tracer.span_close(marked, None)


def _exit(original: Callable[..., Any]) -> Callable[..., Any]:
    def leave(timer: Any, *raised: Any) -> Any:
        try:
            return original(timer, *raised)
        finally:
            _end(timer, raised[1] if len(raised) > 1 else None)
    return leave


def _cuda_exit(original: Callable[..., Any]) -> Callable[..., Any]:
    def leave(timer: Any, *raised: Any) -> Any:
        known = len(timer.measurements)
        result = original(timer, *raised)
        if len(timer.measurements) > known:
            _mark({f"{timer.name}_cuda_s": timer.measurements[-1]})
        return result
    return leave


class _CudaTimers:
    """Timers that have ended, and whose CUDA events the GPU may not have passed."""

    def __init__(self) -> None:
        self._times = GpuTimes(waits_for_oldest=True)

    def exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """CudaTimerContext.__exit__ without the wait."""
        def leave(timer: Any, *raised: Any) -> Any:
            if not sys.modules["torch"].cuda.is_available():
                return original(timer, *raised)
            timer.end_event.record()
            self._times.add(timer.start_event, timer.end_event, self._tell(timer.measurements, timer.name))
            timer.start_event, timer.end_event = timer._get_new_cuda_event(), timer._get_new_cuda_event()
            quietly(self._times.read)
            return False
        return leave

    @staticmethod
    def _tell(measurements: List[float], name: str) -> Callable[[float], None]:
        def tell(milliseconds: float) -> None:
            measurements.append(milliseconds / 1000)
            _mark({f"{name}_cuda_s": measurements[-1]})
        return tell

    def read_first(self, *_: Any, **__: Any) -> None:
        self._times.read(True)


def _log_gpu_memory(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_gpu_memory(telemetry: Any, custom_logger: Optional[Callable[..., Any]] = None) -> Any:
        def logger(memory: Dict[str, float]) -> None:
            _mark({f"gpu_memory_{name}_mib": value for name, value in memory.items()})
            (custom_logger or telemetry.state.gpu_memory.append)(memory)
        return original(telemetry, logger)
    return log_gpu_memory


def _record_gpu_temperature(original: Callable[..., Any]) -> Callable[..., Any]:
    def record_gpu_temperature(telemetry: Any) -> Any:
        known = len(telemetry.state.gpu_temperature)
        result = original(telemetry)
        if len(telemetry.state.gpu_temperature) > known:  # there is a GPU
            _mark({"gpu_temperature": result})
        return result
    return record_gpu_temperature


def _step_outermost(original: Callable[..., Any]) -> Callable[..., Any]:
    """TelemetryCallback starts the timer of the first microstep before that of its step."""
    def on_step_begin(callback: Any, *arguments: Any, **named: Any) -> Any:
        _held.timers = []
        try:
            return original(callback, *arguments, **named)
        finally:
            held, _held.timers = _held.timers, None
            _held.begun = [timer for timer, _ in held]
            for timer, place in sorted(held, key=lambda of: str(of[0].name) != "steps"):
                _begin(timer, place)
    return on_step_begin


def _once(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of the Trainers of transformers, huggingface.TitanCallback has made the spans of epochs, steps and microsteps."""
    def tell(callback: Any, args: Any, state: Any = None, *arguments: Any, **named: Any) -> Any:
        _held.is_told = huggingface.follows(state)
        try:
            return original(callback, args, state, *arguments, **named)
        finally:
            _held.is_told = False
    return tell


def _train_epoch(original: Callable[..., Any]) -> Callable[..., Any]:
    """At the end of an epoch a step begins for which there is no batch: TelemetryCallback's timers of it go on until
    the next epoch, through evaluation. Their spans end here."""
    def train_epoch(*arguments: Any, **named: Any) -> Any:
        try:
            return original(*arguments, **named)
        finally:
            for timer in getattr(_held, "begun", ()):
                _end(timer, None)
    return Span("epoch", {})(train_epoch)


class _Steps:
    """Steps of Oumi's own trainer, which passes its callbacks no state."""

    def __init__(self) -> None:
        self._told: Optional[int] = None
        self._relative = 0

    @harmless
    def restart(self, trainer: Any) -> None:
        self._told, self._relative = None, 0
        if trainer.params.run_name:
            label("run_name", trainer.params.run_name)

    @harmless
    def begin(self, trainer: Any) -> None:
        number = trainer.state.global_step + 1
        if number != self._told:  # as after the end of an epoch
            self._told = number
            self._relative += 1
            step(number, self._relative)

    def train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        in_span = Span("training_loop", {})(original)

        def train(trainer: Any, *arguments: Any, **named: Any) -> Any:
            self.restart(trainer)
            return in_span(trainer, *arguments, **named)
        return train

    def process_callbacks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def process_callbacks(trainer: Any, event: str, logs: Optional[Dict[str, Any]] = None) -> Any:
            if event == "on_step_begin":
                self.begin(trainer)
            try:
                return original(trainer, event, logs)
            except BaseException:
                if event == "on_log":  # the trainer will not come to log_metrics
                    _mark(logs or {}, "oumi.Trainer")
                raise
        return process_callbacks


_cuda_timers = _CudaTimers()
_steps = _Steps()


@harmless
def _install_in_trainer() -> None:
    """Only if the program has loaded them: they import much that a program with only a tracker does not need."""
    trainer = getattr(sys.modules.get("oumi.core.trainers.oumi_trainer"), "Trainer", None)
    callback = getattr(sys.modules.get("oumi.core.callbacks.telemetry_callback"), "TelemetryCallback", None)
    if callback is not None:
        hook(callback, "on_step_begin", lambda original: _once(_step_outermost(original)))
        for event in ("on_substep_end", "on_epoch_begin"):
            hook(callback, event, _once)
    if trainer is not None:
        hook(trainer, "train", _steps.train)
        hook(trainer, "_process_callbacks", _steps.process_callbacks)
        hook(trainer, "log_metrics", before(lambda _, metrics, *__, **___: _mark(metrics, "oumi.Trainer")))
        hook(trainer, "_train_epoch", _train_epoch)
        for method, name in _SPANS_OF_TRAINER.items():
            hook(trainer, method, Span(name, {}))


@harmless
def install(cuda_timers_wait: bool = True) -> None:
    """Records what Oumi measures from now on, also with trackers and trainers that exist. Does nothing, and imports
    nothing, where the tracer is not loaded."""
    from oumi.performance import telemetry
    huggingface.install()
    cuda, tracker = telemetry.CudaTimerContext, telemetry.TelemetryTracker
    hook(cuda, "__exit__", lambda original: _exit(
        _cuda_exit(original) if cuda_timers_wait else _cuda_timers.exit(original)))
    hook(telemetry.TimerContext, "__exit__", _exit)
    for timer in (telemetry.TimerContext, cuda):
        hook(timer, "__enter__", before(lambda entered: _begin(entered, tracer.place(3))))
    hook(tracker, "log_gpu_memory", _log_gpu_memory)
    hook(tracker, "record_gpu_temperature", _record_gpu_temperature)
    for asks in ("get_summary", "state_dict", "load_state_dict"):
        hook(tracker, asks, before(_cuda_timers.read_first))
    hook(tracker, "__init__", before(lambda *_, **__: _install_in_trainer()))  # each trainer makes a tracker
    _install_in_trainer()


if __name__ == "__main__":
    import runpy

    import titantrace.oumi  # not this copy of it
    titantrace.oumi.install()
    runpy.run_module("oumi", run_name="__main__", alter_sys=True)
