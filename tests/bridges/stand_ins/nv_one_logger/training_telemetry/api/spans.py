from enum import Enum


class StandardTrainingJobSpanName(str, Enum):
    __str__ = str.__str__

    TRAINING_LOOP = "training_loop"
    VALIDATION_LOOP = "validation_loop"
    MODEL_INIT = "model_initialization"
    CHECKPOINT_SAVE_ASYNC = "checkpoint_save_async"
    TRAINING_SINGLE_ITERATION = "training_single_iteration"
    VALIDATION_SINGLE_ITERATION = "validation_single_iteration"
    MODEL_FORWARD = "model_forward"
    MODEL_BACKWARD = "model_backward"
