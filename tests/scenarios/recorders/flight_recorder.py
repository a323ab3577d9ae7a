"""Files as PyTorch's Flight Recorder writes them (FlightRecorderDetail.hpp of PyTorch 2.13, and what differed before).

What is known of a call: `scheduled` until it has ended, `started` only with TORCH_NCCL_ENABLE_TIMING (only then is
there a start event). The watchdog retires calls every 100 ms: what had ended by then has that time as its discovered
times; what it had not seen yet is asked for at the dump. Members of an NCCL group have no events: they stay
`scheduled`.
"""

import json
import os
import pickle
from typing import Dict, List

from engine import MS, S, Engine, Record

POLL_NS = 100 * MS  # kWatchdogThreadSleepMillis
# Version of the file -> whether NCCL groups of messages count as collectives (startCoalescing up to PyTorch 2.5), key
# of NCCL's version, whether entries name their thread.
VERSIONS = {
    "2.4": (True, "nccl_version", False),
    "2.7": (False, "nccl_version", False),
    "2.9": (False, "nccl_version", False),
    "2.10": (False, "comm_lib_version", True),
}


class Settings:
    """How the job was configured: drawn for each case."""

    jump = None  # (host, at, by): a clock of the day that was set while the job ran

    def __init__(self, rng):
        self.version = rng.choice(["2.4", "2.7", "2.9", "2.10", "2.10", "2.10"])
        self.timing = rng.random() < 0.4
        self.ring = 2000
        self.format = rng.choice(["pickle", "pickle", "pickle", "json"])
        self.frames = rng.random() < 0.6
        self.clocks_off_ns = rng.choice([0, 2 * MS, 2 * MS, 3 * S])
        self.timeout_ms = rng.choice([600000, 600000, 600000, 120000, 1800000])
        self.shuffled = False
        self.retires_pending = rng.random() < 0.05
        # 2025-11-20 and some hours: nothing depends on the day a case is made.
        self.epoch_ns = (1763625600 + rng.randrange(86400)) * S
        self.seed = rng.randrange(1 << 30)

    def describe(self) -> dict:
        return {"recorder": "flight_recorder", "version": self.version, "timing": self.timing, "ring": self.ring,
                "format": self.format, "clocks_off_ns": self.clocks_off_ns, "timeout_ms": self.timeout_ms}


class Writer:
    def __init__(self, engine: Engine, settings: Settings, rng):
        self.engine = engine
        self.settings = settings
        self.phases: Dict[tuple, int] = {}
        self.rng = rng
        hosts = (engine.job.world + engine.job.per_host - 1) // engine.job.per_host
        off = settings.clocks_off_ns
        self.offsets = [rng.randrange(-off, off + 1) if off else 0 for _ in range(hosts)]
        self.lost = 0  # entries that rings have overwritten
        self.waits = 0  # unfinished calls that are on record

    def wall(self, rank: int, ns: int) -> int:
        host = rank // self.engine.job.per_host
        jump = self.settings.jump
        return self.settings.epoch_ns + ns + self.offsets[host] + (
            jump[2] if jump and jump[0] == host and ns >= jump[1] else 0)

    def discovered(self, record: Record, at_ns: int) -> int:
        """When the watchdog of that group's instance sees something that was true from `at_ns` on."""
        key = (record.rank, record.group.name)
        phase = self.phases.get(key)
        if phase is None:
            phase = self.phases[key] = self.rng.randrange(POLL_NS)
        return (at_ns - phase + POLL_NS - 1) // POLL_NS * POLL_NS + phase

    def dump(self, rank: int, dump_ns: int) -> dict:
        settings = self.settings
        batches_count, version_key, threads = VERSIONS[settings.version]
        null = 0 if settings.format == "json" else None
        job = self.engine.job
        mine = [group for group in job.groups.values() if rank in group.place]
        pg_ids = {group.name: i for i, group in enumerate(mine)}
        status: Dict[str, List[int]] = {}
        rows = []
        extra: Dict[str, int] = {}  # batches that count as collectives, by group
        frames: Dict[object, list] = {}
        timeout_ns = settings.timeout_ms * MS
        for number, record in enumerate(self.engine.records[rank]):
            if record.created_ns > dump_ns:
                break
            group = record.group
            item = record.item
            seq, p2p = record.collective_seq, record.p2p_seq
            if batches_count:
                if record.kind == "batch":
                    last = rows[-1] if rows else None
                    if not (last and last["_op"] is record.op):
                        extra[group.name] = extra.get(group.name, 0) + 1
                    p2p -= extra[group.name]
                elif record.kind == "p2p":
                    p2p -= extra.get(group.name, 0)
                seq += extra.get(group.name, 0)
            of_group = status.setdefault(str(pg_ids[group.name]), [-1, -1, -1])
            started = completed = duration = None
            retired = False
            if item is not None:
                work_seq = p2p if record.is_p2p else seq
                of_group[0] = work_seq
                if settings.timing and item.ready_ns is not None and item.ready_ns <= dump_ns:
                    of_group[1] = max(of_group[1], work_seq)
                    started = dump_ns
                if item.end_ns is not None and item.end_ns <= dump_ns:
                    seen = self.discovered(record, item.end_ns)
                    retired = seen <= dump_ns
                    completed = min(seen, dump_ns)
                    if started is not None:
                        started = completed
                    if retired:
                        of_group[2] = max(of_group[2], work_seq)
                        if settings.timing:
                            duration = (item.end_ns - item.ready_ns) / MS
                elif settings.retires_pending and dump_ns - record.created_ns > timeout_ns:
                    retired = True
            row = {
                "record_id": number, "pg_id": pg_ids[group.name], "process_group": (group.name, group.desc),
                "collective_seq_id": seq, "p2p_seq_id": p2p, "op_id": record.op_id,
                "profiling_name": "nccl:" + record.name, "time_created_ns": self.wall(rank, record.created_ns),
                "input_sizes": record.inputs, "input_dtypes": [record.dtype] * len(record.inputs),
                "output_sizes": record.outputs, "output_dtypes": [record.dtype] * len(record.outputs),
                "state": "completed" if completed is not None else "started" if started is not None else "scheduled",
                "time_discovered_started_ns": null if started is None else self.wall(rank, started),
                "time_discovered_completed_ns": null if completed is None else self.wall(rank, completed),
                "retired": retired, "timeout_ms": settings.timeout_ms,
                "is_p2p": record.is_p2p and not (batches_count and record.name == "coalesced"), "_op": record.op,
                "_waits": item is not None and completed is None,
            }
            if duration is not None:
                row["duration_ms"] = duration
            if threads:
                row["thread_name"] = {"main": "pt_main_thread", "background": "pt_ckpt"}.get(record.thread,
                                                                                            record.thread)
                row["thread_id"] = "14%d" % (0x700000 + rank * 16 + thread_number(self.engine, record))
            if settings.frames and settings.format != "json":
                site = record.op.site or ("train_step", 100)
                if site not in frames:
                    frames[site] = stack(site, record.name)
                row["frames"] = frames[site]
            rows.append(row)
        kept = rows[-settings.ring:]
        self.waits += sum(row["_waits"] for row in kept)
        for row in kept:
            del row["_op"], row["_waits"]
        self.lost += len(rows) - len(kept)
        if settings.shuffled:
            self.rng.shuffle(kept)
        config = {}
        for group in mine:
            if any(comm.ready and comm.group is group and rank in comm.ranks for comm in self.engine.comms.values()):
                config[group.name] = {"name": group.name, "desc": group.desc,
                                      "ranks": "[" + ", ".join(map(str, group.ranks)) + "]"}
        text = str if settings.format == "json" else int
        keys = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
        dump = {"version": settings.version, "pg_config": config, version_key: "2.27.5",
                "pg_status": {pg: {key: text(value) for key, value in zip(keys, values)}
                              for pg, values in status.items()}}
        if kept or settings.format != "json":
            dump["entries"] = kept
        return dump

    def write(self, directory: str, rank: int, dump_ns: int, as_json=None) -> str:
        """One rank's file, with the time at which it was written."""
        format_before = self.settings.format
        if as_json is not None:
            self.settings.format = "json" if as_json else "pickle"
        dump = self.dump(rank, dump_ns)
        path = os.path.join(directory, "nccl_trace_rank_%d" % rank)
        with open(path, "wb") as file:
            if self.settings.format == "json":
                file.write(json.dumps(dump, sort_keys=True, separators=(",", ":")).encode())
            else:
                pickle.dump(dump, file, protocol=2)
        written = self.wall(rank, dump_ns) + self.rng.randrange(1 * MS, 40 * MS)
        os.utime(path, ns=(written, written))
        self.settings.format = format_before
        return path


def thread_number(engine: Engine, record: Record) -> int:
    return [host.thread for host in engine.hosts if host.rank == record.rank].index(record.thread)


def stack(site, name: str) -> list:
    """Innermost first, the program's frames between PyTorch's and Python's."""
    function, line = site
    torch = "/usr/lib/python3.12/site-packages/torch/distributed/"
    return [{"name": name.split(" ")[0], "filename": torch + "distributed_c10d.py", "line": 2810},
            {"name": "wrapper", "filename": torch + "c10d_logger.py", "line": 81},
            {"name": function, "filename": "/job/train.py", "line": line},
            {"name": "main", "filename": "/job/train.py", "line": 401},
            {"name": "<module>", "filename": "/job/train.py", "line": 420}]
