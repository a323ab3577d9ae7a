from .training import pretrain
