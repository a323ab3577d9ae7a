"""Hangs out of the trackers of Accelerate, Transformers, Lightning and of training programs that use them."""
from casebook import case, right


@case("huggingface/accelerate#2000", "saving the state hangs with FSDP",
      "save_state is called on the main process only; it gathers the shards of all",
      right("op_mismatch size_mismatch rank_not_arrived", [0]))
def state_of_main_only(job):
    ...


@case("huggingface/accelerate#2733", "inference hangs where the results are gathered",
      "gather_object is called on the main process only; the others are done and end",
      right("rank_dead rank_not_arrived", [1, 2, 3]))
def gather_on_main_only(job):
    ...


@case("huggingface/transformers#31532", "an evaluation in the middle of an epoch hangs in gather_for_metrics",
      "the step is read from a progress bar that counts on the main process only, so only that one evaluates",
      right("op_mismatch size_mismatch rank_not_arrived", [0]))
def progress_bar_decides(job):
    ...


@case("Lightning-AI/pytorch-lightning#19106", "log_dict deadlocks",
      "a rank logs other keys than the others: each key is one reduction",
      right("op_mismatch size_mismatch rank_not_arrived", [1]))
def keys_differ(job):
    ...


@case("Lightning-AI/pytorch-lightning#5243", "DDP training stops when training_step returns None",
      "the rank skips its backward pass, and so the gradients' all_reduce of that batch",
      right("op_mismatch size_mismatch rank_not_arrived", [2]))
def step_skipped(job):
    ...


@case("speechbrain/speechbrain#2051", "early stopping hangs with DDP",
      "the end of a validation stage is handled on the main process only: it stops, the others train on",
      right("op_mismatch size_mismatch rank_not_arrived rank_dead", [0]))
def only_main_stops(job):
    ...


@case("lifeiteng/vall-e#93", "training on 8 GPUs hangs at a validation",
      "one rank has consumed its data and reduces its validation loss; the others train the next batch",
      right("op_mismatch size_mismatch rank_not_arrived", [1]))
def first_to_validate(job):
    ...


@case("yiqiao-yin/deepspeed-course#17", "a barrier around a download hangs, before DeepSpeed is initialized",
      "no rank has set its device yet: all enter the barrier on GPU 0",
      right("comm_init_stuck rank_dead", says=r"(same|one) (GPU|device)|device 0|GPU 0|cuda:0"))
def one_gpu_for_all(job):
    ...


@case("facebookresearch/dinov3#150", "training fails hours later: a DataLoader worker is killed",
      "memory grows without garbage collection until the kernel's OOM killer takes a worker; its rank raises",
      right("rank_dead", [1]))
def loader_killed(job):
    ...
