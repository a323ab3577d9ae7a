"""Hangs and slow jobs out of the trackers of Megatron, DeepSpeed, verl and what stands on them."""
import gc
import threading
import time

from casebook import case, right


def save_checkpoint(job):
    job.world.barrier()


def teacher_forward(job):
    job.world.all_gather(8192)
    job.world.all_gather(8192)
    job.item()


def save_pretrained(job):
    job.world.all_gather(512)
    job.item()


def update_actor(job, later_s):
    time.sleep(later_s)
    job.world.reduce_scatter(8192)
    job.item()


def update_weights(job, later_s):
    time.sleep(later_s)
    job.world.all_gather(2048)
    job.item()


@case("NVIDIA/Megatron-LM#1450", "pipeline of 2 with virtual stages of 2 gets stuck with variable sequence lengths",
      "next and previous stage are the same peer: activation and gradient are received in the other order than sent",
      right("size_mismatch p2p_unmatched", [0, 1], [0], [1]), size=2, seen=("size_mismatch", [0, 1]))
def same_peer_both_ways(job):
    job.start()
    for activation, gradient in ((4096, 4096), (4096, 4096), (8192, 2048)):
        with job.world.group():
            if job.rank == 0:
                job.world.send(1, activation)
                job.world.send(1, gradient)
            else:
                job.world.recv(0, gradient)
                job.world.recv(0, activation)
        job.item()


@case("NVIDIA/Megatron-LM#5240", "an interleaved pipeline of 4 hangs in a receive, on another rank each time",
      "unbatched sends create a communicator per pair of ranks at first use, in orders that wait for each other",
      right("comm_init_stuck order_inversion", [0, 1, 2, 3]), seen=("comm_init_stuck", [0, 1, 2, 3]))
def lazy_pairs(job):
    job.start()
    before, after = (job.rank - 1) % 4, (job.rank + 1) % 4
    job.comm([job.rank, after], f"from {job.rank}").send(1, wait=False)
    job.comm([before, job.rank], f"from {before}").recv(0)
    job.item()


@case("deepspeedai/DeepSpeed#2993", "saving a checkpoint hangs",
      "save_checkpoint is called under if rank == 0, and begins with a barrier",
      right("op_mismatch size_mismatch rank_not_arrived", [0]), seen=("op_mismatch", [0]))
def save_on_rank_0(job):
    job.start()
    for step in range(12):
        job.compute()
        job.world.reduce_scatter(8192)
        job.world.all_gather(8192)
        job.item()
        if step == 9 and job.rank == 0:
            save_checkpoint(job)


@case("deepspeedai/DeepSpeed#5008", "ZeRO-3 training of a mixture of experts hangs in the backward pass",
      "an expert that gets no tokens on a rank fires no hook there: its reduce_scatter is missing",
      right("op_mismatch size_mismatch rank_not_arrived", [3]), seen=("size_mismatch", [3]))
def expert_without_tokens(job):
    job.start()
    for step in range(8):
        for expert in range(4):
            job.compute()
            if not (step == 7 and job.rank == 3 and expert == 2):
                job.world.reduce_scatter(4096)
        job.world.reduce_scatter(16384)
        job.world.all_gather(16384)
        job.item()


@case("deepspeedai/DeepSpeed#8262", "a rollout under ZeRO-3 deadlocks",
      "one rank's answer ends earlier: it goes on to the teacher's forward while the others gather for the next token",
      right("op_mismatch size_mismatch rank_not_arrived", [1]), seen=("size_mismatch", [1]))
def answer_ends_early(job):
    job.start()
    for token in range(40):
        if job.rank == 1 and token == 21:
            break
        job.world.all_gather(2048)
        job.world.all_gather(2048)
        job.item()
    teacher_forward(job)


@case("deepspeedai/DeepSpeed#8451", "expert-parallel training is slower than expected",
      "full garbage collections stop one rank for a quarter of a second; the others wait in the next dispatch",
      right("straggler", [2]), request_s=40,
      nothing="groups of sends and receives (all_to_all) are not compared, and this job has nothing else")
def full_collections(job):
    job.start()
    heap = [[number] for number in range(1_500_000 if job.rank == 2 else 10)]
    for _ in range(10_000):
        job.compute(5)
        gc.collect()
        job.world.all_to_all()
        job.item()
    del heap


@case("huggingface/transformers#29980", "prompt tuning under ZeRO-3 hangs after a checkpoint was saved",
      "save_pretrained runs the prompt encoder on rank 0 only, whose parameters ZeRO-3 gathers from all",
      right("op_mismatch size_mismatch rank_not_arrived", [0]), seen=("size_mismatch", [0]))
def encoder_on_rank_0(job):
    job.start()
    for step in range(12):
        job.world.all_gather(2048)
        job.world.all_gather(8192)
        job.world.reduce_scatter(8192)
        job.item()
        if step == 9 and job.rank == 0:
            save_pretrained(job)


@case("verl-project/verl#7423", "asynchronous training with pipeline and expert parallelism deadlocks at a weight sync",
      "the training thread and the sync coroutine of a worker submit to the same communicators, in any order",
      right("op_mismatch size_mismatch order_inversion", [1]), seen=("op_mismatch", [1]))
def two_threads_one_group(job):
    job.start()
    job.world.barrier()
    trainer = threading.Thread(target=update_actor, args=(job, 0.4 if job.rank == 1 else 0))
    trainer.start()
    update_weights(job, 0 if job.rank == 1 else 0.4)
    trainer.join()
