"""transformers' Trainer and accelerate's Accelerator on the recorder (python/titantrace/huggingface.py).

    test_huggingface.py --library LIB [--real]      --real: with the packages that scripts/setup --bridges installs;
                                                    else with the stand-ins beside this file
"""
import collections

import bridge_case

# What trains: as small as can be, and always the same.
MODEL = """
import random
random.seed(7)
class Net:
    weight = 0.5
    def loss(self, batch):
        return sum((self.weight * x - x) ** 2 for x in batch) / len(batch)
    def learn(self, losses):
        self.weight += 0.01 * sum(losses)
    def weights(self):
        return [self.weight]
def data(count):
    return [1.0 + at for at in range(count)]
""" if not bridge_case.REAL else """
import torch
torch.manual_seed(7)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def forward(self, x, labels):
        given = self.linear(x)
        return {"loss": ((given - labels) ** 2).mean(), "logits": given}
    def weights(self):
        return [float(weight) for weight in self.linear.weight.detach().flatten()]
def data(count):
    xs = torch.randn(count, 4, generator=torch.Generator().manual_seed(count))
    return [{"x": x, "labels": x.sum().reshape(1)} for x in xs]
"""

# Recording has begun when the program takes RANK away: the libraries would wait for other ranks.
START = """
import json, os, sys, titantrace
titantrace.status()
del os.environ["RANK"], os.environ["WORLD_SIZE"]
directory = os.environ["TITANTRACE_DIR"] + "-checkpoints"
"""

TRAINER = START + MODEL + """
output, sys.stdout = sys.stdout, sys.stderr  # before Oumi is imported, which logs to what it finds there
import transformers, titantrace.huggingface
ours = lambda: []
if os.environ["BY"] == "callback":
    ours = lambda: [titantrace.huggingface.TitanCallback()]
elif os.environ["BY"] == "install":
    titantrace.huggingface.install()
else:  # Oumi's, which runs these Trainers, too
    import titantrace.oumi
    titantrace.oumi.install()
    from oumi.core.callbacks.telemetry_callback import TelemetryCallback
    ours = lambda: [TelemetryCallback(skip_first_steps=0)]
class Fails(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        raise ValueError("of the program")
def train(steps, resume=None, callbacks=()):
    args = transformers.TrainingArguments(
        directory, per_device_train_batch_size=2, per_device_eval_batch_size=3, gradient_accumulation_steps=2,
        max_steps=steps, logging_steps=1, eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2,
        report_to=[], use_cpu=True, run_name="tiny", disable_tqdm=True)
    trainer = transformers.Trainer(Net(), args, train_dataset=data(12), eval_dataset=data(6),
                                   callbacks=ours() + list(callbacks))
    trainer.train(resume_from_checkpoint=resume)
    return [logs for logs in trainer.state.log_history if "loss" in logs], trainer
def result(trained):
    return [logs["loss"] for logs in trained[0]], trained[1].model.weights()
first, second = train(4), train(6, directory + "/checkpoint-4")
titantrace.event("alone")
second[1].evaluate()
titantrace.event("fails")
try:
    train(2, callbacks=[Fails()])
except ValueError:
    pass
print(json.dumps([result(first), result(second), titantrace.dump()]), file=output, flush=True)
"""

ACCELERATOR = START + """
import accelerate, math, titantrace.huggingface
accelerator = accelerate.Accelerator(log_with=[titantrace.huggingface.AccelerateTracker()], cpu=True)
accelerator.init_trackers("tiny", config={"lr": 0.5, "model": "net", "layers": [1, 2]})
losses = []
for number in range(3):
    losses.append(1 / (number + 1))
    accelerator.log({"loss": losses[-1], "note": "text", "nan": math.nan}, step=10 * number)
accelerator.log({"done": 1})
accelerator.end_training()
print(json.dumps([losses, titantrace.dump()]))
"""


class HuggingFace(bridge_case.Case):
    def recorded(self, program, **variables):
        """The markers, and what the program prints, which is the same without the tracer."""
        *printed, dumped = self.bridged("recorded", program, **variables)
        self.assertTrue(dumped)
        *alone, dumped = self.bridged("alone", program, preload=False, **variables)
        self.assertEqual((printed, dumped), (alone, False))
        return self.markers_of("recorded"), printed

    def check_trainer(self, by):
        markers, ((losses, _), (all_losses, _)) = self.recorded(TRAINER, BY=by)
        at = {marker["name"]: number for number, marker in enumerate(markers) if marker["marker"] == "event"}
        resumed = max(number for number, marker in enumerate(markers[:at["alone"]])
                      if marker["marker"] == "span_begin" and marker["name"] == "training_loop")
        self.check_first(markers[:resumed], losses)
        self.check_resumed(markers[resumed:at["alone"]], all_losses)
        alone = bridge_case.paths(markers[at["alone"]:at["fails"]])
        self.assertEqual(alone, ["validation_loop", "validation_loop/validation_single_iteration"])
        # The Trainer tells no callback of an exception: what it leaves open is still open when the process dumps.
        unended = (set(bridge_case.begun(markers)) -
                   {marker["span"] for marker in markers if marker["marker"] == "span_end"})
        self.assertEqual({bridge_case.begun(markers)[span]["name"] for span in unended}, {"training_loop", "epoch"})

    def check_first(self, markers, losses):
        loop, epoch, step = "training_loop", "training_loop/epoch", "training_loop/epoch/training_single_iteration"
        self.assertEqual(collections.Counter(bridge_case.paths(markers)), {
            loop: 1, epoch: 2, step: 4, f"{step}/microstep": 8, f"{step}/optimizer_update": 4,
            f"{epoch}/data_loading": 4, f"{epoch}/validation_loop": 2,
            f"{epoch}/validation_loop/validation_single_iteration": 4, f"{epoch}/checkpoint_save_sync": 2})
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(1, 1), (2, 2), (3, 3), (4, 4)])
        self.assertEqual([(marker["step"], marker["value"]) for marker in markers
                          if (marker["marker"], marker["name"]) == ("metric", "loss")],
                         list(enumerate(losses, 1)))
        told = bridge_case.by_name(markers)
        self.assertEqual(told["label", "run_name"]["text"], "tiny")
        self.assertEqual(told["metric", "eval_loss"]["step"], 4)
        self.assertEqual(told["span_begin", "training_loop"]["called_at"], "transformers.Trainer")
        self.assertEqual(bridge_case.facts_of(markers)["training_loop", "max_steps"], 4)
        order = [marker["name"] for marker in markers if marker["marker"] == "span_begin" and marker["step"] == 2]
        self.assertEqual(order, ["training_single_iteration", "microstep", "microstep", "optimizer_update",
                                 "validation_loop", "validation_single_iteration", "validation_single_iteration",
                                 "checkpoint_save_sync", "data_loading"])

    def check_resumed(self, markers, losses):
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(5, 1), (6, 2)])
        self.assertEqual(bridge_case.facts_of(markers)["training_loop", "global_step"], 4)
        self.assertEqual([marker["value"] for marker in markers if marker["name"] == "loss"], losses[4:])

    def test_a_callback(self):
        self.check_trainer("callback")

    def test_every_trainer(self):
        self.check_trainer("install")

    def test_beside_the_callback_of_oumi(self):
        """It has timers of the same: spans are told once."""
        self.check_trainer("oumi")

    def test_an_accelerator(self):
        markers, (losses,) = self.recorded(ACCELERATOR)
        self.assertEqual([(marker["name"], marker["text"]) for marker in markers if marker["marker"] == "label"],
                         [("lr", "0.5"), ("model", "net")])
        self.assertEqual([(marker["name"], marker["value"], marker["step"]) for marker in markers
                          if marker["marker"] == "metric"],
                         [told for number, loss in enumerate(losses)
                          for told in (("loss", loss, 10 * number), ("nan", "nan", 10 * number))] + [("done", 1.0, 20)])


if __name__ == "__main__":
    bridge_case.main()
