"""A stand-in for transformers 5.16: the Trainer with what it tells its callbacks, in its order, and no PyTorch."""
from .trainer import Trainer, TrainerCallback, TrainingArguments

__all__ = ["Trainer", "TrainerCallback", "TrainingArguments"]
