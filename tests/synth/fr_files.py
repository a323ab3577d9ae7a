"""Invented PyTorch Flight Recorder dumps, as PyTorch 2.x writes them: one file a rank, pickled or as JSON.

    job = fr_files.Job(4)                        # with the default group of all ranks, "0"
    job.group("1", "tp", [0, 1])
    for rank in job.ranks:
        job.call(rank, "0", "all_reduce", [[1024]])               # finished unless told otherwise
    job.call(0, "1", "all_gather", [[4]], [[8]], state="scheduled")
    job.batch(0, "0", [("send", 1, [[4]]), ("recv", 1, [[4]])])   # one coalesced group
    job.write(directory)                         # nccl_trace_rank_0 ...; as_json=True, without={3}

Numbers count as PyTorch's do: collective_seq_id and p2p_seq_id per group and rank, from 1. Times pass by 1 ms a call;
the files' times are those of a dump that was written `job.waited_s` later.
"""

import json
import os
import pathlib
import pickle

# A name that a page must show and never run: what it would run sets window.hacked.
HOSTILE_NAME = "</script><img src=x onerror=window.hacked=1>\"'&\u202e\u0007<!--" + "x" * 10_000
START_NS = 1_795_000_000_000_000_000
FRAMES = [{"name": "all_reduce", "filename": "/opt/python/site-packages/torch/distributed/distributed_c10d.py",
           "line": 3245},
          {"name": "step", "filename": "/home/me/job/train.py", "line": 212},
          {"name": "<module>", "filename": "/home/me/job/train.py", "line": 300}]


class Rank:
    def __init__(self):
        self.entries = []
        self.numbers = {}  # (group, "collective" or "p2p") -> newest
        self.extra = {}    # keys of the dump itself


class Job:
    def __init__(self, size, version="2.10", backend="nccl", waited_s=600):
        self.version, self.backend, self.waited_s = version, backend, waited_s
        self.ranks = list(range(size))
        self.rank = {rank: Rank() for rank in self.ranks}
        self.groups = {}
        self.now_ns = START_NS
        self.first_record = dict.fromkeys(self.ranks, 0)
        self.group("0", "default_pg", self.ranks)

    def group(self, name, desc, ranks):
        self.groups[name] = {"name": name, "desc": desc, "ranks": list(ranks)}

    def _number(self, rank, group, kind, step=1):
        numbers = self.rank[rank].numbers
        numbers[(group, kind)] = numbers.get((group, kind), 0) + step
        return numbers[(group, kind)]

    def entry(self, rank, group, name, inputs, outputs, state, p2p, **changes):
        owner = self.rank[rank]
        self.now_ns += 1_000_000
        done = state == "completed"
        entry = {
            "frames": FRAMES, "record_id": len(owner.entries), "pg_id": int(group) if group.isdigit() else 99,
            "process_group": (group, self.groups[group]["desc"]),
            "collective_seq_id": owner.numbers.get((group, "collective"), 0),
            "p2p_seq_id": owner.numbers.get((group, "p2p"), 0), "op_id": len(owner.entries) + 1,
            "profiling_name": f"{self.backend}:{name}", "time_created_ns": self.now_ns,
            "input_sizes": inputs, "input_dtypes": ["Float"] * len(inputs),
            "output_sizes": outputs, "output_dtypes": ["Float"] * len(outputs), "state": state,
            "time_discovered_started_ns": None, "time_discovered_completed_ns": self.now_ns + 500_000 if done else None,
            "retired": done, "timeout_ms": 600_000, "is_p2p": p2p}
        entry.update(changes)
        owner.entries.append(entry)
        return entry

    def call(self, rank, group, name, inputs, outputs=None, state="completed", **changes):
        self._number(rank, group, "collective")
        return self.entry(rank, group, name, inputs, inputs if outputs is None else outputs, state, False, **changes)

    def everywhere(self, group, name, inputs, outputs=None, without=(), **changes):
        for rank in self.groups[group]["ranks"]:
            if rank not in without:
                self.call(rank, group, name, inputs, outputs, **changes)

    def _p2p_name(self, rank, group, kind, peer):
        ranks = self.groups[group]["ranks"]
        return f"{kind} {ranks.index(rank)}{'->' if kind == 'send' else '<-'}{ranks.index(peer)}"

    def p2p(self, rank, group, kind, peer, sizes, state="completed", **changes):
        """One send to or receive from `peer`, a global rank."""
        self._number(rank, group, "p2p")
        return self.entry(rank, group, self._p2p_name(rank, group, kind, peer), sizes, sizes, state, True, **changes)

    def batch(self, rank, group, calls, state="completed", closed=True):
        """batch_isend_irecv: calls without a state of their own, and an entry that has it."""
        self._number(rank, group, "p2p")
        for kind, peer, sizes in calls:
            self.entry(rank, group, self._p2p_name(rank, group, kind, peer), sizes, sizes, "scheduled", True)
        if closed:
            self.entry(rank, group, "coalesced", [], [], state, True)

    def coalesced(self, rank, group, calls, end="coalesced", state="completed"):
        """Collectives that run as one: (name, inputs, outputs) each."""
        self._number(rank, group, "collective")
        for name, inputs, outputs in calls:
            self.entry(rank, group, name, inputs, outputs, "scheduled", False)
        self.entry(rank, group, end, [], [], state, False)

    def dump(self, rank, as_json=False):
        owner = self.rank[rank]
        config = {name: {"name": name, "desc": group["desc"], "ranks": str(group["ranks"])}
                  for name, group in self.groups.items()
                  if rank in group["ranks"] and any(entry["process_group"][0] == name for entry in owner.entries)}
        entries = owner.entries[self.first_record[rank]:]
        if as_json:  # PyTorch leaves the frames out, and writes 0 where it pickles None
            entries = [{key: 0 if value is None else value for key, value in entry.items() if key != "frames"}
                       for entry in entries]
        return {"version": self.version, "comm_lib_version": "2.28.9", "pg_config": config, "pg_status": {},
                "entries": entries, **owner.extra}

    def write(self, directory, as_json=False, without=(), prefix="nccl_trace_rank_", protocol=2):
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        written_ns = self.now_ns + self.waited_s * 1_000_000_000
        for rank in self.ranks:
            if rank in without:
                continue
            dump = self.dump(rank, as_json)
            path = directory / (f"{prefix}{rank}.json" if as_json else f"{prefix}{rank}")
            path.write_bytes(json.dumps(dump).encode() if as_json else pickle.dumps(dump, protocol))
            os.utime(path, ns=(written_ns, written_ns))


def hostile_job():
    """Four ranks that call by a hostile name, of which rank 2 never makes its last call."""
    job = Job(4)
    job.group("1", HOSTILE_NAME, [0, 1])
    for _ in range(3):
        job.everywhere("0", "all_reduce", [[1024]])
        job.everywhere("1", HOSTILE_NAME, [[8]])
    job.everywhere("0", "all_reduce", [[1024]], without=(2,), state="scheduled")
    return job
