"""Of TensorBoard its writer and its reader, with a file of JSON between them."""
import json
import os
import sys
import types


class _Message:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Summary(_Message):
    Value = _Message


def hparams_config_pb(hparams, metrics):
    return Summary(config=[[told.name for told in hparams], [told.name for told in metrics]])


def hparams_pb(hparams, trial_id):
    return Summary(hparams=hparams)


class HParam:
    def __init__(self, name):
        self.name = name


class EventFileWriter:
    def __init__(self, directory):
        os.makedirs(directory)
        self._file = open(os.path.join(directory, "events.out.tfevents.1"), "w", encoding="utf-8")

    def add_event(self, event):
        json.dump(event, self._file, default=vars)
        self._file.write("\n")

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()


class EventAccumulator:
    def __init__(self, directory):
        self._directory = directory

    def Reload(self):
        with open(os.path.join(self._directory, "events.out.tfevents.1"), encoding="utf-8") as file:
            self._events = [json.loads(line) for line in file]

    def _values(self):
        return [(event["step"], value) for event in self._events for value in event["summary"].get("value", [])]

    def Tags(self):
        return {"scalars": sorted({value["tag"] for _, value in self._values()})}

    def Scalars(self, tag):
        return [_Message(step=step, value=value["simple_value"]) for step, value in self._values()
                if value["tag"] == tag]

    def hparams(self):
        return [event["summary"]["hparams"] for event in self._events if "hparams" in event["summary"]]


for name, parts in {"summary.writer.event_file_writer": {"EventFileWriter": EventFileWriter},
                    "compat.proto.event_pb2": {"Event": _Message}, "compat.proto.summary_pb2": {"Summary": Summary},
                    "plugins.hparams.summary_v2": {"HParam": HParam, "Metric": HParam, "hparams_pb": hparams_pb,
                                                   "hparams_config_pb": hparams_config_pb},
                    "backend.event_processing.event_accumulator": {"EventAccumulator": EventAccumulator}}.items():
    words = [__name__, *name.split(".")]
    for length in range(2, len(words) + 1):
        module = sys.modules.setdefault(".".join(words[:length]), types.ModuleType(words[length - 1]))
    module.__dict__.update(parts)
