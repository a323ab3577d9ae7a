from lightning.pytorch import Callback, LightningModule
from lightning.pytorch import Trainer as _Trainer

__all__ = ["Callback", "LightningModule", "Trainer"]


class Trainer(_Trainer):
    group = "pytorch_lightning.callbacks_factory"
