"""Bare roots of other distributions, with nothing in them but Python: what a container image is to the wheel."""
import os
import pathlib
import shutil
import subprocess

# The oldest and the newest that Debian's archive has: glibc 2.31 with Python 3.9, and what is newest today.
SUITES = ("bullseye", "sid")

# In namespaces of its own: /proc, a /dev/shm as small as a container's, and a directory that it shares with the test.
ENTER = """
set -e
cd "$1"; shared=$2; shift 2
mkdir -p dev/shm
mount -t proc proc proc
mount -t tmpfs -o size=64m,mode=1777 shm dev/shm
mount --bind "$shared" mnt
hostname bare
exec chroot . "$@"
"""

# The stand-ins of CUDA and NCCL and the simulated job's library, by the compiler of a root: those of this machine ask
# for its libc.
STAND_INS = """
set -e
cd /mnt/source/tests/simgpu
build() {
    g++ -std=c++20 -O1 -fPIC -shared -fvisibility=hidden -pthread -w \\
        -I/mnt/source -Iinclude -Iforeign -Ilink -Ifaults -Isim -Itrain -I/mnt/source/tracer/include \\
        -isystem /mnt/nccl -isystem /mnt/cuda "$@" -ldl -lrt
}
build driver/*.cpp foreign/*.cpp -o /mnt/libcuda.so.1 \\
    -Wl,-Bsymbolic,-soname,libcuda.so.1,--version-script=driver/libcuda.map
build -DSIMGPU_CUDART_MAJOR=12 runtime/*.cpp link/driver_table.cpp -o /mnt/libcudart.so.12 \\
    -Wl,-Bsymbolic,-soname,libcudart.so.12,--version-script=runtime/libcudart.so.12.map
build nccl/*.cpp link/driver_table.cpp -o /mnt/libnccl.so.2 -Wl,-soname,libnccl.so.2,--version-script=nccl/libnccl.map
build train/simtrain.cpp sim/check.cpp sim/rank_comm.cpp sim/trainer*.cpp faults/*.cpp kernels/*.cpp \\
    -o /mnt/libsimtrain.so /mnt/libnccl.so.2 /mnt/libcudart.so.12
"""


def missing():
    """Why no root can be made here; empty: it can."""
    if os.geteuid() != 0:
        return "needs root: debootstrap and mounts"
    if not shutil.which("debootstrap"):
        return "no debootstrap (scripts/setup --wheel installs it)"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--uts", "mount", "-t", "tmpfs", "none", "/mnt"],
                           capture_output=True,
                           text=True)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode != 0 else ""


class Root:
    def __init__(self, path, shared):
        self.path, self.shared = pathlib.Path(path), pathlib.Path(shared)

    def make(self, suite):
        """Empty, or why there is none."""
        made = subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-venv,python3-pip", suite,
                               self.path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
        return "" if made.returncode == 0 else f"debootstrap {suite}: {made.stdout.strip().splitlines()[-1]}"

    def run(self, *command, status=0, **environment):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--uts", "sh", "-c", ENTER, "sh", self.path,
                               self.shared,
                               *map(str, command)],
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **environment},
                              capture_output=True, text=True, timeout=600)
        if done.returncode != status:
            raise AssertionError(f"{' '.join(map(str, command))}: status "
                                 f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def build_stand_ins(self, source, cuda_include, nccl_include):
        """Into the shared directory, in a copy of this root that has a compiler."""
        workshop = Root(f"{self.path}-compiler", self.shared)
        shutil.copytree(self.path, workshop.path, symlinks=True, ignore=lambda folder,
                        names: ["dev", "proc"] if folder == str(self.path) else [])
        (workshop.path / "dev").mkdir()
        (workshop.path / "proc").mkdir()
        subprocess.run(["mknod", "-m", "666", workshop.path / "dev/null", "c", "1", "3"], check=True)
        shutil.copy("/etc/resolv.conf", workshop.path / "etc/resolv.conf")
        workshop.run("apt-get", "-q", "-y", "install", "--no-install-recommends", "g++",
                     DEBIAN_FRONTEND="noninteractive")
        for name, folder in (("cuda", cuda_include), ("nccl", nccl_include)):
            shutil.copytree(folder, self.shared / name, dirs_exist_ok=True)
        for name in ("tests/simgpu", "tracer/include", "interpose"):
            shutil.copytree(source / name, self.shared / "source" / name, dirs_exist_ok=True)
        workshop.run("sh", "-c", STAND_INS)
        shutil.rmtree(workshop.path)
