"""PyTorch's own analyzer of Flight Recorder files, asked through its functions: its database has what its text says."""

import argparse
import logging
import re

MISSING_FILES = re.compile(r"Missing dump files from ranks \{([\d, ]+)\}")


def start():
    global torch, builder, loader, JobConfig
    import torch
    from torch.distributed.flight_recorder.components import builder, loader, utils
    from torch.distributed.flight_recorder.components.config_manager import JobConfig
    logging.getLogger("Flight Recorder").setLevel(logging.INFO)
    # PyTorch does not require the package tabulate; one of its modules does without it (the name is of 2.14 and older,
    # or of 2.15), the other one crashes.
    without = getattr(builder, "tabulate", None) or builder._tabulate
    utils.tabulate = getattr(utils, "tabulate", without)


def version() -> str:
    return torch.__version__


def ask(directory: str) -> dict:
    """As its user would: where it refuses because files are missing, once more with the option that it has for that."""
    absent = []
    try:
        database = build(directory)
    except AssertionError as error:
        missing = MISSING_FILES.search(str(error))
        if not missing:
            raise
        absent = [int(rank) for rank in missing.group(1).split(",")]
        database = build(directory, "--allow-incomplete-ranks")
    named = [accused(call) for call in database.collectives]
    return {"named": [ranks for ranks in named if ranks], "absent": absent}


def build(directory: str, *options: str):
    arguments: argparse.Namespace = JobConfig().parse_args([directory, *options])
    details, written_by = loader.read_dir(arguments)
    return builder.build_db(details, arguments, written_by)


def accused(call) -> list:
    """
    The ranks of one complaint: those that are missing, else the "culprits". Where only the sums of an all_to_all's
    sizes differ, its text accuses nobody.
    """
    if call.input_numel is not None:
        return []
    return sorted(call.missing_ranks or call.mismatch_collectives or [])
