"""Runs a program with bridges installed, so that it needs no line of ours:

    torchrun --nproc-per-node 8 -m titantrace --bridges megatron,profiler pretrain_gpt.py ...
    python -m titantrace --bridges profiler -m package.train ...
"""
import argparse
import importlib
import os
import runpy
import sys
import warnings
from typing import Any, List


def _bridges(names: str) -> List[Any]:
    found = []
    for name in names.split(","):
        try:
            bridge = importlib.import_module(f"titantrace.{name}")
        except ImportError:
            bridge = None
        if not hasattr(bridge, "install"):
            raise argparse.ArgumentTypeError(f"titantrace.{name} has no install()")
        found.append(bridge)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m titantrace", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bridges", type=_bridges, required=True, metavar="NAME[,NAME...]",
                        help="modules of titantrace whose install() is called first")
    parser.add_argument("-m", action="store_true", dest="is_module", help="the program is a module, not a file")
    parser.add_argument("program", help="as after `python` or `python -m`")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own")
    told = parser.parse_args()
    for bridge in told.bridges:
        try:
            bridge.install()
        except Exception as error:
            warnings.warn(f"{bridge.__name__} is not installed: {error}", RuntimeWarning)
    sys.argv = [told.program, *told.arguments]
    if told.is_module:
        runpy.run_module(told.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(told.program))
        runpy.run_path(told.program, run_name="__main__")


if __name__ == "__main__":
    main()
