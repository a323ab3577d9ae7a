"""Builds this tree for pip (pyproject.toml): meson-python, with NVIDIA's wheels where the machine has no headers of
CUDA or NCCL."""
import importlib.util
import os
import pathlib
import shlex
import subprocess

import mesonpy

FIND = pathlib.Path(__file__).with_name("find-headers")


def header_wheels():
    """The packages that the build needs; none if the machine has all headers."""
    found = dict(word.split("=", 1)
                 for word in shlex.split(subprocess.run([str(FIND)], capture_output=True, text=True).stdout))
    return [wheel for kind in ("cuda", "nccl") if not found.get(kind + "_include")
            for wheel in found.get(kind + "_wheels", "").split()]


def use_header_wheels():
    nvidia = importlib.util.find_spec("nvidia")
    if nvidia is not None:
        os.environ["TITAN_HEADER_WHEELS"] = str(pathlib.Path(next(iter(nvidia.submodule_search_locations))).parent)


def get_requires_for_build_wheel(config_settings=None):
    return mesonpy.get_requires_for_build_wheel(config_settings) + header_wheels()


def get_requires_for_build_editable(config_settings=None):
    return mesonpy.get_requires_for_build_editable(config_settings) + header_wheels()


def build_wheel(*arguments, **options):
    use_header_wheels()
    return mesonpy.build_wheel(*arguments, **options)


def build_editable(*arguments, **options):
    use_header_wheels()
    return mesonpy.build_editable(*arguments, **options)


get_requires_for_build_sdist = mesonpy.get_requires_for_build_sdist
build_sdist = mesonpy.build_sdist
