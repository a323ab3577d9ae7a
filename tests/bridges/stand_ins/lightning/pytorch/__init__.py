"""A stand-in for Lightning 2.6: the Trainer with what it tells its callbacks and its profiler, in its order, and no
PyTorch."""
import contextlib
import importlib.metadata
import json
import os
import types

HOOKS = ("setup", "teardown", "on_train_start", "on_train_end", "on_train_epoch_start", "on_train_epoch_end",
         "on_train_batch_start", "on_train_batch_end", "on_before_backward", "on_after_backward",
         "on_before_optimizer_step", "on_validation_start", "on_validation_end", "on_validation_batch_start",
         "on_validation_batch_end", "on_test_start", "on_test_end", "on_test_batch_start", "on_test_batch_end",
         "on_exception", "on_load_checkpoint")


class Callback:
    pass


for hook in HOOKS:
    setattr(Callback, hook, lambda self, trainer, module, *more, **named: None)


class Profiler:
    def start(self, action_name):
        pass

    def stop(self, action_name):
        pass

    @contextlib.contextmanager
    def profile(self, action_name):
        try:
            self.start(action_name)
            yield
        finally:
            self.stop(action_name)


class AsyncCheckpointIO:
    pass


class LightningModule:
    automatic_optimization = True

    @property
    def global_step(self):
        return self.trainer.global_step

    def log(self, name, value, on_step=None, on_epoch=None):
        self.trainer.logged(name, value, on_step, on_epoch)

    def optimizers(self):
        trainer = self.trainer

        def step():
            with trainer.profiler.profile("optimizer_step"):
                self.learn()
            trainer.global_step += 1
        return types.SimpleNamespace(zero_grad=lambda: None, step=step)

    def manual_backward(self, loss):
        self.trainer.backward(loss)


class Trainer:
    group = "lightning.pytorch.callbacks_factory"

    def __init__(self, default_root_dir, max_epochs=10, max_steps=-1, accumulate_grad_batches=1, callbacks=(),
                 enable_checkpointing=True, plugins=(), logger=False, root_device="cpu", **_):
        self.root, self.max_epochs, self.max_steps, self.accumulate = (
            default_root_dir, max_epochs, max_steps, accumulate_grad_batches)
        self.callbacks = list(callbacks)
        points = importlib.metadata.entry_points()
        for point in points.select(group=self.group) if hasattr(points, "select") else points.get(self.group, ()):
            self.callbacks += point.load()()
        self.enable_checkpointing = enable_checkpointing
        self.checkpoint_callback = types.SimpleNamespace(best_model_path="")
        self.profiler, self.loggers = Profiler(), [logger] if logger else []
        io = plugins[0] if plugins else object()
        self.strategy = types.SimpleNamespace(root_device=root_device, checkpoint_io=io)
        self.global_step = self.current_epoch = 0
        self.sanity_checking = False
        self.of_step, self.of_epoch, self.callback_metrics = {}, {}, {}
        self._results = types.SimpleNamespace(
            metrics=lambda on_step: {"callback": dict(self.of_step if on_step else self.of_epoch)})

    def tell(self, hook, *more):
        for callback in self.callbacks:
            with self.profiler.profile(f"[Callback]{type(callback).__name__}.{hook}"):
                getattr(callback, hook)(self, self.module, *more)

    def logged(self, name, value, on_step, on_epoch):
        if on_step or self.stage == "train":
            self.of_step[name] = value
        if on_step and on_epoch:
            self.of_step[name + "_step"] = value
        elif self.stage != "train":
            self.of_epoch[name] = value

    def end_of_epoch(self, names):
        self.callback_metrics.update(self.of_step)
        for name in names:
            self.callback_metrics[name.replace("_step", "_epoch")] = self.of_step[name]

    def run(self, module, work, *given):
        self.module, module.trainer = module, self
        self.tell("setup", "fit")
        try:
            work(*given)
        except BaseException as error:
            self.tell("on_exception", error)
            raise
        self.tell("teardown", "fit")

    def fit(self, module, train_dataloaders, val_dataloaders=(), ckpt_path=None):
        self.run(module, self.train, list(train_dataloaders), list(val_dataloaders), ckpt_path)

    def test(self, module, dataloaders, verbose=True):
        self.run(module, self.loop, "test", list(dataloaders))

    def train(self, batches, validation, ckpt_path):
        if ckpt_path:
            with open(ckpt_path, encoding="utf-8") as file:
                self.global_step, self.current_epoch, self.module.weight = json.load(file)
            self.tell("on_load_checkpoint", {"global_step": self.global_step})
        if validation:
            self.sanity_checking = True
            self.loop("validation", validation)
            self.sanity_checking = False
        self.tell("on_train_start")
        while self.current_epoch < self.max_epochs and self.global_step != self.max_steps:
            self.train_epoch(batches, validation)
        self.tell("on_train_end")

    def train_epoch(self, batches, validation):
        self.tell("on_train_epoch_start")
        for at in range(len(batches)):
            if self.global_step == self.max_steps:
                break
            self.stage = "train"
            self.train_batch(batches, at)
        if validation:
            self.loop("validation", validation)
        self.tell("on_train_epoch_end")
        self.end_of_epoch([name for name in self.of_step if name.endswith("_step")])
        self.current_epoch += 1
        if self.enable_checkpointing:
            self.save_checkpoint()

    def train_batch(self, batches, at):
        with self.profiler.profile("[_TrainingEpochLoop].train_dataloader_next"):
            batch = batches[at]
        self.tell("on_train_batch_start", batch, at)
        with self.profiler.profile("run_training_batch"):
            if not self.module.automatic_optimization:
                self.training_step(batch, at)
            elif (at + 1) % self.accumulate:
                self.closure(batch, at)
            else:
                with self.profiler.profile("[LightningModule]Net.optimizer_step"):
                    self.closure(batch, at)
                    self.tell("on_before_optimizer_step", None)
                    self.module.learn()
                self.global_step += 1
        self.tell("on_train_batch_end", None, batch, at)
        for logger in self.loggers:
            logger.log_metrics(metrics=dict(self.of_step), step=self.global_step)

    def closure(self, batch, at):
        loss = self.training_step(batch, at)
        if at % self.accumulate == 0:
            with self.profiler.profile("[LightningModule]Net.optimizer_zero_grad"):
                pass
        self.backward(loss)

    def training_step(self, batch, at):
        with self.profiler.profile("[Strategy]SingleDeviceStrategy.training_step"):
            return self.module.training_step(batch, at)

    def backward(self, loss):
        self.tell("on_before_backward", loss)
        self.tell("on_after_backward")

    def loop(self, stage, batches):
        self.stage, self.of_epoch = stage, {}
        self.tell(f"on_{stage}_start")
        for at, batch in enumerate(batches):
            with self.profiler.profile(f"[_EvaluationLoop].{stage[:3]}_next"):
                pass
            self.tell(f"on_{stage}_batch_start", batch, at, 0)
            getattr(self.module, f"{stage}_step")(batch, at)
            self.tell(f"on_{stage}_batch_end", None, batch, at, 0)
        self.tell(f"on_{stage}_end")

    def save_checkpoint(self):
        with self.profiler.profile("save_checkpoint"):
            os.makedirs(self.root, exist_ok=True)
            path = os.path.join(self.root, f"step={self.global_step}.ckpt")
            with open(path, "w", encoding="utf-8") as file:
                json.dump((self.global_step, self.current_epoch, self.module.weight), file)
            self.checkpoint_callback.best_model_path = path
