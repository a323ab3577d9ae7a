"""The machine under a GPU check: is there a GPU, where are its libraries, how can several ranks share it, which
versions."""

import ctypes
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Ranks that take each other for other nodes pass the check for duplicate GPUs, and then talk over sockets.
SOCKETS = {"NCCL_P2P_DISABLE": 1, "NCCL_SHM_DISABLE": 1, "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
MULTI_RANK_SINCE = 23003  # ncclGetVersion() of the first NCCL with NCCL_MULTI_RANK_GPU_ENABLE


class NoGpu(Exception):
    """The checks cannot run here; the message says why and what to do."""


def loaded_path(name):
    """Loads a library as any program would, and says which file that was."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return None
    stem = re.match(r"lib\w+\.so\.", name).group(0)  # the driver's file is called libcuda.so.580.95.05
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        path = pathlib.Path(line.split(None, 5)[-1])
        if path.name.startswith(stem):
            return path
    return None


def find_driver():
    """The real libcuda.so.1, with a GPU behind it."""
    path = loaded_path("libcuda.so.1")
    if path is None:
        raise NoGpu("no GPU here: the driver's libcuda.so.1 cannot be loaded. Run this on a machine with an NVIDIA "
                    "driver, "
                    "or try it on the simulated GPU with --dry-run.")
    driver, devices = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    result = driver.cuInit(0)
    if result == 0:
        result = driver.cuDeviceGetCount(ctypes.byref(devices))
    if result != 0 or devices.value == 0:
        raise NoGpu(f"no GPU here: the driver is installed but offers no device (error {result}; "
                    f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}). Look at nvidia-smi "
                    f"and "
                    "CUDA_VISIBLE_DEVICES, or try it on the simulated GPU with --dry-run.")
    return path


def pythons():
    """The pythons that may hold PyTorch, with NVIDIA's wheels beside it."""
    candidates = [ROOT / ".venv" / "bin" / "python", shutil.which("python3"), sys.executable]
    found = []
    for candidate in candidates:
        if candidate and pathlib.Path(candidate).exists() and str(candidate) not in found:
            found.append(str(candidate))
    return found


def wheel_directories():
    places = sorted((ROOT / ".venv" / "nvidia-wheels").glob("*"))
    for python in pythons():
        asked = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                               capture_output=True,
                               text=True, check=False)
        if asked.returncode == 0:
            places.append(pathlib.Path(asked.stdout.strip()))
    return places


def find_library(name, *wheel_parts):
    """(file, where it came from), or (None, why not): $CUDA_HOME, the wheels, /usr/local/cuda, what the loader
    finds."""
    candidates = []
    if os.environ.get("CUDA_HOME"):
        candidates.append(("CUDA_HOME", pathlib.Path(os.environ["CUDA_HOME"]) / "lib64" / name))
    for place in wheel_directories():
        candidates += [("wheel", place / "nvidia" / part / "lib" / name) for part in wheel_parts]
    candidates.append(("toolkit", pathlib.Path("/usr/local/cuda/lib64") / name))
    for origin, path in candidates:
        if path.exists():
            return path, origin
    path = loaded_path(name)
    return (path, "loader") if path else (None, f"no {name} in $CUDA_HOME, the Python wheels or the loader's path")


def link_libraries(directory, files):
    """A directory that holds the real libraries by the names that programs ask for: nothing is found in the build
    instead."""
    directory.mkdir()
    for name, file in files.items():
        (directory / name).symlink_to(file.resolve())
    return directory


def version_text(number, nccl=False):
    """13000 is CUDA 13.0; 23203 is NCCL 2.32.3, 2804 is NCCL 2.8.4."""
    if not number:
        return None
    if nccl:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number >= 10000 else \
            f"{number // 1000}.{number // 100 % 10}.{number % 100}"
    return f"{number // 1000}.{number % 1000 // 10}"


def version_number(nccl_text):
    """2.32.3 as ncclGetVersion() says it."""
    major, minor, patch = (int(part) for part in nccl_text.split(".")[:3])
    return major * 10000 + minor * 100 + patch


def ways_to_share(nccl_version, ranks, gpus):
    """How several ranks can run here, best first: (name, settings for all, settings of one rank)."""
    if gpus >= ranks:
        return [("a GPU for each rank", {}, lambda rank: {})]
    nodes = ("NCCL_HOSTID: a node for each rank", SOCKETS, lambda rank: {"NCCL_HOSTID": f"gpu-check-{rank}"})
    shared = ("NCCL_MULTI_RANK_GPU_ENABLE", {"NCCL_MULTI_RANK_GPU_ENABLE": 1, "NCCL_MAX_CTAS": 4}, lambda rank: {})
    return [shared, nodes] if nccl_version >= MULTI_RANK_SINCE else [nodes]


def key_values(text):
    """The "key value" lines of a client, numbers as numbers."""
    values = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if re.fullmatch(r"\w+", key) and value:
            values[key] = int(value) if re.fullmatch(r"-?\d+", value) else \
                float(value) if re.fullmatch(r"-?\d+\.\d+", value) else value
    return values


def driver_release():
    version = pathlib.Path("/proc/driver/nvidia/version")
    try:
        found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", version.read_text())
    except OSError:
        found = None
    if found:
        return found.group(1)
    smi = shutil.which("nvidia-smi")
    asked = subprocess.run([smi, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True,
                           check=False) if smi else None
    return asked.stdout.splitlines()[0].strip() if asked and asked.returncode == 0 and asked.stdout else None


def find_pytorch(env):
    """(python, versions) of the first PyTorch with CUDA, or (None, what was found instead)."""
    question = ("import json, torch; print(json.dumps({'version': torch.__version__, 'cuda': torch.version.cuda, "
                "'available': torch.cuda.is_available(), "
                "'nccl': '.'.join(map(str, torch.cuda.nccl.version())) if torch.version.cuda else None}))")
    reasons = []
    for python in pythons():
        asked = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False, env=env)
        lines = asked.stdout.splitlines()
        if asked.returncode != 0 or not lines:
            reasons.append(f"{pathlib.Path(python).name}: no PyTorch")
            continue
        versions = json.loads(lines[-1])
        if versions.pop("available"):
            return python, versions
        reasons.append(f"PyTorch {versions['version']} sees no GPU")
    return None, "; ".join(dict.fromkeys(reasons))


def commit():
    """The tracer's commit, with a + when the tree differs from it; None outside of git."""
    asked = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"],
                           capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None


def describe(info, simulated, known_commit):
    """What the results are about. No host names and no paths: results are published."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "simulated": simulated or "simulated" in info["gpu"],
        "gpu": {"name": info["gpu"], "count": info["gpus"], "memory_bytes": info["memory_bytes"],
                "compute_capability": str(info["compute_capability"])},
        "driver": None if simulated else driver_release(),
        "cuda_driver_api": version_text(info["cuda_driver_api"]),
        "cudart": None,
        "nccl": version_text(info["nccl"], nccl=True),
        "pytorch": None,
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "tracer_commit": known_commit or commit(),
    }
