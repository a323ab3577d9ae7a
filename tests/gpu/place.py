"""Where the ranks of a check run: the end-to-end tests' Place, with the machine's libraries and rings in shared
memory."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402


class Skipped(Exception):
    """The check cannot run here; the message says why."""


class Setup:
    """What all checks share: the build, the libraries, and how ranks share the GPU."""

    def __init__(self, library_path, simulated, ranks):
        self.library_path, self.simulated, self.ranks = library_path, simulated, ranks
        self.info = {}
        self.ways = []    # to try, best first
        self.way = None   # the one that worked
        self.no_way = ""  # or why none did
        self.runtime = True   # the runtime client can run; else the reason
        self.places = []
        self.keep = None  # where to leave what the programs wrote
        self.described = {}

    def place(self):
        self.places.append(Place(self))
        return self.places[-1]

    def end_programs(self):
        """What a failed attempt left running, before the next one."""
        for place in self.places:
            for started in place.ran:
                started.end()

    def need_ranks(self):
        if self.way is None:
            raise Skipped(self.no_way or "several ranks on this machine were not tried")


class Place(harness.Place):
    def __init__(self, setup):
        super().__init__()
        self.setup = setup
        # The device writes into the ring: the driver pins shared memory, but not the page cache of a disk.
        self.rings = pathlib.Path(tempfile.mkdtemp(prefix="titan-gpu-check-", dir="/dev/shm"))

    def env(self, preload=True, **settings):
        found = ":".join(filter(None, [str(self.setup.library_path), os.environ.get("LD_LIBRARY_PATH")]))
        simulated = {}
        if self.setup.simulated:
            simulated = {"SIMGPU_DEVICES": 1, "SIMGPU_NCCL_VERSION": os.environ.get("SIMGPU_NCCL_VERSION")}
        return super().env(preload, **{"LD_LIBRARY_PATH": found, "NCCL_DEBUG": "WARN", **simulated, **settings})

    def start_client(self, scenario, rank=0, size=1, preload=True, **settings):
        identity = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
        if size > 1:
            _, of_all, of_one = self.setup.way
            identity.update(of_all, **of_one(rank))
        program = harness.BUILD / "tests" / "gpu" / "gpu-client"
        return self.start([program, scenario], self.env(preload, **{**identity, **settings}))

    def start_clients(self, scenario, size, **settings):
        return [self.start_client(scenario, rank, size, **settings) for rank in range(size)]

    def end_well(self, ranks, limit_s=30):
        for started in ranks:
            if started.wait(limit_s) != 0:
                raise AssertionError(f"a rank ended with {started.status}: {last_words(started)}")

    def dump(self, one, size):
        """SIGUSR1 to one rank, until all have dumped."""
        one.signal(signal.SIGUSR1)
        harness.wait_for(lambda: self.dumped_ranks() == set(range(size)), 20, "all ranks dump")

    def close(self):
        if self.setup.keep:
            for started in self.ran:
                started.end()
            kept = self.setup.keep / f"{len(list(self.setup.keep.glob('*'))):03}"
            shutil.copytree(self.path, kept / "place", ignore_dangling_symlinks=True)
            shutil.copytree(self.rings, kept / "rings")
        super().close()
        shutil.rmtree(self.rings, ignore_errors=True)


def last_words(started):
    """What a rank said at the end, without NCCL's banner."""
    said = (started.stdout + started.stderr).strip().splitlines()
    return " / ".join(line for line in said[-4:]) or "it said nothing"


def expect(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


def wait_all_say(ranks, text, limit_s=40):
    """Every rank says it. One that ends early tells why, instead of a limit that passes."""
    for started in ranks:
        harness.wait_for(lambda: text in started.stdout or any(one.status not in (None, 0) for one in ranks), limit_s,
                         f"'{text}' from every rank")
        bad = [one for one in ranks if one.status not in (None, 0)]
        if bad:
            raise AssertionError(f"a rank ended with {bad[0].status} before it said '{text}': {last_words(bad[0])}")
