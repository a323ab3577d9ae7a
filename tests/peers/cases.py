"""The cases of tests/scenarios, as every tool can read them."""

import glob
import hashlib
import json
import os
import pickle
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenarios"))

import case as scenarios  # noqa: E402
import run  # noqa: E402
import truth  # noqa: E402


def make(number: int, directory: str):
    return scenarios.build(run.class_of(number), number, directory)


def for_all(case) -> bool:
    """Whether these are files of PyTorch's recorder; the others are ours."""
    return not case.own


def recorded(source: str) -> dict:
    """
    Files of real runs in the tests of NVIDIA's extension, each with a log of the ranks at which a fault was injected,
    not all of which need have done harm before the job hung: name of the run -> (directory, truth).
    """
    found = {}
    for log in sorted(glob.glob(os.path.join(source, "tests", "attribution", "unit", "fr_traces", "*",
                                             "fault_injection.log"))):
        with open(log, encoding="utf-8") as file:
            ranks = [int(rank)
                     for rank in re.findall(r"\d+", re.search(r"Fault ranks: \[(.*)\]", file.read()).group(1))]
        directory = os.path.dirname(log)
        found[os.path.basename(directory)] = (directory, truth.Truth(
            "hang", [truth.Cause(truth.HANGS, ranks)], weaker=[truth.Cause(truth.HANGS, [rank]) for rank in ranks]))
    return found


def digest(directory: str) -> str:
    """Of names and contents."""
    whole = hashlib.sha256()
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        whole.update(f"{name} {os.path.getsize(path)}\n".encode())
        with open(path, "rb") as file:
            whole.update(file.read())
    return whole.hexdigest()


def as_pickles(directory: str, into: str) -> str:
    """
    The same files where all are pickles, else a copy in which JSON has become what PyTorch would have pickled: the
    others do not read JSON under the names that PyTorch gives it.
    """
    paths = {name: os.path.join(directory, name) for name in sorted(os.listdir(directory))}
    if not any(is_json(path) for path in paths.values()):
        return directory
    os.makedirs(into)
    for name, path in paths.items():
        if is_json(path):
            try:
                with open(path, encoding="utf-8") as file:
                    dump = pickled(json.load(file))
            except ValueError:  # damaged: that is the case
                shutil.copy2(path, into)
                continue
            with open(os.path.join(into, name), "wb") as file:
                pickle.dump(dump, file, protocol=2)
        else:
            shutil.copy2(path, into)
    return into


def is_json(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(1) == b"{"


def pickled(dump: dict) -> dict:
    entries = dump.setdefault("entries", [])
    for entry in entries:
        entry["process_group"] = tuple(entry["process_group"])
    for status in dump.get("pg_status", {}).values():
        status.update((key, int(value)) for key, value in status.items())
    return dump
