"""Hangs and slow jobs out of the trackers of vLLM, SGLang, JAX and of reinforcement learning around them."""
import gc
import os
import signal
import time

from casebook import case, right


def receive_requests(dist, torch):
    dist.broadcast(torch.zeros(16), src=0)


def check_prefetch(dist, torch):
    dist.all_reduce(torch.zeros(1))


def collect_for(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        gc.collect()


def pass_on(job, count):
    """From stage to stage."""
    if job.rank > 0:
        job.world.recv(job.rank - 1, count)
        job.compute()
    if job.rank < 3:
        job.world.send(job.rank + 1, count)
    job.item()


def train_and_serve(job, third_update):
    """Ranks 0 to 2 train, rank 3 serves; after each step rank 0 asks for an update and broadcasts the weights."""
    trainers, transfer = job.comm((0, 1, 2), "trainers"), job.comm((0, 3), "transfer")
    for update in range(4):
        if job.rank == 3:
            job.store.get(f"update {update}")
            try:
                if update == 2:
                    third_update(job)
                transfer.broadcast()
            except RuntimeError:
                pass  # answers 500
        else:
            trainers.all_gather()
            trainers.reduce_scatter()
            job.item()
            if job.rank == 0:
                job.store.set(f"update {update}", b"")
                transfer.broadcast()
        job.item()


def update_fails(job):
    raise RuntimeError(f"rank {job.rank} is out of memory")


def wait_for_checkpoint(job):
    job.store.get("checkpoint")


@case("vllm-project/vllm#43547", "data-parallel serving of a mixture of experts deadlocks after an hour",
      "a rank without scheduled tokens returns early and leaves out that step's all_reduce of the group",
      right("op_mismatch size_mismatch rank_not_arrived", [1], [0, 1]), size=2, seen=("size_mismatch", [0, 1]))
def no_dummy_run(job):
    job.start()
    for step in range(1, 40):
        if step % 8 == 0:
            job.world.all_reduce(1)  # are there unfinished requests?
            job.item()
        if job.rank == 1 and step == 10:  # no tokens
            continue
        job.world.all_reduce(2)
        job.world.all_gather()
        job.world.reduce_scatter()
        job.item()


@case("vllm-project/vllm#28774", "data-parallel ranks fail in Gloo with a size that does not fit",
      "a rank without tokens returns before the coordinating all_reduce, and is one collective ahead",
      right("outside_nccl rank_dead", [0], [0, 1]), size=2, seen=("rank_dead", [0]))
def one_collective_ahead(job):
    import torch
    dist = job.gloo()
    job.start()
    for step in range(10):
        job.world.all_reduce()
        job.item()
        if not (job.rank == 0 and step == 7):  # no tokens
            dist.all_reduce(torch.zeros(2, 4))
        dist.all_reduce(torch.zeros(1))


@case("sgl-project/sglang#25404", "all data-parallel ranks but one hang in an all_gather",
      "an idle batch takes a path that iterates over None: that rank dies with a TypeError",
      right("rank_dead", [3]), launcher="none", seen=("rank_dead", [3]))
def idle_batch(job):
    job.start()
    for step in range(20):
        starts = [0] if job.rank < 3 or step < 12 else None
        job.world.all_gather(sum(1 for _ in starts))
        job.item()


@case("sgl-project/sglang#27221", "tensor-parallel ranks deadlock under overload with request timeouts",
      "each rank aborts by its own clock: one has another batch than the others at the deadline",
      right("size_mismatch op_mismatch", [2]), seen=("size_mismatch", [2]))
def own_clocks(job):
    job.start()
    for step in range(20):
        tokens = 16384 if step == 12 and job.rank != 2 else 256
        for _ in range(4):
            job.compute()
            job.world.all_reduce(tokens)
        job.item()


@case("sgl-project/sglang#22607", "a tensor-parallel group stalls in its CPU collectives",
      "rank 0 checks a prefetch once more, an all_reduce, while the others wait in the broadcast of requests",
      right("outside_nccl", [0]), seen=("outside_nccl", [0]))
def one_check_more(job):
    import torch
    dist = job.gloo()
    job.start()
    for _ in range(5):
        receive_requests(dist, torch)
        check_prefetch(dist, torch)
        job.world.all_reduce()
        job.item()
    if job.rank == 0:
        check_prefetch(dist, torch)
    receive_requests(dist, torch)


@case("sgl-project/sglang#28067", "a server stalls for many seconds, more with each hour, and recovers",
      "a full garbage collection stops one scheduler rank; the others wait in a collective",
      right("rank_not_arrived straggler", [1], says="collect|gc|heap"), seen=("rank_not_arrived", [1]))
def collection_on_one_rank(job):
    job.start()
    heap = [[number] for number in range(1_000_000 if job.rank == 1 else 10)]
    for step in range(20):
        if job.rank == 1 and step == 12:
            collect_for(10)
        job.compute()
        job.world.all_reduce()
        job.item()
    del heap


@case("sgl-project/sglang#20287", "a server with tensor parallelism hangs at its start, without an error",
      "the OOM killer took a higher rank while it allocated memory; the launcher waits for rank 0 only",
      right("rank_dead comm_init_stuck", [3]), launcher="none", seen=("rank_dead", [3]))
def killed_at_the_start(job):
    job.start()
    if job.rank == 3:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)  # the kernel's OOM killer
    job.world.barrier()


@case("sgl-project/sglang#34572", "pipeline stages each block in another send or receive",
      "after a burst of cancellations the first stages run one microbatch more than the last ones",
      right("size_mismatch p2p_unmatched p2p_cycle", [2], [2, 3], [1, 2]), seen=("size_mismatch", [2]))
def one_microbatch_more(job):
    job.start()
    for _ in range(6 if job.rank < 2 else 5):
        pass_on(job, 6144)
    pass_on(job, 16)


@case("huggingface/trl#6796", "the trainer hangs in a weight transfer to the server, without an error",
      "the server's update failed; its answer was thrown away, and the trainer is already in the broadcast",
      right("rank_not_arrived", [3]), seen=("rank_not_arrived", [3]))
def answer_thrown_away(job):
    job.start()
    train_and_serve(job, update_fails)


@case("huggingface/trl#7103", "a weight transfer hangs as soon as there is more than one trainer rank",
      "the inference worker waits for a checkpoint that never comes, rank 0 waits for it, the others for rank 0",
      right("rank_not_arrived", [3], says="checkpoint"), seen=("rank_not_arrived", [3]))
def waits_for_a_checkpoint(job):
    job.start()
    train_and_serve(job, wait_for_checkpoint)


@case("pegainfer-project/pegainfer#498", "tensor parallelism deadlocks with CUDA graphs",
      "each rank decides for itself whether it captures: one captures its all_reduce, the other runs it",
      right("capture_mismatch", [0]), size=2, seen=("capture_mismatch", [0]))
def captured_here_only(job):
    job.start()
    job.world.barrier()
    for step in range(6):
        capture = job.rank == 0 and step == 4
        if capture:
            job.begin_capture(job.stream)
        for _ in range(3):
            job.world.all_reduce()
        if capture:
            job.end_capture(job.stream)
        job.world.all_gather()
        job.item()


@case("jax-ml/jax#38503", "all hosts hang in a collective for ever, heartbeats go on",
      "one process is alive and never comes to the all_reduce of step 5", right("rank_not_arrived", [1]),
      seen=("rank_not_arrived", [1]))
def alive_but_stuck(job):
    job.start()
    for step in range(8):
        if step == 5 and job.rank == 1:
            time.sleep(1e6)
        job.compute()
        job.world.all_reduce()
        job.item()


@case("jax-ml/jax#11637", "a multi-GPU program hangs at its first collectives",
      "one thread's collective waits for another that is still in ncclCommInitRank, behind a lock of the driver",
      right("comm_init_stuck"),
      not_run="the simulated driver has no lock that a running kernel keeps from cudaMalloc")
def init_behind_a_collective(job):
    raise NotImplementedError


@case("Tencent-Hunyuan/UniRL#45", "a training phase takes twice as long as it should",
      "the rank that drew the longest sequences is the last in each collective",
      right("straggler", [2]), request_s=8, seen=("straggler", [2]))
def longest_sequences(job):
    job.start()
    for _ in range(10_000):
        job.compute(25 if job.rank == 2 else 8)
        job.world.all_reduce()
        job.item()
