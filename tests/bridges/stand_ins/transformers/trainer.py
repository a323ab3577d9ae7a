import json
import os
import types

EVENTS = ("on_init_end", "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_step_begin",
          "on_pre_optimizer_step", "on_optimizer_step", "on_substep_end", "on_step_end", "on_evaluate", "on_predict",
          "on_save", "on_log", "on_prediction_step")


class TrainerCallback:
    pass


for event in EVENTS:
    setattr(TrainerCallback, event, lambda self, args, state, control, **more: None)


class DefaultFlowCallback(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        control.should_log = state.global_step % args.logging_steps == 0
        control.should_evaluate = state.global_step % args.eval_steps == 0
        control.should_save = state.global_step % args.save_steps == 0
        control.should_training_stop = state.global_step >= args.max_steps


DEFAULT_CALLBACKS = [DefaultFlowCallback]


class TrainingArguments(types.SimpleNamespace):
    def __init__(self, output_dir, **given):
        super().__init__(output_dir=output_dir, **given)


class TrainerState(types.SimpleNamespace):
    pass


def batches(data, size):
    return [[data[i] for i in range(at, min(at + size, len(data)))] for at in range(0, len(data), size)]


class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset, callbacks=None):
        self.model, self.args, self.train_dataset, self.eval_dataset = model, args, train_dataset, eval_dataset
        self.callbacks = [made() if isinstance(made, type) else made for made in DEFAULT_CALLBACKS + (callbacks or [])]
        self.control = types.SimpleNamespace(should_log=False, should_evaluate=False, should_save=False,
                                             should_epoch_stop=False, should_training_stop=False)
        self.state = TrainerState(global_step=0, epoch=0, max_steps=args.max_steps, log_history=[])
        self.tell("on_init_end")

    def tell(self, event, *done, **more):
        for name in done:
            setattr(self.control, name, False)
        for callback in self.callbacks:
            getattr(callback, event)(self.args, self.state, self.control, model=self.model, **more)

    def log(self, logs):
        logs["epoch"] = self.state.epoch
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self.tell("on_log", "should_log", logs=logs)

    def train(self, resume_from_checkpoint=None):
        data = batches(self.train_dataset, self.args.per_device_train_batch_size)
        parts = batches(data, self.args.gradient_accumulation_steps)
        if resume_from_checkpoint:
            with open(os.path.join(resume_from_checkpoint, "state.json"), encoding="utf-8") as file:
                self.state.global_step, self.model.weight, self.state.log_history = json.load(file)
            self.state.epoch = self.state.global_step / len(parts)
        self.control.should_training_stop = False
        self.tell("on_train_begin")
        while not self.control.should_training_stop:
            self.tell("on_epoch_begin", "should_epoch_stop")
            for part in parts[self.state.global_step % len(parts):]:
                self.run_step(part, len(parts))
                if self.control.should_training_stop:
                    break
            self.tell("on_epoch_end")
        self.log({"train_loss": 1.0})
        self.tell("on_train_end")

    def run_step(self, part, steps_in_epoch):
        losses = []
        for number, batch in enumerate(part):
            if number == 0:
                self.tell("on_step_begin", "should_log", "should_evaluate", "should_save")
            losses.append(self.model.loss(batch))
            if number < len(part) - 1:
                self.tell("on_substep_end")
        self.tell("on_pre_optimizer_step")
        self.model.learn(losses)
        self.tell("on_optimizer_step")
        self.state.global_step += 1
        self.state.epoch += 1 / steps_in_epoch
        if abs(self.state.epoch - round(self.state.epoch)) < 1e-9:
            self.state.epoch = float(round(self.state.epoch))
        self.tell("on_step_end")
        if self.control.should_log:
            self.log({"loss": sum(losses) / len(losses), "learning_rate": 0.1})
        if self.control.should_evaluate:
            self.evaluate()
        if self.control.should_save:
            self.save()

    def save(self):
        place = os.path.join(self.args.output_dir, f"checkpoint-{self.state.global_step}")
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, "state.json"), "w", encoding="utf-8") as file:
            json.dump((self.state.global_step, self.model.weight, self.state.log_history), file)
        self.tell("on_save", "should_save")

    def evaluate(self):
        losses = []
        for batch in batches(self.eval_dataset, self.args.per_device_eval_batch_size):
            losses.append(self.model.loss(batch))
            self.tell("on_prediction_step")
        metrics = {"eval_loss": sum(losses) / len(losses)}
        self.log(metrics)
        self.tell("on_evaluate", "should_evaluate", metrics=metrics)
        return metrics
