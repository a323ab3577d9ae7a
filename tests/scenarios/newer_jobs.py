"""More jobs: host threads with communicators of their own, hosts that poll, pipelines of sends and receives alone,
several communicators between the same ranks, and waits outside NCCL."""

from typing import Dict, List

import jobs
from program import Job, Op, Program

KI = 1024
THREADS = ("prefetch", "reducer", "background")


def step_places(ops: List[Op]) -> Dict[int, int]:
    """Step -> place of its marker."""
    return {op.number: i for i, op in enumerate(ops) if op.kind == "step"}


def insert(program: Program, before_end: List, after_begin: List):
    """Operations of every step: right after its marker, and before its last synchronization. Both are functions of
    the step."""
    old, program.ops = program.ops, []
    last = {op.step: i for i, op in enumerate(old) if op.kind in ("sync", "poll")}
    for i, op in enumerate(old):
        program.step_now = op.step
        if last.get(op.step) == i:
            for make in before_end:
                make(program, op.step)
        program.ops.append(op)
        if op.kind == "step":
            for make in after_begin:
                make(program, op.number)


def thread(job: Job, rank: int, name: str) -> Program:
    program = Program(rank)
    program.thread = name
    program.tags = 20000 + 1000 * len(job.threads)
    job.threads.append((rank, program))
    return program


def threaded(rng, steps: int, names=None) -> Job:
    """Data-parallel training with a thread that loads batches (one rank reads, all get them), one that reduces what the
    main thread hands over, one that saves checkpoints. The main thread marks the steps and waits for the first two."""
    world = rng.choice([3, 4, 8])
    job = jobs.ddp(rng, world, steps) if rng.random() < 0.5 else jobs.fsdp(rng, world, steps)
    job.name = "threaded"
    names = names or rng.sample(THREADS, rng.choice([1, 2, 3]))
    groups = {name: job.group(str(len(job.groups)), name, range(world), eager=rng.random() < 0.5) for name in names}
    batch, bucket = KI * rng.randrange(8, 64), KI * rng.randrange(64, 512)
    for rank in range(world):
        begin, end = [], []
        if "prefetch" in names:
            program = thread(job, rank, "prefetch")
            for step in range(steps):
                program.step_now = step
                program.await_thread("taken", step - 1)
                program.host(0.002 * (0.7 + 0.6 * rng.random()), "data")
                program.call(groups["prefetch"], "broadcast", 4, "Long", site=("send_shapes", 18))
                program.call(groups["prefetch"], "broadcast", batch, "Long", site=("send_batch", 22))
                program.sync()
                program.signal("batch")
            begin += [lambda p, step: p.await_thread("batch", step + 1), lambda p, step: p.signal("taken")]
        if "reducer" in names:
            program = thread(job, rank, "reducer")
            for step in range(steps):
                program.step_now = step
                program.await_thread("bucket", step + 1)
                program.call(groups["reducer"], "all_reduce", bucket, site=("reduce_bucket", 41))
                program.sync()
                program.signal("reduced")
            end += [lambda p, step: p.signal("bucket"), lambda p, step: p.await_thread("reduced", step + 1)]
        if "background" in names:
            program = thread(job, rank, "background")
            for number, step in enumerate(range(0, steps, 2)):
                program.step_now = step
                program.await_thread("snapshot", number + 1)
                program.host(0.004, "python")
                program.call(groups["background"], "all_gather", 64, "Long", site=("save_async", 240))
                program.sync()
                program.call(groups["background"], "all_reduce_barrier", 1, site=("save_async", 251))
                program.sync()
            begin.append(lambda p, step: p.signal("snapshot") if step % 2 == 0 else None)
        insert(job.programs[rank], end, begin)
    return job


def transfers(rng, steps: int) -> Job:
    """Prefill and decode of an inference server: each prefill rank has a thread that sends caches to its decode rank
    over a communicator of the two, whose thread receives them; both halves have tensor parallelism of their own."""
    half = rng.choice([1, 2, 4])
    world = 2 * half
    job = Job("transfers", world)
    halves = job.new_groups("tp", [list(range(half)), list(range(half, world))]) if half > 1 else {}
    pairs = [job.group(str(len(job.groups)), "kv_%d" % i, [i, half + i], eager=rng.random() < 0.5) for i in range(half)]
    elements, layers = 4096 * rng.randrange(16, 64), rng.choice([2, 4])
    batched = rng.random() < 0.5
    for program in job.programs:
        rank = program.rank
        prefill = rank < half
        group = pairs[rank % half]
        other = rank + half if prefill else rank - half
        mover = thread(job, rank, "kv_sender" if prefill else "kv_receiver")
        for step in range(steps):
            program.step(step)
            mover.step_now = step
            if not prefill:
                program.await_thread("cache", step + 1)
            for _ in range(3):
                program.kernel(0.001)
                if halves:
                    program.call(halves[rank], "all_reduce", 64 * KI, "BFloat16", site=("forward", 112))
            program.sync()
            if prefill:
                program.signal("filled")
                mover.await_thread("filled", step + 1)
            for _ in range(layers):
                message = ("send" if prefill else "recv", other, elements)
                if batched:
                    mover.batch(group, [message], site=("transfer_layer", 71))
                else:
                    mover.message(group, message, site=("transfer_layer", 71))
            mover.sync()
            if not prefill:
                mover.signal("cache")
    return job


def shared(rng, steps: int) -> Job:
    """Two threads of each rank use one communicator, which NCCL forbids: the metrics thread gathers while the main
    thread trains. It goes well as long as all ranks have the same order."""
    world = rng.choice([3, 4, 8])
    job = Job("shared", world)
    job.default.eager = True
    size = KI * rng.randrange(64, 512)
    for program in job.programs:
        metrics = thread(job, program.rank, "metrics")
        for step in range(steps):
            program.step(step)
            metrics.step_now = step
            program.host(0.003 * (0.7 + 0.6 * rng.random()), "data")
            program.kernel(0.002)
            program.call(job.default, "all_reduce", size, site=("reduce_grads", 47))
            program.signal("loss")
            program.host(0.002)
            metrics.await_thread("loss", step + 1)
            metrics.call(job.default, "all_gather", 8, site=("log_metrics", 92))
            metrics.sync()
            metrics.signal("logged")
            program.await_thread("logged", step + 1)
            program.call(job.default, "all_reduce", size // 2, site=("reduce_grads", 48))
            program.sync()
    return job


HOW = ("batched", "singles", "pair groups", "a group per direction")


def gpipe(rng, steps: int, stages: int = 0, how: str = "") -> Job:
    """A pipeline of sends and receives alone, no collective anywhere: all micro-batches forward, then all back."""
    stages = stages or rng.choice([2, 3, 4, 6])
    how = how or rng.choice(HOW)
    job = Job("gpipe", stages)
    micro_batches = rng.choice([2, 4])
    elements = 4096 * rng.randrange(16, 128)
    between: Dict[tuple, object] = {}
    for low in range(stages - 1):
        pair = (low, low + 1)
        if how == "pair groups":
            between[pair] = between[pair[::-1]] = job.group(str(len(job.groups)), "p2p_%d_%d" % pair, pair)
        elif how == "a group per direction":
            between[pair] = job.group(str(len(job.groups)), "send_%d_%d" % pair, pair)
            between[pair[::-1]] = job.group(str(len(job.groups)), "grad_%d_%d" % pair[::-1], pair)
        else:
            between[pair] = between[pair[::-1]] = job.default
    for program in job.programs:
        stage = program.rank

        def move(direction: str, other: int, wait: bool = True):
            if not 0 <= other < stages:
                return None
            group = between[(stage, other) if direction == "send" else (other, stage)]
            make = program.message if how == "singles" else program.batch
            message = (direction, other, elements)
            site = (direction + ("_forward" if (other > stage) == (direction == "send") else "_backward"), 133)
            if make == program.batch:
                return program.batch(group, [message], wait=wait, site=site)
            return program.message(group, message, wait=wait, site=site)
        for step in range(steps):
            program.step(step)
            if stage == 0:
                program.host(0.003 * (0.7 + 0.6 * rng.random()), "data")
            tags = []
            for _ in range(micro_batches):
                move("recv", stage - 1)
                program.kernel(0.001)
                tags.append(move("send", stage + 1, wait=False))
            for _ in range(micro_batches):
                move("recv", stage + 1)
                program.kernel(0.002)
                tags.append(move("send", stage - 1, wait=False))
            for tag in tags:
                if tag is not None:
                    program.wait(tag)
            program.kernel(0.001)
            program.sync()
    return job


def siblings(rng, steps: int) -> Job:
    """Two stages of four: tensor and sequence parallelism have the same members, and so have three communicators
    between each rank and its twin of the other stage: one for each direction, one for the shared embedding."""
    job = Job("siblings", 8)
    halves = [[0, 1, 2, 3], [4, 5, 6, 7]]
    twins = [[i, i + 4] for i in range(4)]
    tp, sp = job.new_groups("tp", halves), job.new_groups("sp", halves)
    forward, backward, embedding = (job.new_groups(name, twins) for name in ("pp_forward", "pp_backward", "embedding"))
    if rng.random() < 0.5:
        for group in job.groups.values():
            group.eager = True
    hidden, shard = 4096 * rng.randrange(16, 64), KI * rng.randrange(32, 128)
    for program in job.programs:
        rank = program.rank
        first = rank < 4
        other = rank + 4 if first else rank - 4

        def layers(backwards: bool):
            for _ in range(2):
                program.kernel(0.001)
                program.call(sp[rank], "_all_gather_base", hidden, "BFloat16", site=("gather_sequence", 104))
                program.call(tp[rank], "all_reduce", hidden, "BFloat16", site=("backward" if backwards else "forward",
                                                                               112))
                program.call(sp[rank], "_reduce_scatter_base", hidden, "BFloat16", site=("scatter_sequence", 119))
        for step in range(steps):
            program.step(step)
            program.host(0.002 * (0.7 + 0.6 * rng.random()), "data")
            for _ in range(2):
                if not first:
                    program.batch(forward[rank], [("recv", other, hidden)], site=("recv_forward", 130))
                layers(False)
                if first:
                    program.batch(forward[rank], [("send", other, hidden)], site=("send_forward", 133))
            for _ in range(2):
                if first:
                    program.batch(backward[rank], [("recv", other, hidden)], site=("recv_backward", 140))
                layers(True)
                if not first:
                    program.batch(backward[rank], [("send", other, hidden)], site=("send_backward", 143))
            program.call(embedding[rank], "all_reduce", shard, site=("allreduce_embedding", 171))
            program.call(job.default, "all_reduce", 1, site=("grad_norm", 180))
            program.sync()
    return job


OUTSIDE = ("gloo barrier", "monitored_barrier", "all_gather_object", "store")


def beside(rng, steps: int, what: str = "") -> Job:
    """Training whose ranks meet outside NCCL, too, at the end of each step: in Gloo or at a key of the store."""
    job = rng.choice([jobs.ddp, jobs.fsdp])(rng, rng.choice([3, 4, 8]), steps)
    job.name = "beside"
    what = what or rng.choice(OUTSIDE)
    sites = {"gloo barrier": 206, "monitored_barrier": 207, "all_gather_object": 208, "store": 205}
    for program in job.programs:
        old, program.ops = program.ops, []
        for op, following in zip(old, old[1:] + [None]):
            program.ops.append(op)
            if op.kind == "sync" and (following is None or following.kind == "step"):
                program.step_now = op.step
                program.barrier(job.default, what, op.step, site=("sync_hosts", sites[what]))
    return job


def polling(job: Job, rng, how: str = "") -> Job:
    """The same job, whose hosts ask in a loop where they would wait in cudaStreamSynchronize."""
    how = how or rng.choice(["stream", "event", "work"])
    for program in job.programs + [program for _, program in job.threads]:
        newest = None
        for i, op in enumerate(program.ops):
            if op.tag is not None and op.kind != "wait":
                newest = op.tag
            elif op.kind == "sync":
                program.ops[i] = _asks(op, how if newest is not None else "event", newest)
    return job


def _asks(op: Op, how: str, tag) -> Op:
    asks = Op("poll", what=how, tag=tag if how == "work" else None)
    asks.step, asks.site = op.step, op.site
    return asks


NEWER = {
    "threaded": threaded,
    "transfers": transfers,
    "gpipe": gpipe,
    "siblings": siblings,
    "beside": beside,
    "shared": shared,
}
