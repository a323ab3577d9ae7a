"""The jobs: what the ranks of well-known kinds of training do, step by step. Healthy; faults.py edits them."""

from typing import Callable, Dict, List

from program import Job, Program

KI = 1024


def _data(program: Program, rng, seconds: float = 0.004):
    program.host(seconds * (0.7 + 0.6 * rng.random()), "data")


def ddp(rng, world: int, steps: int, buckets: int = 4, loss: bool = True) -> Job:
    """DistributedDataParallel: buckets of gradients, reduced while the backward pass runs."""
    job = Job("ddp", world)
    sizes = [KI * rng.randrange(64, 2048) for _ in range(buckets)]
    for program in job.programs:
        for step in range(steps):
            program.step(step)
            _data(program, rng)
            program.kernel(0.003)
            tags = []
            for size in sizes:
                program.kernel(0.001)
                tags.append(program.call(job.default, "all_reduce", size, wait=False, site=("backward", 61)))
            for tag in tags:
                program.wait(tag)
            program.kernel(0.001)
            if loss:
                program.call(job.default, "all_reduce", 1, site=("log_loss", 88))
            program.sync()
    return job


def fsdp(rng, world: int, steps: int, layers: int = 4, job: Job = None, shard=None, replicate=None) -> Job:
    """Fully sharded: parameters are gathered a layer ahead, gradients scattered; HSDP reduces them over replicas,
    too."""
    job = job or Job("fsdp", world)
    sizes = [KI * rng.randrange(64, 512) for _ in range(layers)]
    for program in job.programs:
        group = shard[program.rank] if shard else job.default
        replicas = replicate[program.rank] if replicate else None
        for step in range(steps):
            program.step(step)
            _data(program, rng)
            for way in (list(range(layers)), list(reversed(range(layers)))):
                backward = way[0] != 0
                ahead = program.call(group, "_all_gather_base", sizes[way[0]], "BFloat16", wait=False,
                                     site=("unshard", 31))
                for place, layer in enumerate(way):
                    here = ahead
                    if place + 1 < layers:
                        ahead = program.call(group, "_all_gather_base", sizes[way[place + 1]], "BFloat16", wait=False,
                                             site=("unshard", 31))
                    program.wait(here)
                    program.kernel(0.002 if backward else 0.001)
                    if backward:
                        tag = program.call(group, "_reduce_scatter_base", sizes[layer], "Float", wait=False,
                                           site=("reduce_grads", 47))
                        if replicas:
                            program.wait(tag)
                            tag = program.call(replicas, "all_reduce", sizes[layer], "Float", wait=False,
                                               site=("reduce_grads", 52))
            program.wait(tag)
            program.call(group, "all_reduce", 1, site=("clip_grad_norm", 70))
            if replicas:
                program.call(replicas, "all_reduce", 1, site=("clip_grad_norm", 71))
            program.kernel(0.001)
            program.sync()
    return job


def hsdp(rng, world: int, steps: int) -> Job:
    job = Job("hsdp", world)
    size = world // 2 if world >= 4 else world
    shard = job.new_groups("mesh_shard", [list(range(at, at + size)) for at in range(0, world, size)])
    replicate = job.new_groups("mesh_replicate", [list(range(at, world, size)) for at in range(size)])
    return fsdp(rng, world, steps, layers=3, job=job, shard=shard, replicate=replicate)


class Grid:
    """Ranks of tp x cp x ep-less dp x pp, tp fastest, as Megatron numbers them."""

    def __init__(self, job: Job, tp: int, cp: int, dp: int, pp: int):
        self.sizes = {"tp": tp, "cp": cp, "dp": dp, "pp": pp}
        self.job = job

    def place(self, rank: int) -> Dict[str, int]:
        found = {}
        for axis, size in self.sizes.items():
            found[axis] = rank % size
            rank //= size
        return found

    def lists(self, *axes: str) -> List[List[int]]:
        """Ranks that differ in `axes` only, in lists."""
        found: Dict[tuple, List[int]] = {}
        for rank in range(self.job.world):
            place = self.place(rank)
            found.setdefault(tuple(place[a] for a in self.sizes if a not in axes), []).append(rank)
        return [found[key] for key in sorted(found)]


def schedule(stage: int, stages: int, micro_batches: int):
    """1F1B of one stage: ('forward' or 'backward', what is sent and received around it), as Megatron merges them."""
    warm = min(stages - stage - 1, micro_batches)
    rest = micro_batches - warm
    first, last = stage == 0, stage == stages - 1
    for _ in range(warm):
        if not first:
            yield [("recv", -1)]
        yield "forward"
        if not last:
            yield [("send", 1)]
    if rest and not first:
        yield [("recv", -1)]
    for i in range(rest):
        yield "forward"
        if not last:
            yield [("send", 1), ("recv", 1)]
        yield "backward"
        if not first:
            yield [("send", -1), ("recv", -1)] if i + 1 < rest else [("send", -1)]
    for _ in range(warm):
        if not last:
            yield [("recv", 1)]
        yield "backward"
        if not first:
            yield [("send", -1)]


def megatron(rng, tp: int, pp: int, dp: int, cp: int = 1, steps: int = 4, micro_batches: int = 0, batched: bool = True,
             syncs: bool = True, coalesced: bool = False, chunks: int = 1, experts: bool = False) -> Job:
    """tp x cp x dp x pp with 1F1B: all_reduces within a layer, sends between stages, gradients over dp."""
    world = tp * pp * dp * cp
    job = Job("megatron", world)
    grid = Grid(job, tp, cp, dp, pp)
    groups = {}
    names = {"tp": "TENSOR_MODEL_PARALLEL_GROUP", "dp": "DATA_PARALLEL_GROUP", "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
             "cp": "CONTEXT_PARALLEL_GROUP"}
    for axis, name in names.items():
        if axis == "cp" and cp == 1:
            continue
        axes = ("dp", "cp") if axis == "dp" else (axis,)
        groups[axis] = job.new_groups(name, grid.lists(*axes))
    groups["model"] = job.new_groups("MODEL_PARALLEL_GROUP", grid.lists("tp", "pp"))
    embedding = {}
    if pp > 1:
        embedding = job.new_groups("EMBEDDING_GROUP", [[ranks[0], ranks[-1]] for ranks in grid.lists("pp")])
    micro_batches = micro_batches or 2 * pp
    hidden = 4096 * rng.randrange(64, 256)
    shard = KI * rng.randrange(256, 1024)
    for program in job.programs:
        rank = program.rank
        place = grid.place(rank)
        stage = place["pp"]
        ring = groups["pp"][rank].ranks if pp > 1 else [rank]
        for step in range(steps):
            program.step(step)
            _data(program, rng, 0.002)
            if tp > 1:
                program.call(groups["tp"][rank], "broadcast", 2 * KI, "Long", site=("broadcast_data", 27))
            units = schedule(stage, pp, micro_batches) if chunks == 1 else interleaved(stage, pp, micro_batches, chunks)
            for what in units:
                if isinstance(what, str):
                    for _ in range(2):
                        program.kernel(0.0004 if what == "forward" else 0.0008)
                        if cp > 1:
                            _ring_pass(program, groups["cp"][rank].ranks, groups["cp"][rank], hidden // cp)
                        if experts:
                            for site in (("dispatch", 93), ("combine", 99)):
                                program.call(groups["dp"][rank], "all_to_all", hidden, "BFloat16", site=site)
                        if tp > 1:
                            program.call(groups["tp"][rank], "all_reduce", hidden, "BFloat16", site=(what, 112))
                    continue
                messages = [(direction, ring[(stage + way) % pp], hidden) for direction, way in what]
                if batched:
                    program.batch(groups["pp"][rank], messages, site=("communicate", 141))
                else:
                    _single_messages(program, groups["pp"][rank], messages, stage)
                if syncs:
                    program.sync()
            if dp * cp > 1:
                program.call(groups["dp"][rank], "_reduce_scatter_base", shard, "Float", site=("finish_grad_sync", 160))
            if rank in embedding and stage in (0, pp - 1):
                program.call(embedding[rank], "all_reduce", 4 * shard, "Float", site=("allreduce_embedding", 171))
            if tp * pp > 1:
                program.call(groups["model"][rank], "all_reduce", 1, "Float", site=("grad_norm", 180))
            program.sync()
            program.kernel(0.001)
            if dp * cp > 1 and coalesced:
                # Two buckets in one NCCL group: _coalescing_manager with a device.
                size = len(groups["dp"][rank].ranks)
                parts = [("_all_gather_base", [[n]], [[n * size]]) for n in (shard, shard // 2)]
                program.coalesced(groups["dp"][rank], "coalesced", parts, "BFloat16", site=("start_param_sync", 190))
            elif dp * cp > 1:
                program.call(groups["dp"][rank], "_all_gather_base", shard, "BFloat16", site=("start_param_sync", 190))
            if step % 2 == 1:
                program.call(job.default, "all_reduce", 1, site=("training_log", 203))
    return job


def interleaved(stage: int, stages: int, micro_batches: int, chunks: int):
    """Interleaved 1F1B of one stage (Megatron's forward_backward_pipelining_with_interleaving): each stage holds
    several chunks of layers, and what leaves the last stage goes round to the first. Yields like schedule()."""
    total = micro_batches * chunks
    warm = total if micro_batches == stages else min(total, (stages - stage - 1) * 2 + (chunks - 1) * stages)
    first, last = stage == 0, stage == stages - 1

    def chunk(unit: int, forward: bool) -> int:
        place = unit % (stages * chunks) // stages
        return place if forward else chunks - 1 - place

    def out(unit: int):
        return [] if last and chunk(unit, True) == chunks - 1 else [("send", 1)]

    def back(unit: int):
        return [] if first and chunk(unit, False) == 0 else [("send", -1)]
    if not first:
        yield [("recv", -1)]
    for unit in range(warm):
        yield "forward"
        messages = out(unit)
        if unit + 1 < total and not (first and chunk(unit + 1, True) == 0):
            messages.append(("recv", -1))
        if unit == warm - 1 and warm < total and not last:
            messages.append(("recv", 1))
        if messages:
            yield messages
    rest = total - warm
    for unit in range(rest):
        yield "forward"
        yield "backward"
        messages = out(unit + warm) + back(unit)
        if unit + 1 < rest:
            ahead = unit + warm - (stages - 1)
            if not first or chunk(ahead, True) != chunks - 1:
                messages.append(("recv", -1))
        behind = unit - (stages - 1)
        if unit + 1 < total and not (last and (behind < 0 or chunk(behind, False) == 0)):
            messages.append(("recv", 1))
        if messages:
            yield messages
    if warm == total and not last:
        yield [("recv", 1)]
    for unit in range(rest, total):
        yield "backward"
        messages = back(unit)
        if unit + 1 < total and not (last and chunk(unit + 1, False) == chunks - 1):
            messages.append(("recv", 1))
        if messages:
            yield messages


def _single_messages(program: Program, group, messages, stage: int):
    """Without batch_isend_irecv: each message is a call of its own, in an order that even and odd stages agree on."""
    def order(message):
        direction, other, _ = message
        onward = other > program.rank
        rank = {("send", True): 0, ("recv", False): 1, ("send", False): 2, ("recv", True): 3}[(direction, onward)]
        return rank if stage % 2 == 0 else {0: 1, 1: 0, 2: 3, 3: 2}[rank]
    tags = [program.message(group, message, wait=False, site=("p2p_ops", 133))
            for message in sorted(messages, key=order)]
    for tag in tags:
        program.wait(tag)


def _ring_pass(program: Program, ring: List[int], group, elements: int):
    """Ring attention: keys and values go round once."""
    here = group.place[program.rank]
    for _ in range(len(ring) - 1):
        tag = program.batch(group, [("send", ring[(here + 1) % len(ring)], elements),
                                    ("recv", ring[here - 1], elements)], wait=False, site=("ring_attention", 77))
        program.kernel(0.0003)
        program.wait(tag)


def ring_attention(rng, world: int, steps: int, layers: int = 2) -> Job:
    job = Job("ring_attention", world)
    elements = 4096 * rng.randrange(16, 64)
    for program in job.programs:
        for step in range(steps):
            program.step(step)
            _data(program, rng)
            for _ in range(2 * layers):
                program.kernel(0.001)
                _ring_pass(program, job.default.ranks, job.default, elements)
            program.call(job.default, "all_reduce", 512 * KI, site=("reduce_grads", 47))
            program.sync()
    return job


def moe(rng, ep: int, dp: int, steps: int, layers: int = 2) -> Job:
    """Experts: tokens to and fro by all_to_all with uneven splits, gradients over all."""
    world = ep * dp
    job = Job("moe", world)
    experts = job.new_groups("EXPERT_PARALLEL_GROUP", [list(range(at, at + ep)) for at in range(0, world, ep)])
    replicas = job.new_groups("EXPERT_DATA_PARALLEL_GROUP", [list(range(at, world, ep)) for at in range(ep)])
    width, tokens = 1024, 4096
    # In each layer and step rank i sends splits[i][j] tokens to rank j: what goes out and comes in fits.
    for at in range(0, world, ep):
        ranks = list(range(at, at + ep))
        for step in range(steps):
            plans = []
            for _ in range(layers):
                plan = []
                for _ in ranks:
                    weights = [1 + rng.random() for _ in ranks]
                    plan.append([int(tokens * w / sum(weights)) for w in weights])
                plans.append(plan)
            for i, rank in enumerate(ranks):
                _moe_step(job, job.programs[rank], rng, step, plans, i, width, experts[rank], replicas[rank], dp)
    return job


def _moe_step(job, program: Program, rng, step: int, plans, i: int, width: int, experts, replicas, dp: int):
    program.step(step)
    _data(program, rng)
    for way in ("forward", "backward"):
        for plan in plans if way == "forward" else reversed(plans):
            program.kernel(0.001)
            out, back = sum(plan[i]), sum(row[i] for row in plan)
            program.call(experts, "all_to_all", 0, "BFloat16", inputs=[[out, width]], outputs=[[back, width]],
                         site=("dispatch", 93))
            program.kernel(0.001)
            program.call(experts, "all_to_all", 0, "BFloat16", inputs=[[back, width]], outputs=[[out, width]],
                         site=("combine", 99))
    if dp > 1:
        program.call(replicas, "all_reduce", 512 * KI, "Float", site=("reduce_experts", 140))
    program.call(job.default, "all_reduce", 256 * KI, "Float", site=("reduce_grads", 147))
    program.sync()


def coalesced(rng, world: int, steps: int, uneven: bool = False) -> Job:
    """Optimizer shards gathered in one NCCL group, and gathers of uneven sizes, which PyTorch makes of broadcasts."""
    job = Job("coalesced", world)
    sizes = [KI * rng.randrange(32, 256) for _ in range(3)]
    shards = [KI * rng.randrange(16, 64) for _ in range(world)]
    for program in job.programs:
        for step in range(steps):
            program.step(step)
            _data(program, rng)
            program.kernel(0.004)
            parts = [("_reduce_scatter_base", [[n * world]], [[n]]) for n in sizes]
            tag = program.coalesced(job.default, "coalesced", parts, wait=False, site=("reduce_grads", 47))
            program.wait(tag)
            program.kernel(0.001)
            if uneven:
                # ProcessGroupNCCL::allgather with tensors of several sizes: one _broadcast_oop from each member.
                mine = shards[program.rank]
                parts = [("_broadcast_oop", [[mine if root == program.rank else shards[root]]], [[shards[root]]])
                         for root in range(world)]
                program.coalesced(job.default, "ALLGATHER_coalesced", parts, site=("gather_params", 66))
            else:
                parts = [("_all_gather_base", [[n]], [[n * world]]) for n in sizes]
                program.coalesced(job.default, "coalesced", parts, site=("gather_params", 66))
            program.call(job.default, "all_reduce", 1, site=("log_loss", 88))
            program.sync()
    return job


def background(rng, world: int, steps: int) -> Job:
    """DDP, and a thread that saves checkpoints with a group of its own."""
    job = ddp(rng, world, steps)
    job.name = "background"
    group = job.group("1", "checkpoint", range(world))
    for rank in range(world):
        program = Program(rank)
        for step in range(0, steps, 2):
            program.step(step)
            program.host(0.018 + 0.004 * rng.random(), "python")
            program.call(group, "all_gather", 64, "Long", site=("save_async", 240))
            program.sync()
            program.host(0.006, "python")
            program.call(group, "all_reduce_barrier", 1, site=("save_async", 251))
            program.sync()
        job.threads.append((rank, program))
    return job


def rollout(rng, trainers: int, generators: int, steps: int) -> Job:
    """Reinforcement learning: generators decode with tensor parallelism, trainers run DDP, weights go over all
    ranks."""
    world = trainers + generators
    job = Job("rollout", world)
    train = job.group("1", "trainers", range(trainers))
    decode = job.new_groups("rollout_tp", [list(range(at, min(at + 2, world))) for at in range(trainers, world, 2)])
    weights = [KI * rng.randrange(128, 512) for _ in range(3)]
    for program in job.programs:
        rank = program.rank
        for step in range(steps):
            program.step(step)
            if rank < trainers:
                for _ in range(2):
                    _data(program, rng)
                    program.kernel(0.002)
                    program.call(train, "all_reduce", 512 * KI, site=("reduce_grads", 47))
                    program.sync()
            else:
                for _ in range(8):
                    program.kernel(0.0006)
                    program.call(decode[rank], "all_reduce", 16 * KI, "BFloat16", site=("decode", 310))
                program.sync()
            for size in weights:
                program.call(job.default, "broadcast", size, "BFloat16", site=("update_weights", 330))
            program.sync()
    return job


def lazy_group(rng, world: int, steps: int, ranks=None, at: int = 2) -> Job:
    """DDP whose evaluation, at a later step, uses a group that nobody has used before."""
    job = ddp(rng, world, steps)
    job.name = "lazy_group"
    group = job.group("1", "eval", ranks or range(world))
    for rank in group.ranks:
        program = job.programs[rank]
        place = next(i for i, op in enumerate(program.ops) if op.kind == "step" and op.number == at)
        late = Program(rank)
        late.step_now = at
        late.tags = 10000
        late.host(0.002)
        late.call(group, "all_gather", KI, site=("evaluate", 270))
        late.sync()
        program.ops[place + 1:place + 1] = late.ops
    return job


def one_rank(rng, steps: int) -> Job:
    job = ddp(rng, 1, steps)
    job.name = "one_rank"
    return job


# Jobs that most faults fit into: name -> a job of some ranks and some steps.
USUAL: Dict[str, Callable] = {
    "ddp": lambda rng, steps: ddp(rng, rng.choice([3, 4, 8]), steps),
    "fsdp": lambda rng, steps: fsdp(rng, rng.choice([4, 8]), steps),
    "hsdp": lambda rng, steps: hsdp(rng, rng.choice([4, 8]), steps),
    "megatron": lambda rng, steps: megatron(rng, 2, 2, 2, steps=steps, batched=rng.random() < 0.6,
                                            syncs=rng.random() < 0.6, coalesced=rng.random() < 0.3),
    "megatron_deep": lambda rng, steps: megatron(rng, rng.choice([1, 2]), 4, rng.choice([1, 2]), steps=steps,
                                                 batched=rng.random() < 0.6),
    "moe": lambda rng, steps: moe(rng, 4, rng.choice([1, 2]), steps),
    "ring": lambda rng, steps: ring_attention(rng, rng.choice([4, 8]), steps),
    "coalesced": lambda rng, steps: coalesced(rng, rng.choice([4, 8]), steps),
    "context": lambda rng, steps: megatron(rng, 1, 2, 2, cp=2, steps=steps),
    "interleaved": lambda rng, steps: megatron(rng, rng.choice([1, 2]), rng.choice([2, 4]), 1, steps=steps, chunks=2),
    "experts": lambda rng, steps: megatron(rng, 1, 2, rng.choice([2, 4]), steps=steps, experts=True),
    "rollout": lambda rng, steps: rollout(rng, rng.choice([2, 4]), 4, steps),
}
