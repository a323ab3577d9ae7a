"""Hangs out of the trackers of Accelerate, Transformers, Lightning and of training programs that use them."""
import os
import signal
import time

from casebook import case, right


def save_state(job):
    for shard in (2048, 8192, 8192):
        job.world.all_gather(shard)
    job.item()


def evaluate(job):
    job.world.all_gather(64)
    job.item()


def load_best_model(job):
    job.world.barrier()


def compute_validation_loss(job):
    job.world.reduce(count=1)
    job.item()


class Samples:
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 60

    def __getitem__(self, index):
        if self.rank == 1 and index == 30:
            os.kill(os.getpid(), signal.SIGKILL)  # the kernel's OOM killer
        return index


@case("huggingface/accelerate#2000", "saving the state hangs with FSDP",
      "save_state is called on the main process only; it gathers the shards of all",
      right("op_mismatch size_mismatch rank_not_arrived", [0]), seen=("op_mismatch", [0]))
def state_of_main_only(job):
    job.start()
    for _ in range(10):
        job.world.all_gather(8192)
        job.world.reduce_scatter(8192)
        job.item()
    job.world.barrier()
    if job.rank == 0:
        save_state(job)
    job.world.barrier()


@case("huggingface/accelerate#2733", "inference hangs where the results are gathered",
      "gather_object is called on the main process only; the others are done and end",
      right("rank_dead rank_not_arrived", [1, 2, 3]), seen=("rank_not_arrived", [1, 2, 3]))
def gather_on_main_only(job):
    job.start()
    job.world.barrier()
    job.compute(20)
    job.item()
    if job.rank == 0:
        job.world.all_gather(1)
        job.item()


@case("huggingface/transformers#31532", "an evaluation in the middle of an epoch hangs in gather_for_metrics",
      "the step is read from a progress bar that counts on the main process only, so only that one evaluates",
      right("op_mismatch size_mismatch rank_not_arrived", [0]), seen=("op_mismatch", [0]))
def progress_bar_decides(job):
    job.start()
    shown = 0
    for _ in range(20):
        job.compute()
        job.world.all_reduce(8192)
        job.item()
        shown += job.rank == 0
        if shown == 12:
            evaluate(job)


@case("Lightning-AI/pytorch-lightning#19106", "log_dict deadlocks",
      "a rank logs other keys than the others: each key is one reduction",
      right("op_mismatch size_mismatch rank_not_arrived", [1]), seen=("op_mismatch", [1]))
def keys_differ(job):
    job.start()
    for _ in range(8):
        job.world.all_reduce(8192)
        job.item()
    for _ in ("loss", "accuracy") if job.rank == 1 else ("loss", "accuracy", "loss of a rare class"):
        job.world.all_reduce(1)
        job.item()
    job.world.broadcast(0, 1)
    job.item()


@case("Lightning-AI/pytorch-lightning#5243", "DDP training stops when training_step returns None",
      "the rank skips its backward pass, and so the gradients' all_reduce of that batch",
      right("op_mismatch size_mismatch rank_not_arrived", [2]), seen=("size_mismatch", [2]))
def step_skipped(job):
    job.start()
    for step in range(12):
        if step == 7 and job.rank == 2:  # the loss is no number
            continue
        for bucket in (2048, 8192, 8192):
            job.compute()
            job.world.all_reduce(bucket)
        job.item()
    job.world.barrier()


@case("speechbrain/speechbrain#2051", "early stopping hangs with DDP",
      "the end of a validation stage is handled on the main process only: it stops, the others train on",
      right("op_mismatch size_mismatch rank_not_arrived rank_dead", [0]), seen=("size_mismatch", [0]))
def only_main_stops(job):
    job.start()
    for epoch in range(6):
        for _ in range(4):
            job.compute()
            job.world.all_reduce(8192)
            job.item()
        if job.rank == 0 and epoch == 3:
            break
    load_best_model(job)


@case("lifeiteng/vall-e#93", "training on 8 GPUs hangs at a validation",
      "one rank has consumed its data and reduces its validation loss; the others train the next batch",
      right("op_mismatch size_mismatch rank_not_arrived", [1]), seen=("op_mismatch", [1]))
def first_to_validate(job):
    job.start()
    for _ in range(14 if job.rank == 1 else 15):
        job.compute()
        job.world.all_reduce(8192)
        job.item()
    compute_validation_loss(job)


@case("yiqiao-yin/deepspeed-course#17", "a barrier around a download hangs, before DeepSpeed is initialized",
      "no rank has set its device yet: all enter the barrier on GPU 0",
      right("comm_init_stuck rank_dead", says=r"(same|one) (GPU|device)|device 0|GPU 0|cuda:0"),
      seen=("rank_dead", None),
      partly="some of the four ranks that NCCL refused are named as dead; that all chose GPU 0 is not said")
def one_gpu_for_all(job):
    job.prepare()
    if job.rank == 0:
        time.sleep(0.2)  # downloads
    job.world.barrier()


@case("facebookresearch/dinov3#150", "training fails hours later: a DataLoader worker is killed",
      "memory grows without garbage collection until the kernel's OOM killer takes a worker; its rank raises",
      right("rank_dead", [1]), hang_s=20, seen=("rank_dead", [1]))
def loader_killed(job):
    from torch.utils.data import DataLoader
    job.start()
    batches = DataLoader(Samples(job.rank), num_workers=1, multiprocessing_context="fork")
    for _ in batches:
        job.compute()
        job.world.all_reduce()
        job.item()
