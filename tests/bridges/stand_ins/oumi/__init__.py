"""A stand-in for Oumi 0.9: its tracker, its callback and its own trainer, in their order, and no PyTorch."""
