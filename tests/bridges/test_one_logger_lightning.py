"""one-logger's own trainer for Lightning (nv-one-logger-pytorch-lightning-integration): what it tells is on record.

    test_one_logger_lightning.py --library LIB --real
"""
import collections

import bridge_case

PROGRAM = r"""
import json, logging, os, warnings
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
os.chdir(os.environ["TITANTRACE_RING_DIR"])
import titantrace.one_logger
titantrace.one_logger.install()
titantrace.status()
del os.environ["RANK"], os.environ["WORLD_SIZE"]  # there are no other ranks to wait for
import torch
import lightning.pytorch as pl
import titantrace.lightning
from nv_one_logger.api.config import OneLoggerConfig
from nv_one_logger.training_telemetry.api.checkpoint import CheckPointStrategy
from nv_one_logger.training_telemetry.api.config import TrainingTelemetryConfig
from nv_one_logger.training_telemetry.api.training_telemetry_provider import TrainingTelemetryProvider
import overrides
overrides.override = lambda method: method  # its check refuses the signature that save_checkpoint has in Lightning 2.6
from nv_one_logger.training_telemetry.integration.pytorch_lightning import OneLoggerPTLTrainer

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def training_step(self, batch, batch_idx):
        return self.linear(batch).square().mean()
    def validation_step(self, batch, batch_idx):
        self.linear(batch)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

provider = TrainingTelemetryProvider.instance()
provider.with_base_config(OneLoggerConfig(application_name="example", world_size_or_fn=1, session_tag_or_fn="s"))
provider.configure_provider()
ours = [titantrace.lightning.TitanCallback()] if os.environ.get("BOTH") else []
trainer = OneLoggerPTLTrainer(dict(max_epochs=1, callbacks=ours, accelerator="cpu", devices=1, logger=False,
                                   num_sanity_val_steps=0,
                                   enable_checkpointing=False, enable_progress_bar=False,
                                   enable_model_summary=False), provider)
provider.set_training_telemetry_config(TrainingTelemetryConfig(
    perf_tag_or_fn="small", global_batch_size_or_fn=2, train_iterations_target_or_fn=4,
    train_samples_target_or_fn=8, log_every_n_train_iterations=2, save_checkpoint_strategy=CheckPointStrategy.SYNC))
callback = trainer.nv_one_logger_callback
callback.on_model_init_start()
net = Net()
callback.on_model_init_end()
batches = torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=2)
trainer.fit(net, batches, batches)
trainer.save_checkpoint("net.ckpt")
callback.on_app_end()
print(json.dumps(titantrace.dump()))
"""


class OneLoggerLightning(bridge_case.Case):
    def test_its_trainer(self):
        self.assertTrue(self.bridged("fit", PROGRAM))
        markers = self.markers_of("fit")
        loop = "application/training_loop"
        self.assertEqual(collections.Counter(bridge_case.paths(markers)), {
            "application": 1, "application/model_initialization": 1, loop: 1, f"{loop}/training_single_iteration": 4,
            f"{loop}/validation_loop": 1, f"{loop}/validation_loop/validation_single_iteration": 4,
            "application/checkpoint_save_sync": 1})
        self.assertEqual(set(bridge_case.begun(markers)), set(bridge_case.ended(markers)))
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(number, number + 1) for number in range(4)])

    def test_beside_our_callback(self):
        """What both tell is recorded once."""
        self.assertTrue(self.bridged("both", PROGRAM, BOTH="1"))
        markers = self.markers_of("both")
        counted = collections.Counter(marker["name"] for marker in bridge_case.begun(markers).values())
        self.assertLessEqual({"training_loop": 1, "training_single_iteration": 4, "validation_loop": 1,
                              "validation_single_iteration": 4, "checkpoint_save_sync": 1, "model_forward": 4,
                              "epoch": 1}.items(), counted.items())
        self.assertEqual(set(bridge_case.begun(markers)), set(bridge_case.ended(markers)))
        self.assertEqual([(marker["value"], marker["relative_step"]) for marker in markers
                          if marker["marker"] == "step"], [(number, number + 1) for number in range(4)])


if __name__ == "__main__":
    bridge_case.skip_without("lightning", "nv_one_logger.training_telemetry.integration")
    bridge_case.main()
