"""PyTorch Lightning on the recorder (python/titantrace/lightning.py), by its entry point and by hand.

    test_lightning.py --library LIB [--real]      --real: with the packages that scripts/setup --bridges installs; else
                                                  with the stand-in beside this file
"""
import collections

import bridge_case

# What trains: as small as can be, and always the same.
MODEL = """
class Model(pl.LightningModule):
    def __init__(self):
        self.weight, self.newest = 0.5, 0.0
    def loss_of(self, batch):
        self.newest = sum((self.weight * x - x) ** 2 for x in batch)
        return self.newest
    def learn(self):
        self.weight += 0.01 * self.newest
    def weights(self):
        return [self.weight]
def loader(count):
    return [[1.0 + at, 2.0 + at] for at in range(0, count, 2)]
from lightning.pytorch import AsyncCheckpointIO
""" if not bridge_case.REAL else """
import torch
torch.manual_seed(7)
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def loss_of(self, batch):
        return ((self.linear(batch[0]) - batch[1]) ** 2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
    def weights(self):
        return [float(weight) for weight in self.linear.weight.detach().flatten()]
def loader(count):
    xs = torch.randn(count, 4, generator=torch.Generator().manual_seed(count))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(xs, xs.sum(1, keepdim=True)), batch_size=2)
AsyncCheckpointIO = importlib.import_module(os.environ["PACKAGE"] + ".plugins.io").AsyncCheckpointIO
"""

PROGRAM = """
import importlib, json, os, sys, titantrace
titantrace.status()
del os.environ["RANK"], os.environ["WORLD_SIZE"]
output, sys.stdout = sys.stdout, sys.stderr
pl = importlib.import_module(os.environ["PACKAGE"])
""" + MODEL + """
class Net(Model):
    def __init__(self, fails_at=None, nan_at=None, manual=False):
        super().__init__()
        self.fails_at, self.nan_at, self.losses = fails_at, nan_at, []
        self.automatic_optimization = not manual
    def training_step(self, batch, batch_idx):
        if self.global_step == self.fails_at:
            raise ValueError("of the program")
        loss = self.loss_of(batch)
        self.losses.append(float(loss))
        self.log("train_loss", loss * (float("nan") if self.global_step == self.nan_at else 1))
        self.log("lr", 0.5, on_step=True, on_epoch=True)
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss
    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss_of(batch))
    def test_step(self, batch, batch_idx):
        self.log("test_loss", self.loss_of(batch))
def trainer(**more):
    if os.environ.get("BY_HAND"):
        from titantrace.lightning import TitanCallback
        more["callbacks"] = [TitanCallback()]
    return pl.Trainer(default_root_dir=os.environ["TITANTRACE_DIR"] + "-checkpoints", accelerator="cpu", devices=1,
                      enable_progress_bar=False, enable_model_summary=False, **{"logger": False, **more})
"""

TRAINS = PROGRAM + """
net, first = Net(nan_at=2), trainer(max_epochs=2, accumulate_grad_batches=2)
first.fit(net, loader(8), loader(4))
first.test(net, loader(2), verbose=False)
titantrace.event("resumed")
resumed, second = Net(), trainer(max_epochs=3, plugins=[AsyncCheckpointIO()])
second.fit(resumed, loader(4), ckpt_path=first.checkpoint_callback.best_model_path)
titantrace.event("by hand")
manual, third = Net(manual=True), trainer(max_steps=1, enable_checkpointing=False)
third.fit(manual, loader(4))
titantrace.event("fails")
try:
    trainer(max_epochs=1, enable_checkpointing=False).fit(Net(fails_at=1), loader(4))
except ValueError as error:
    assert str(error) == "of the program"
print(json.dumps([[net.losses, resumed.losses, manual.losses], net.weights(), resumed.weights(), manual.weights(),
                  len(first.callbacks), titantrace.dump()]), file=output, flush=True)
"""

# On a device nothing is read but what Lightning has fetched for its loggers.
ON_A_DEVICE = PROGRAM + """
class Logger:
    def log_metrics(self, metrics, step=None):
        self.told = step
read = []
class Unread(dict):
    def items(self):
        read.append("callback_metrics")
        return {}.items()
    def metrics(self, on_step):
        read.append("_results")
        return {"callback": {}}
logger = Logger()
of_device = trainer(max_epochs=1, enable_checkpointing=False, logger=logger, root_device="cuda:0")
of_device.callback_metrics = of_device._results = Unread()
of_device.fit(Net(), loader(4))
assert not read and logger.told == 2 and not vars(logger).get("log_metrics") and not vars(of_device.profiler)
print(json.dumps(titantrace.dump()), file=output, flush=True)
"""

LOOP, EPOCH, STEP = "training_loop", "training_loop/epoch", "training_loop/epoch/training_single_iteration"


def metrics_of(markers, name):
    return [(marker["step"], marker["value"]) for marker in markers
            if (marker["marker"], marker["name"]) == ("metric", name)]


class Lightning(bridge_case.Case):
    def parts(self, **variables):
        """The markers before each event of the program, whose results are the same without the tracer."""
        variables = {"PYTHONPATH": self.path_with_entry_points(), "PACKAGE": "lightning.pytorch", **variables}
        *results, known, dumped = self.bridged("recorded", TRAINS, **variables)
        self.assertTrue(dumped)
        *alone, known_alone, dumped = self.bridged("alone", TRAINS, preload=False, **variables)
        self.assertEqual(results, alone)
        self.assertEqual(known - known_alone, 1)  # callbacks: without the tracer the entry point gives none
        parts = [[]]
        for marker in self.markers_of("recorded"):
            if marker["marker"] == "event" and marker["name"] in ("resumed", "by hand", "fails"):
                parts.append([])
            parts[-1].append(marker)
        return parts, results[0]

    def check(self, **variables):
        (first, resumed, manual, fails), (losses, resumed_losses, manual_losses) = self.parts(**variables)
        self.check_first(first, losses)
        self.check_resumed(resumed, resumed_losses)
        self.assertEqual(bridge_case.paths(manual), [
            LOOP, EPOCH, f"{EPOCH}/data_loading", STEP, f"{STEP}/model_forward",
            f"{STEP}/model_forward/model_backward", f"{STEP}/model_forward/optimizer_update"])
        self.assertEqual(metrics_of(manual, "train_loss"), [(0, manual_losses[0])])
        self.check_failed(fails)

    def check_first(self, markers, losses):
        validation = {"validation_loop": 1, "validation_loop/data_loading": 2,
                      "validation_loop/validation_single_iteration": 2}
        self.assertEqual(collections.Counter(bridge_case.paths(markers)), {
            **validation, LOOP: 1, EPOCH: 2, f"{EPOCH}/data_loading": 8, STEP: 8, f"{STEP}/model_forward": 8,
            f"{STEP}/zero_grad": 4, f"{STEP}/model_backward": 8, f"{STEP}/optimizer_update": 4,
            **{f"{EPOCH}/{path}": 2 * count for path, count in validation.items()}, f"{LOOP}/checkpoint_save_sync": 2,
            "testing_loop": 1, "testing_loop/data_loading": 1, "testing_loop/testing_single_iteration": 1})
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(0, 1), (1, 2), (2, 3), (3, 4)])
        self.assertEqual(metrics_of(markers, "train_loss"), [
            (at // 2, "nan" if at // 2 == 2 else loss) for at, loss in enumerate(losses)])
        self.assertEqual(metrics_of(markers, "lr_step"), [(at // 2, 0.5) for at in range(8)])
        self.assertEqual(metrics_of(markers, "lr_epoch"), [(1, 0.5), (3, 0.5)])
        self.assertEqual([step for step, _ in metrics_of(markers, "val_loss")], [1, 3])
        self.assertEqual([step for step, _ in metrics_of(markers, "test_loss")], [3])
        facts = bridge_case.facts_of(markers)
        self.assertEqual((facts["epoch", "epoch"], facts["training_single_iteration", "batch_idx"],
                          facts["validation_loop", "sanity_checking"]), (1, 3, 1))

    def check_resumed(self, markers, losses):
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(4, 1), (5, 2)])
        self.assertEqual(metrics_of(markers, "train_loss"), list(enumerate(losses, 4)))
        self.assertEqual(bridge_case.facts_of(markers)["checkpoint_load", "global_step"], 4)
        self.assertIn(f"{LOOP}/checkpoint_save_async", bridge_case.paths(markers))

    def check_failed(self, markers):
        begun = bridge_case.begun(markers)
        self.assertEqual([(marker["text"], begun[marker["span"]]["name"], marker["step"]) for marker in markers
                          if marker["marker"] == "error"],
                         [("ValueError: of the program", "training_single_iteration", 1)])
        self.assertEqual(set(begun), {marker["span"] for marker in markers if marker["marker"] == "span_end"})

    def test_by_the_entry_point(self):
        self.check()

    def test_by_the_entry_point_of_the_other_package(self):
        self.check(PACKAGE="pytorch_lightning")

    if not bridge_case.REAL:
        def test_on_a_device(self):
            self.assertTrue(self.bridged("device", ON_A_DEVICE, PYTHONPATH=self.path_with_entry_points(),
                                         PACKAGE="lightning.pytorch"))
            self.assertEqual([step for step, _ in metrics_of(self.markers_of("device"), "train_loss")], [0, 1])

    def test_by_hand_beside_the_entry_point(self):
        self.check(BY_HAND="1")


if __name__ == "__main__":
    bridge_case.main()
