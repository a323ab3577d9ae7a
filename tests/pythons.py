"""The CPythons of this machine: pyenv's versions, those on PATH, and the commands in $TITAN_PYTHONS, separated by
semicolons (tests/unit/tracer/python/get_pythons.py brings newer ones and sets it; one built without the GIL must be
built by hand)."""
import collections
import functools
import glob
import os
import re
import shlex
import subprocess

import nightly

KNOWN = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15")
ASK = ("import sys, sysconfig; print('%d.%d.%d%s %s' % (sys.version_info[:3] + ("
       "'t' if sysconfig.get_config_var('Py_GIL_DISABLED') else '', "
       "'shared' if 'libpython' in open('/proc/self/maps').read() else 'static')))")

Python = collections.namedtuple("Python", "command version minor shape")


@functools.cache  # each is asked, old ones and shims, too: a third of a second of a processor
def interpreters():
    """Every different CPython 3 that runs here."""
    commands = [shlex.split(c) for c in os.environ.get("TITAN_PYTHONS", "").split(";") if c.strip()]
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    commands += [[path] for path in sorted(glob.glob(f"{root}/versions/3.*/bin/python3"))]
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        commands += [[path] for path in sorted(glob.glob(f"{directory}/python3*"))
                     if re.fullmatch(r"python3(\.\d+t?)?", os.path.basename(path)) and "shims" not in directory]
    found = {}
    for command in commands:
        try:
            asked = subprocess.run([*command, "-I", "-S", "-c", ASK], capture_output=True, text=True, timeout=30)
        except OSError:
            continue
        if asked.returncode == 0:
            version, shape = asked.stdout.split()
            minor = ".".join(version.split(".")[:2]) + ("t" if version.endswith("t") else "")
            found.setdefault((version, shape), Python(command, version, minor, shape))
    return list(found.values())


def some(found):
    """The oldest and the newest of them; all where $TITAN_NIGHTLY is set."""
    in_order = sorted(found, key=lambda python: [int(part.rstrip("t")) for part in python.version.split(".")])
    return found if nightly.IS_ON or len(found) < 3 else [in_order[0], in_order[-1]]


def missing(found):
    """Known versions that are not among them."""
    return [minor for minor in KNOWN if not any(python.minor == minor for python in found)]


if __name__ == "__main__":
    # --newest MINOR: the commands of those from MINOR on that can make environments, one a line, the newest first but
    # for those that are too new for most wheels.
    import sys
    oldest = tuple(map(int, sys.argv[2].split(".")))
    rank = {"3.12": 3, "3.13": 2, "3.11": 1}
    able = [python for python in interpreters()
            if "t" not in python.minor and tuple(map(int, python.minor.split("."))) >= oldest
            and subprocess.run([*python.command, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0]
    for python in sorted(able, key=lambda python: -rank.get(python.minor, 0)):
        print(shlex.join(python.command))
