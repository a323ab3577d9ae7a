"""Hangs and slow jobs out of the trackers of Megatron, DeepSpeed, verl and what stands on them."""
from casebook import case, right


@case("NVIDIA/Megatron-LM#1450", "pipeline of 2 with virtual stages of 2 gets stuck with variable sequence lengths",
      "next and previous stage are the same peer: activation and gradient are received in the other order than sent",
      right("size_mismatch p2p_unmatched", [0, 1], [0], [1]), size=2)
def same_peer_both_ways(job):
    ...


@case("NVIDIA/Megatron-LM#5240", "an interleaved pipeline of 4 hangs in a receive, on another rank each time",
      "unbatched sends create a communicator per pair of ranks at first use, in orders that wait for each other",
      right("comm_init_stuck order_inversion", [0, 1, 2, 3]))
def lazy_pairs(job):
    ...


@case("deepspeedai/DeepSpeed#2993", "saving a checkpoint hangs",
      "save_checkpoint is called under if rank == 0, and begins with a barrier",
      right("op_mismatch size_mismatch rank_not_arrived", [0]))
def save_on_rank_0(job):
    ...


@case("deepspeedai/DeepSpeed#5008", "ZeRO-3 training of a mixture of experts hangs in the backward pass",
      "an expert that gets no tokens on a rank fires no hook there: its reduce_scatter is missing",
      right("op_mismatch size_mismatch rank_not_arrived", [3]))
def expert_without_tokens(job):
    ...


@case("deepspeedai/DeepSpeed#8262", "a rollout under ZeRO-3 deadlocks",
      "one rank's answer ends earlier: it goes on to the teacher's forward while the others gather for the next token",
      right("op_mismatch size_mismatch rank_not_arrived", [1]))
def answer_ends_early(job):
    ...


@case("deepspeedai/DeepSpeed#8451", "expert-parallel training is slower than expected",
      "full garbage collections stop one rank for a quarter of a second; the others wait in the next dispatch",
      right("straggler", [2]), request=True)
def full_collections(job):
    ...


@case("huggingface/transformers#29980", "prompt tuning under ZeRO-3 hangs after a checkpoint was saved",
      "save_pretrained runs the prompt encoder on rank 0 only, whose parameters ZeRO-3 gathers from all",
      right("op_mismatch size_mismatch rank_not_arrived", [0]))
def encoder_on_rank_0(job):
    ...


@case("verl-project/verl#7423", "asynchronous training with pipeline and expert parallelism deadlocks at a weight sync",
      "the training thread and the sync coroutine of a worker submit to the same communicators, in any order",
      right("op_mismatch size_mismatch order_inversion", [1]))
def two_threads_one_group(job):
    ...
