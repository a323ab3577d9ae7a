"""Of Weights & Biases the run, as a file of JSON in the directory."""
import json
import os


class Error(Exception):
    pass


class Settings:
    def __init__(self, **settings):
        pass


class Run:
    url = None

    def __init__(self, project, config):
        self.dir = os.path.join(os.getcwd(), "wandb")
        self.summary = {}
        self._told = {"project": project, "config": config, "history": [], "summary": self.summary}

    def finish(self):
        os.makedirs(self.dir)
        with open(os.path.join(self.dir, "run.json"), "w", encoding="utf-8") as file:
            json.dump(self._told, file)

    def log(self, values, step):
        assert step >= 0
        self._told["history"].append([step, values])


def init(project, config, mode, settings):
    if mode != "offline":
        raise Error("No API key configured.")
    return Run(project, config)
