"""What can go wrong in a training job, one row each: how it is made to happen, and what the verdict must be.

In titan-sim's steps tp issues 3 operations, dp 2, world 1 (2 with a checkpoint): a fault in step 5 strikes tp #15, dp
#10, world #5. tests/simgpu/README.md explains the faults.
"""

import dataclasses
import typing

# 2 dp groups of 4 and 4 tp groups of 2; 2 tp groups of 4; 4 stages of 2.
DP4 = "--ranks 8 --tp 2"
TP4 = "--ranks 8 --tp 4"
WIDE = "--ranks 16 --tp 4 --pp 2"
PP2 = "--ranks 4 --pp 2"
DP2 = "--ranks 2"
SLOW = " --step-ms 100"


@dataclasses.dataclass(frozen=True)
class FaultCase:
    name: str
    options: str
    faults: str
    kinds: tuple  # of the verdict, any of these
    ranks: tuple
    comm: typing.Optional[str]
    seq: typing.Optional[int]
    op: typing.Optional[str]
    confidence: typing.Optional[tuple] = None
    words: tuple = ()  # in the summary
    evidence: tuple = ()  # words somewhere in its lines
    settings: dict = dataclasses.field(default_factory=dict)
    records: typing.Optional[int] = None  # dumps to wait for; one per rank when None


STRICT = {"SIMGPU_STRICT_MATCHING": "1"}  # else another reduction computes nonsense and hangs nobody
UNWATCHED = {"TITANTRACE_GPU_PROGRESS": "off"}

# Each time: that the chain from the process to the verdict works. Which verdict a fault gets is asked of the analyzer
# alone (tests/unit/analyzer/verdicts); all rows together run at night.
EACH_TIME = {"skip", "spin", "killed", "kernel_hangs", "channel_hangs", "captured_not_run", "never_inits",
             "send_missing"}

CASES = [
    # A call too few, a call too many. The rest of the sequence is shifted: one finding, not one per call.
    FaultCase("skip", DP4, "skip rank=5 comm=dp step=5", ("op_mismatch",), (5,), "dp", 10, "reduce_scatter",
              words=("skipped",)),
    FaultCase("skip_split", DP4 + " --use-split", "skip rank=5 comm=dp step=5", ("op_mismatch",), (5,), "dp", 10,
              "reduce_scatter", words=("skipped",)),
    FaultCase("skip_threads", DP4 + " --threads", "skip rank=5 comm=dp step=5", ("op_mismatch",), (5,), "dp", 10,
              "reduce_scatter", words=("skipped",), records=1),
    # Hosts that ask whether the GPU is done, and never block.
    FaultCase("skip_polling", DP4 + " --poll", "skip rank=5 comm=dp step=5", ("op_mismatch",), (5,), "dp", 10,
              "reduce_scatter", words=("skipped",)),
    FaultCase("stuck_polling", DP4 + " --poll", "stuck rank=5 comm=dp step=5", ("stuck_in_flight",), (1, 3, 5, 7), "dp",
              10, "reduce_scatter"),
    FaultCase("sleep_polling", DP4 + " --poll", "sleep rank=5 comm=dp step=5 ms=60000", ("rank_not_arrived",), (5,),
              "dp", 10, "reduce_scatter"),
    FaultCase("skip_wide", WIDE, "skip rank=9 comm=tp step=5", ("op_mismatch",), (9,), "tp", 15, "all_reduce",
              words=("skipped",)),
    # Its check of the numbers ends it then, with status 3.
    FaultCase("skip_last", DP4, "skip rank=3 comm=world step=5", ("rank_dead",), (3,), "world", 5, "all_reduce"),
    FaultCase("extra", DP4, "extra rank=5 comm=dp step=5", ("op_mismatch",), (5,), "dp", 10, "reduce_scatter",
              words=("extra",)),
    FaultCase("extra_split", DP4 + " --use-split", "extra rank=0 comm=dp step=5", ("op_mismatch",), (0,), "dp", 10,
              "reduce_scatter", words=("extra",)),
    # The same place, other arguments.
    FaultCase("other_op", TP4, "other rank=2 comm=tp step=5 kind=allgather", ("op_mismatch",), (2,), "tp", 15,
              "all_reduce"),
    FaultCase("other_op_of_rank_0", TP4, "other rank=0 comm=tp step=5 kind=reduce", ("op_mismatch",), (0,), "tp", 15,
              "all_reduce"),
    FaultCase("other_count", TP4, "count rank=6 comm=tp step=5 factor=0.5", ("size_mismatch",), (6,), "tp", 15,
              "all_reduce"),
    FaultCase("other_count_split", TP4 + " --use-split", "count rank=6 comm=tp step=5 factor=2", ("size_mismatch",),
              (6,), "tp",
              15, "all_reduce"),
    FaultCase("other_datatype", TP4, "dtype rank=1 comm=tp step=5 type=float64", ("dtype_mismatch",), (1,), "tp", 15,
              "all_reduce"),
    FaultCase("other_datatype_of_one_size", TP4, "dtype rank=1 comm=tp step=5 type=int32", ("dtype_mismatch",), (1,),
              "tp", 15,
              "all_reduce", settings=STRICT),
    FaultCase("other_reduction", TP4, "redop rank=3 comm=tp step=5 op=max", ("redop_mismatch",), (3,), "tp", 15,
              "all_reduce",
              settings=STRICT),
    FaultCase("other_root", DP4 + " --checkpoint-every 1", "root rank=3 comm=world step=5 nth=1 root=2",
              ("root_mismatch",),
              (3,), "world", 11, "broadcast"),
    # Two communicators on one stream, taken in opposite orders.
    FaultCase("order_swapped", "--ranks 4 --tp 2", "swap rank=1 comm=dp step=5 nth=1 with=world",
              ("order_inversion",), (1,),
              None, None, None),
    FaultCase("order_swapped_of_8", DP4, "swap rank=4 comm=dp step=5 nth=1 with=world", ("order_inversion",), (4,),
              None, None, None),
    # It does something else, or nothing any more.
    FaultCase("sleep", DP4, "sleep rank=5 comm=dp step=5 ms=60000", ("rank_not_arrived",), (5,), "dp", 10,
              "reduce_scatter"),
    FaultCase("sleep_at_step", TP4, "sleep rank=2 step=5 ms=60000", ("rank_not_arrived",), (2,), "tp", 15,
              "all_reduce"),
    FaultCase("spin", DP4, "spin rank=6 comm=dp step=5", ("rank_not_arrived",), (6,), "dp", 10, "reduce_scatter"),
    FaultCase("spin_threads", DP4 + " --threads", "spin rank=6 comm=dp step=5", ("rank_not_arrived",), (6,), "dp", 10,
              "reduce_scatter", records=1),
    FaultCase("spin_wide", WIDE + " --use-split", "spin rank=13 comm=tp step=5", ("rank_not_arrived",), (13,), "tp",
              15, "all_reduce"),
    # At the start of a step all operations before it have ended: the first of the step is what the others wait in. The
    # steps are long, because the end of an operation is seen up to 20 ms late, and by a dead rank never; and a crash
    # dumps at once, so the rank lets the others arrive first.
    FaultCase("killed", "--ranks 4" + SLOW, "sleep rank=2 step=5 ms=500; kill rank=2 step=5", ("rank_dead",), (2,),
              "dp", 10, "reduce_scatter"),
    FaultCase("killed_split", DP4 + " --use-split" + SLOW, "kill rank=5 step=5", ("rank_dead",), (5,), None, None,
              None),
    FaultCase("killed_wide", WIDE + SLOW, "sleep rank=2 step=5 ms=500; kill rank=2 step=5", ("rank_dead",), (2,),
              "tp", 15, "all_reduce"),
    FaultCase("killed_of_two", DP2 + SLOW, "sleep rank=1 step=5 ms=500; kill rank=1 step=5", ("rank_dead",), (1,),
              "dp", 10, "reduce_scatter"),
    FaultCase("crashed", "--ranks 4" + SLOW, "sleep rank=3 step=5 ms=500; segv rank=3 step=5", ("rank_dead",), (3,),
              "dp", 10, "reduce_scatter"),
    FaultCase("crashed_of_16", WIDE + SLOW, "segv rank=0 step=5", ("rank_dead",), (0,), None, None, None),
    FaultCase("left_early", "--ranks 4" + SLOW, "exit rank=1 step=5 code=0", ("rank_dead", "rank_not_arrived"), (1,),
              "dp", 10,
              "reduce_scatter"),
    # The device.
    FaultCase("kernel_hangs", DP4, "hang-kernel rank=5 comm=dp step=5", ("gpu_queue_blocked",), (5,), "dp", 10,
              "reduce_scatter", words=("simgpu_hang_kernel",)),
    FaultCase("kernel_hangs_by_events", DP4, "hang-kernel rank=5 comm=dp step=5", ("gpu_queue_blocked",), (5,), "dp",
              10,
              "reduce_scatter", words=("simgpu_hang_kernel",), settings={"TITANTRACE_GPU_PROGRESS": "events"}),
    FaultCase("copy_hangs", DP4, "hang-copy rank=5 comm=tp step=5", ("gpu_queue_blocked",), (5,), "tp", 15,
              "all_reduce",
              words=("cop",)),
    FaultCase("event_wait_hangs", DP4, "hang-event rank=2 comm=tp step=5", ("gpu_queue_blocked",), (2,), "tp", 15,
              "all_reduce", words=("simgpu_hang_kernel", "event")),
    FaultCase("host_function_hangs", DP4, "hang-host rank=3 comm=dp step=5", ("gpu_queue_blocked",), (3,), "dp", 10,
              "reduce_scatter", words=("host function",)),
    # Nobody sees the GPU: what one rank alone handed over is named, and what is certain and ahead leads.
    FaultCase("kernel_hangs_unwatched", DP4, "hang-kernel rank=5 comm=dp step=5", ("gpu_queue_blocked",), (5,), None,
              None,
              None, ("possible",), words=("simgpu_hang_kernel",), settings=UNWATCHED),
    FaultCase("other_datatype_unwatched", DP4, "dtype rank=5 comm=dp step=5 type=float64", ("dtype_mismatch",), (5,),
              "dp",
              10, "reduce_scatter", ("certain",), settings=UNWATCHED),
    FaultCase("other_reduction_unwatched", DP4, "redop rank=5 comm=dp step=5 op=max", ("redop_mismatch",), (5,), "dp",
              10,
              "reduce_scatter", ("certain",), settings={**STRICT, **UNWATCHED}),
    FaultCase("channel_hangs", DP4, "stuck-channel rank=5 comm=dp step=5", ("stuck_in_flight",), (1, 3, 5, 7), "dp", 10,
              "reduce_scatter", settings={"TITANTRACE_NCCL_PLUGIN": "progress"}, evidence=("channel",)),
    # Graphs: replayed, skipped, captured and never run.
    FaultCase("replay_skipped", DP4 + " --graphs --checkpoint-every 8", "graph-skip rank=5 step=5",
              ("op_mismatch", "rank_not_arrived"), (5,),
              None, None, None, words=("replay", "graph")),
    FaultCase("captured_not_run", DP4, "graph-eager rank=5 comm=dp step=5", ("capture_mismatch",), (5,), "dp", 10,
              "reduce_scatter", words=("graph",)),
    FaultCase("sleeps_between_replays", DP4 + " --graphs", "sleep rank=6 step=5 ms=60000", ("rank_not_arrived",), (6,),
              None,
              None, None),
    FaultCase("never_finishes", DP4, "stuck rank=5 comm=dp step=5", ("stuck_in_flight",), (1, 3, 5, 7), "dp", 10,
              "reduce_scatter"),
    FaultCase("never_finishes_of_two", DP2, "stuck rank=0 comm=dp step=5", ("stuck_in_flight",), (0, 1), "dp", 10,
              "reduce_scatter"),
    # Communicators.
    FaultCase("never_inits", DP4, "no-init rank=5 comm=dp", ("comm_init_stuck",), (5,), "dp", None, None),
    FaultCase("never_splits", DP4 + " --use-split", "no-init rank=5 comm=tp", ("comm_init_stuck",), (5,), "world",
              None, None),
    # Point to point.
    FaultCase("send_missing", PP2, "skip rank=0 comm=pp step=5 nth=0", ("p2p_unmatched",), (0,), "pp", None, None),
    FaultCase("receive_missing", PP2, "skip rank=2 comm=pp step=5 nth=0", ("p2p_unmatched",), (2,), "pp", None, None),
    # Two members that differ, nothing to compare with: nobody can know.
    FaultCase("tie_count", DP2, "count rank=1 comm=dp step=0", ("size_mismatch",), (0, 1), "dp", 0, "reduce_scatter",
              ("possible",),
              ("undecidable",)),
    FaultCase("tie_op", DP2, "other rank=0 comm=dp step=0 kind=broadcast", ("op_mismatch",), (0, 1), "dp", 0, None,
              ("possible",),
              ("undecidable",)),
    # Two members that differ, and one does what it always did.
    FaultCase("tie_with_history", DP2, "count rank=1 comm=dp step=5", ("size_mismatch",), (1,), "dp", 10,
              "reduce_scatter", ("likely",)),
]
