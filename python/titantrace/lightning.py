"""PyTorch Lightning (packages lightning and pytorch_lightning) on the recorder. Nothing of a program changes: where
titantrace is installed with pip and the tracer is loaded, every Trainer finds the callback by an entry point. By hand:

    trainer = lightning.Trainer(..., callbacks=[titantrace.lightning.TitanCallback()])

Spans come from the Trainer's hooks and, where it has none, from the actions that it tells its profiler, whichever that
is. So `data_loading` is the wait for the next batch alone: between the end of a batch and the start of the next, other
callbacks save checkpoints, loggers write, and validation runs. Steps are Lightning's `global_step`: the first is 0, and
accumulated batches are one. Metrics are what the program logs: on a CPU after every batch and loop, else when Lightning
itself fetches them for its loggers, since nothing here waits for a device.
"""
import functools
import importlib
import importlib.util
import sys
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import tracer
from .bridges import before, harmless
from .callbacks import Stack, host_values, subclass
from .markers import mark_event, mark_metrics, step

_ITERATION = "training_single_iteration"
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


@functools.lru_cache(maxsize=1024)
def _span_of(action: object) -> str:
    """The span that an action of the profiler is; "" for most, of which there are dozens in a step."""
    owner, _, what = str(action).rpartition(".")
    if what.endswith("_next"):
        return "data_loading"
    if what == "training_step" and owner.startswith("[Strategy]"):
        return "model_forward"
    return {"optimizer_zero_grad": "zero_grad", "optimizer_step": "optimizer_update",
            "save_checkpoint": "checkpoint_save_sync"}.get(what, "")


class _Callback:
    """Makes spans, steps, metrics and errors of what the Trainer tells. One callback is for one Trainer."""

    def __init__(self) -> None:
        self._spans = Stack("lightning.Trainer")
        self._listens_to: List[Tuple[Any, str]] = []
        self._save = "checkpoint_save_sync"
        self._step: Optional[int] = None
        self._first = 0  # step of this run
        self._told: Set[str] = set()  # metrics of batches, and of loops other than the training's

    @harmless
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._stop_listening()
        if next(known for known in trainer.callbacks if isinstance(known, _Callback)) is not self:
            return  # the program has one of its own beside the entry point's
        self._listen(trainer.profiler, "start", self._action_started)
        self._listen(trainer.profiler, "stop", self._action_stopped)
        if str(trainer.strategy.root_device) != "cpu" and trainer.loggers:
            self._listen(trainer.loggers[0], "log_metrics", self._logged)  # every logger is given the same
        if type(trainer.strategy.checkpoint_io).__name__.startswith("Async"):
            self._save = "checkpoint_save_async"

    @harmless
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._stop_listening()
        self._spans.end_all()

    @harmless
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._stop_listening()
        self._spans.end_all(exception)

    def _listen(self, owner: Any, name: str, tell: Callable[..., None]) -> None:
        setattr(owner, name, before(tell)(getattr(owner, name)))
        self._listens_to.append((owner, name))

    def _stop_listening(self) -> None:
        while self._listens_to:
            owner, name = self._listens_to.pop()
            vars(owner).pop(name, None)

    def _action_started(self, action_name: str) -> None:
        # The module's optimizer_step runs the forward and the backward pass, too: on_before_optimizer_step ends them.
        span = _span_of(action_name)
        if span and not action_name.endswith(".optimizer_step"):
            self._begin_action(span)

    def _action_stopped(self, action_name: str) -> None:
        span = _span_of(action_name)
        if span:
            self._end_action(span)

    @harmless
    def _begin_action(self, span: str) -> None:
        self._spans.begin(self._save if span == "checkpoint_save_sync" else span)

    @harmless
    def _end_action(self, span: str) -> None:
        self._spans.end(self._save if span == "checkpoint_save_sync" else span)

    @harmless
    def _logged(self, metrics: Dict[str, Any], step: Optional[int] = None) -> None:
        mark_metrics(host_values(metrics), self._spans.place())

    def _mark_metrics(self, trainer: Any, of_step: bool) -> None:
        """What was logged for the batch or the loop that ends. On a device it would have to be waited for."""
        if str(trainer.strategy.root_device) == "cpu" and not trainer.sanity_checking:
            values = trainer._results.metrics(on_step=of_step)["callback"]
            self._told.update(values)
            mark_metrics(host_values(values), self._spans.place())

    def _mark_metrics_of_epoch(self, trainer: Any) -> None:
        """Lightning joins the values of an epoch's batches after it has told the callbacks that the epoch ends: here
        they are told before anything else happens."""
        if self._listens_to and str(trainer.strategy.root_device) == "cpu":
            mark_metrics(host_values({name: value for name, value in trainer.callback_metrics.items()
                                      if name not in self._told}), self._spans.place())

    @harmless
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._first = trainer.global_step
        self._begin("training_loop", global_step=trainer.global_step)

    @harmless
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._mark_metrics_of_epoch(trainer)
        self._spans.end("training_loop")

    @harmless
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._mark_metrics_of_epoch(trainer)
        self._begin("epoch", epoch=trainer.current_epoch)

    @harmless
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._spans.end("epoch")

    @harmless
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._listens_to and trainer.global_step != self._step and not self._spans.is_told(_ITERATION):
            self._step = trainer.global_step
            step(trainer.global_step, trainer.global_step - self._first + 1)
        self._begin(_ITERATION, batch_idx=batch_idx)

    @harmless
    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self._end(_ITERATION, trainer)

    @harmless
    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        self._begin("model_backward")

    @harmless
    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        self._spans.end("model_backward")

    @harmless
    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self._begin("optimizer_update")

    @harmless
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._begin("validation_loop", **({"sanity_checking": 1} if trainer.sanity_checking else {}))

    @harmless
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._end("validation_loop", trainer)

    @harmless
    def on_validation_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, *_: Any) -> None:
        self._begin("validation_single_iteration", batch_idx=batch_idx)

    @harmless
    def on_validation_batch_end(self, *_: Any) -> None:
        self._spans.end("validation_single_iteration")

    @harmless
    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        self._begin("testing_loop")

    @harmless
    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self._end("testing_loop", trainer)

    @harmless
    def on_test_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, *_: Any) -> None:
        self._begin("testing_single_iteration", batch_idx=batch_idx)

    @harmless
    def on_test_batch_end(self, *_: Any) -> None:
        self._spans.end("testing_single_iteration")

    @harmless
    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Dict[str, Any]) -> None:
        if self._listens_to:
            mark_event("checkpoint_load", self._spans.place(), {"global_step": checkpoint.get("global_step", -1)})

    def _begin(self, name: str, **attributes: object) -> None:
        if self._listens_to:
            self._spans.begin(name, **attributes)

    def _end(self, name: str, trainer: Any) -> None:
        """A span after which there are new metrics."""
        if self._listens_to:
            self._mark_metrics(trainer, of_step=name == _ITERATION)
            self._spans.end(name)


def _made(package: str) -> Any:
    """The callback's class for that package."""
    name = f"_TitanCallback_{package.replace('.', '_')}"
    return globals().get(name) or subclass(globals(), name, _Callback, importlib.import_module(package).Callback)


def callbacks() -> List[Any]:
    """Entry point of lightning.pytorch.callbacks_factory: [] where the tracer is not loaded."""
    return [_made("lightning.pytorch")()] if tracer.is_loaded else []


def callbacks_of_pytorch_lightning() -> List[Any]:
    """Entry point of pytorch_lightning.callbacks_factory."""
    return [_made("pytorch_lightning")()] if tracer.is_loaded else []


def __getattr__(name: str) -> Any:
    if name != "TitanCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    used = [package for package in _PACKAGES if package in sys.modules]
    return _made((used or [package for package in _PACKAGES
                           if importlib.util.find_spec(package.partition(".")[0])] or _PACKAGES)[0])
