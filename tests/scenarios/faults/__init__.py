"""All classes of cases, in an order that decides which number is of which class."""

from case import OWN
from faults.table import CLASSES, NEWER, NEWER_RECORDERS
from faults import hosts, arguments, counts, orders, messages, devices, several, pairs, slow, fine  # noqa: F401
from faults import threads, polling, pipelines, siblings, creation, outside, late_kills, bad_input  # noqa: F401

# What only files of PyTorch's can be, and what takes too long to write.
NOT_OWN = {"entries_out_of_order", "json_beside_pickle", "healthy_files_copied_without_times",
           "stale_file_of_the_culprit",
           "hidden_by_an_early_file", "one_of_512", "one_of_128_3d"}
# Of which PyTorch leaves no file.
ONLY_OWN = {"launcher_ended_all"}
LABELS = [name for name in CLASSES if name not in ONLY_OWN] + [OWN + name for name in CLASSES if name not in NOT_OWN]
NEW_LABELS = [name for name in NEWER if "pytorch" in NEWER_RECORDERS[name]]
NEW_LABELS += [OWN + name for name in NEWER if "own" in NEWER_RECORDERS[name]]
# Name of a set of numbers -> its classes. The number says which of them a case is of.
SETS = {"first": LABELS, "new": NEW_LABELS}
BUILDERS = {**CLASSES, **NEWER}
