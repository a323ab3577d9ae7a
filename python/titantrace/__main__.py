"""python -m titantrace: what the package offers on a command line.

    python -m titantrace                   this text
    python -m titantrace status            is the recorder loaded, and what does it record here?
    python -m titantrace export --help     records as tables, metrics for other tools (titantrace.export)
    python -m titantrace library           the path of libtitantrace.so, for LD_PRELOAD
    python -m titantrace include           the directory of titantrace.h

and it runs a program with bridges installed, so that it needs no line of ours:

    torchrun --nproc-per-node 8 -m titantrace --bridges megatron,profiler pretrain_gpt.py ...
    python -m titantrace --bridges profiler -m package.train ...

Beside it: titan-run starts a job with the recorder, titan-analyze reads what it leaves (titan-analyze help).
"""
import argparse
import difflib
import importlib
import os
import runpy
import sys
import warnings
from typing import Any, List

import titantrace
from titantrace.said import say


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


def _status() -> int:
    """0: it records; 1: it does not, and why."""
    told = titantrace.status()
    say(f"titantrace {titantrace.__version__}: {'records' if told['recording'] else 'does not record'} this process")
    for name in ("why", "ring", "gpu", "dumps"):
        if told[name] is not None:
            say(f"{name}: {told[name]}")
    return 0 if told["recording"] else 1


def _export() -> int:
    from titantrace import export
    sys.argv = sys.argv[1:]
    return export.main()


def _print(text: str) -> int:
    say(text)
    return 0


COMMANDS = {"status": _status, "export": _export, "library": lambda: _print(titantrace.library()),
            "include": lambda: _print(titantrace.include()), "help": lambda: _print(str(__doc__).rstrip())}


def _run_program() -> None:
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


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else "help"
    if word in COMMANDS:
        return COMMANDS[word]()
    if not word.startswith("-"):
        near = difflib.get_close_matches(word, COMMANDS, 1)
        say(f"python -m titantrace: there is no command {word!r}"
              f"{'; did you mean ' + near[0] + '?' if near else ''} A program goes behind --bridges NAME; "
              "python -m titantrace shows all", file=sys.stderr)
        return 2
    _run_program()
    return 0


if __name__ == "__main__":
    sys.exit(main())
