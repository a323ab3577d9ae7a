import types


class TrainingParams(types.SimpleNamespace):
    pass


class TrainerType:
    OUMI = "oumi"
