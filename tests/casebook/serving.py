"""Hangs and slow jobs out of the trackers of vLLM, SGLang, JAX and of reinforcement learning around them."""
from casebook import case, right


@case("vllm-project/vllm#43547", "data-parallel serving of a mixture of experts deadlocks after an hour",
      "a rank without scheduled tokens returns early and leaves out that step's all_reduce of the group",
      right("op_mismatch size_mismatch rank_not_arrived", [1], [0, 1]), size=2)
def no_dummy_run(job):
    ...


@case("vllm-project/vllm#28774", "data-parallel ranks fail in Gloo with a size that does not fit",
      "a rank without tokens returns before the coordinating all_reduce, and is one collective ahead",
      right("outside_nccl rank_dead", [0], [0, 1]), size=2)
def one_collective_ahead(job):
    ...


@case("sgl-project/sglang#25404", "all data-parallel ranks but one hang in an all_gather",
      "an idle batch takes a path that iterates over None: that rank dies with a TypeError",
      right("rank_dead", [3]), launcher="none")
def idle_batch(job):
    ...


@case("sgl-project/sglang#27221", "tensor-parallel ranks deadlock under overload with request timeouts",
      "each rank aborts by its own clock: one has another batch than the others at the deadline",
      right("size_mismatch op_mismatch", [2]))
def own_clocks(job):
    ...


@case("sgl-project/sglang#22607", "a tensor-parallel group stalls in its CPU collectives",
      "rank 0 checks a prefetch once more, an all_reduce, while the others wait in the broadcast of requests",
      right("outside_nccl", [0]))
def one_check_more(job):
    ...


@case("sgl-project/sglang#28067", "a server stalls for many seconds, more with each hour, and recovers",
      "a full garbage collection stops one scheduler rank; the others wait in a collective",
      right("rank_not_arrived straggler", [1], says="collect|gc|heap"))
def collection_on_one_rank(job):
    ...


@case("sgl-project/sglang#20287", "a server with tensor parallelism hangs at its start, without an error",
      "the OOM killer took a higher rank while it allocated memory; the launcher waits for rank 0 only",
      right("rank_dead comm_init_stuck", [3]), launcher="none")
def killed_at_the_start(job):
    ...


@case("sgl-project/sglang#34572", "pipeline stages each block in another send or receive",
      "after a burst of cancellations the first stages run one microbatch more than the last ones",
      right("size_mismatch p2p_unmatched p2p_cycle", [2], [2, 3], [1, 2]))
def one_microbatch_more(job):
    ...


@case("huggingface/trl#6796", "the trainer hangs in a weight transfer to the server, without an error",
      "the server's update failed; its answer was thrown away, and the trainer is already in the broadcast",
      right("rank_not_arrived", [3]))
def answer_thrown_away(job):
    ...


@case("huggingface/trl#7103", "a weight transfer hangs as soon as there is more than one trainer rank",
      "the inference worker waits for a checkpoint that never comes, rank 0 waits for it, the others for rank 0",
      right("rank_not_arrived", [3], says="checkpoint"))
def waits_for_a_checkpoint(job):
    ...


@case("pegainfer-project/pegainfer#498", "tensor parallelism deadlocks with CUDA graphs",
      "each rank decides for itself whether it captures: one captures its all_reduce, the other runs it",
      right("capture_mismatch", [0]), size=2)
def captured_here_only(job):
    ...


@case("jax-ml/jax#38503", "all hosts hang in a collective for ever, heartbeats go on",
      "one process is alive and never comes to the all_reduce of step 5", right("rank_not_arrived", [1]))
def alive_but_stuck(job):
    ...


@case("jax-ml/jax#11637", "a multi-GPU program hangs at its first collectives",
      "one thread's collective waits for another that is still in ncclCommInitRank, behind a lock of the driver",
      right("comm_init_stuck"))
def init_behind_a_collective(job):
    ...


@case("Tencent-Hunyuan/UniRL#45", "a training phase takes twice as long as it should",
      "the rank that drew the longest sequences is the last in each collective",
      right("straggler", [2]), request=True)
def longest_sequences(job):
    ...
