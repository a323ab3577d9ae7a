"""When each rank writes its dump."""

from typing import Dict, Optional

from engine import MS, S, Engine


def first_timeout(engine: Engine, timeout_ns: int) -> Optional[int]:
    """The watchdog of some living rank finds a call that is older than its timeout."""
    oldest = None
    for rank, rows in enumerate(engine.records):
        if rank in engine.dead_ns:
            continue
        for record in rows:
            if record.item is not None and record.item.end_ns is None:
                oldest = record.created_ns if oldest is None else min(oldest, record.created_ns)
                break  # in order of creation
    return None if oldest is None else oldest + timeout_ns


def own_timeout(engine: Engine, timeout_ns: int, progress: bool, rng) -> Dict[int, int]:
    """titantrace: a call, a blocking CUDA call or the creation of a communicator that takes longer than its timeout
    makes the rank dump, and it asks the others; of the dead, somebody saves what their rings hold."""
    since = [entered for (rank, _, _), (entered, left) in engine.created.items() if left is None]
    since += [visit[2] for host in engine.hosts for visit in host.visits if visit[3] is None
              and host.rank not in engine.dead_ns]
    first = first_timeout(engine, 0) if progress else None
    if first is not None:
        since.append(first)
    moment = min(since) + timeout_ns if since else engine.now + rng.randrange(200, 3000) * S
    return {rank: moment + rng.randrange(0, 300 * MS) for rank in range(engine.job.world)}


def would_time_out(engine: Engine, settings) -> bool:
    """Whether anything that titantrace watches waits: a host that only asks, or waits outside NCCL, it does not."""
    return (any(left is None for _, left in engine.created.values())
            or any(visit[3] is None for host in engine.hosts for visit in host.visits if settings.cuda)
            or settings.timing and first_timeout(engine, 0) is not None)


def at_timeout(engine: Engine, timeout_ns: int, rng) -> Dict[int, int]:
    """The first to time out tells the others through the store; their monitors look once a second."""
    moment = first_timeout(engine, timeout_ns)
    if moment is None:
        return by_hand(engine, rng)
    return {rank: moment + rng.randrange(0, 1500 * MS) for rank in range(engine.job.world)
            if rank not in engine.dead_ns}


def by_hand(engine: Engine, rng, early: bool = False) -> Dict[int, int]:
    """Somebody noticed that the job stands still, and asked all for a dump (TORCH_NCCL_DEBUG_INFO_PIPE_FILE)."""
    moment = engine.now + (rng.randrange(20, 110) if early else rng.randrange(200, 3000)) * S
    apart = rng.choice([400 * MS, 400 * MS, 10 * S])
    return {rank: moment + rng.randrange(0, apart) for rank in range(engine.job.world) if rank not in engine.dead_ns}


def after_the_launcher(engine: Engine, rng) -> Dict[int, int]:
    """The launcher ends all ranks within a second of the first death; later somebody collects what their rings hold."""
    moment = min(engine.dead_ns.values()) + rng.randrange(300, 1200) * MS
    for rank in range(engine.job.world):
        if rank not in engine.dead_ns:
            engine.dead_ns[rank] = moment + rng.randrange(0, 100 * MS)
            engine.exits[rank] = "killed"
    return {rank: moment + rng.randrange(2, 600) * S for rank in range(engine.job.world)}


def in_the_middle(engine: Engine, rng, apart_ns: int) -> Dict[int, int]:
    """A running job is asked for dumps, which do not come at the same moment."""
    end = engine.now
    latest = max(1, end - apart_ns)
    moment = rng.randrange(end // 4, max(end // 4 + 1, min(latest, end)))
    return {rank: moment + (rng.randrange(0, apart_ns + 1) if apart_ns else 0) for rank in range(engine.job.world)}
