"""Hugging Face's Trainer (transformers) and Accelerator (accelerate) on the recorder.

    trainer = transformers.Trainer(..., callbacks=[titantrace.huggingface.TitanCallback()])
    titantrace.huggingface.install()      # or so: for every Trainer that is made from now on, also by TRL or Oumi

    accelerator = accelerate.Accelerator(log_with=[titantrace.huggingface.AccelerateTracker()])

Steps count as theirs do in logs and checkpoints: the first is 1. The Trainer has no callback between its forward and
its backward pass, none when an exception ends it, and none when it loads a checkpoint.
"""
import weakref
from typing import Any, Dict, Optional

from . import tracer
from .bridges import harmless, quietly
from .callbacks import Stack, host_values, now_ns, subclass
from .markers import label, mark_metrics, step

_MOST_LABELS = 32  # of an Accelerator's configuration


# States of Trainers that have a callback of ours, by their addresses.
_followed: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()


def follows(state: Any) -> bool:
    """Whether spans are made of what the Trainer with that state does."""
    return state is not None and _followed.get(id(state)) is state


class _Callback:
    """Makes spans, steps and metrics of what the Trainer tells its callbacks. One callback is for one Trainer."""

    def __init__(self) -> None:
        self._spans = Stack("transformers.Trainer")
        self._first = 0  # steps that were done when this run began
        self._iteration_ns = 0  # when the iteration of an evaluation began

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end_all()  # of a run that an exception ended
        self._first = state.global_step
        quietly(_followed.__setitem__, id(state), state)
        if args.run_name:
            label("run_name", args.run_name)
        self._spans.begin("training_loop", global_step=state.global_step, max_steps=state.max_steps)

    @harmless
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end_all()

    @harmless
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.begin("epoch", epoch=state.epoch or 0)
        self._spans.begin("data_loading")

    @harmless
    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("epoch")
        self._begin_next(state, control)

    @harmless
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("data_loading")
        step(state.global_step + 1, state.global_step + 1 - self._first)
        self._spans.begin("training_single_iteration")
        if args.gradient_accumulation_steps > 1:
            self._spans.begin("microstep")

    @harmless
    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("microstep")
        if not self._stops(control):
            self._spans.begin("microstep")

    @harmless
    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("microstep")
        self._spans.begin("optimizer_update")

    @harmless
    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("optimizer_update")

    @harmless
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("training_single_iteration")
        self._begin_next(state, control)

    @harmless
    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any) -> None:
        mark_metrics(host_values(logs or {}), self._spans.place())
        self._begin_next(state, control)

    @harmless
    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if "validation_loop" in self._spans:
            self._spans.complete("validation_single_iteration", self._iteration_ns)
            self._iteration_ns = now_ns()
        else:  # evaluate() or predict() of the program's own: nobody told that it began
            self._begin_evaluation()

    @harmless
    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("validation_loop")
        if str(getattr(args.save_strategy, "value", args.save_strategy)) != "best":  # then it may save, or not
            self._begin_next(state, control)

    @harmless
    def on_predict(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("validation_loop")

    @harmless
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._spans.end("checkpoint_save_sync")
        self._begin_next(state, control)

    def _begin_evaluation(self) -> None:
        self._spans.begin("validation_loop")
        self._iteration_ns = now_ns()

    @staticmethod
    def _stops(control: Any) -> bool:
        return bool(control.should_epoch_stop or control.should_training_stop)

    def _begin_next(self, state: Any, control: Any) -> None:
        """Between steps the Trainer logs, evaluates, saves and waits for data, in this order. It tells when each has
        ended, and beforehand, in `control`, which of them it will do."""
        if "training_loop" not in self._spans or "training_single_iteration" in self._spans or control.should_log:
            return
        if control.should_evaluate:
            if "validation_loop" not in self._spans:
                self._begin_evaluation()
        elif control.should_save:
            self._spans.begin("checkpoint_save_sync")
        elif "epoch" in self._spans and not self._stops(control) and not float(state.epoch or 0).is_integer():
            self._spans.begin("data_loading")


class _Tracker:
    """Makes metrics of what the program gives to Accelerator.log, and labels of its configuration, on every rank.
    Accelerate has no hooks that spans could be made of: mark those with titantrace.span."""

    name = "titantrace"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self) -> None:
        super().__init__()
        self._step: Optional[int] = None

    @property
    def tracker(self) -> "_Tracker":
        return self

    @harmless
    def store_init_configuration(self, values: Dict[str, Any]) -> None:
        scalars = [(key, value) for key, value in values.items() if isinstance(value, (bool, float, int, str))]
        for key, value in scalars[:_MOST_LABELS]:
            label(key, value)

    @harmless
    def log(self, values: Dict[str, Any], step: Optional[int] = None, **_: Any) -> None:
        if isinstance(step, int) and step != self._step:
            self._step = step
            tracer.step(step)
        mark_metrics(host_values(values), tracer.told_place("accelerate.Accelerator.log"))


@harmless
def install() -> None:
    """Gives every Trainer of transformers that is made from now on a TitanCallback. Does nothing, and imports nothing,
    where the tracer is not loaded."""
    from transformers import trainer
    if __getattr__("TitanCallback") not in trainer.DEFAULT_CALLBACKS:
        trainer.DEFAULT_CALLBACKS.append(__getattr__("TitanCallback"))


def __getattr__(name: str) -> Any:
    if name == "TitanCallback":
        from transformers import TrainerCallback
        return globals().get(name) or subclass(globals(), name, _Callback, TrainerCallback)
    if name == "AccelerateTracker":
        from accelerate.tracking import GeneralTracker
        return globals().get(name) or subclass(globals(), name, _Tracker, GeneralTracker)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
