import contextlib
import json
import os
import types

from oumi.performance.telemetry import TelemetryTracker


class Trainer:
    def __init__(self, model, processing_class, args, train_dataset, eval_dataset=None, callbacks=None):
        self.telemetry = TelemetryTracker()
        self.model, self.params, self.callbacks = model, args, callbacks or []
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.state = types.SimpleNamespace(epoch=0, global_step=0)

    @contextlib.contextmanager
    def _telemetry_block(self, name):
        with self.telemetry.timer(name) as timer:
            yield timer

    def train(self, resume_from_checkpoint=None):
        if resume_from_checkpoint:
            self._load_from_checkpoint(resume_from_checkpoint)
        while self.state.epoch < self.params.num_train_epochs:
            self._train_epoch(None)
            self.evaluate()
            self.state.epoch += 1
        self._process_callbacks("on_train_end")

    def _train_epoch(self, progress_bar):
        size = self.params.per_device_train_batch_size
        data = iter([self.train_dataset[at:at + size] for at in range(0, len(self.train_dataset), size)])
        micro_step = 0
        while True:
            if micro_step % self.params.gradient_accumulation_steps == 0:
                self._process_callbacks("on_step_begin")
            with self._telemetry_block("fetching batch"):
                try:
                    batch = next(data)
                except StopIteration:
                    break
            for name in ("computing tokens", "moving batch to device"):
                with self._telemetry_block(name):
                    pass
            with self._telemetry_block("model forward"):
                loss = self.model.loss(batch)
            with self._telemetry_block("loss backward"):
                self.model.learn(loss)
            micro_step += 1
            if micro_step % self.params.gradient_accumulation_steps == 0:
                self.end_step(loss)

    def end_step(self, loss):
        with self._telemetry_block("optimizer step"):
            pass
        self.state.global_step += 1
        self._process_callbacks("on_step_end")
        metrics = {"train/loss": loss, "learning_rate": 0.1}
        metrics.update(self._process_callbacks("on_log", metrics))
        self.log_metrics(metrics, self.state.global_step)
        if self.state.global_step % self.params.save_steps == 0:
            self.save_state()

    def evaluate(self):
        results = {"val/loss": self.model.loss(self.eval_dataset)}
        self.log_metrics(results, self.state.global_step)
        return results

    def save_state(self):
        with open(os.path.join(self.params.output_dir, "state.json"), "w", encoding="utf-8") as file:
            json.dump((vars(self.state), self.model.weight), file)

    def _load_from_checkpoint(self, checkpoint_dirname):
        with open(os.path.join(checkpoint_dirname, "state.json"), encoding="utf-8") as file:
            state, self.model.weight = json.load(file)
        self.state = types.SimpleNamespace(**state)

    def log_metrics(self, metrics, step):
        pass

    def _process_callbacks(self, event, logs=None):
        logs = logs or {}
        for callback in self.callbacks:
            if hasattr(callback, event):
                getattr(callback, event)(args=self.params, state=None, control=None, logs=logs)
        return logs
