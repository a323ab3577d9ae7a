"""Mistakes in PyTorch programs: the cause as its author states it, and what a true verdict says. Written before the
first was run, by somebody who knew neither the analyzer's rules nor its words."""
import collections

HANGING, ENDED, FILES = "while it hangs", "after its end", "PyTorch's files"
Case = collections.namedtuple("Case", "program fault makes cause guilty also says untrue where certain size watch "
                                      "arguments settings torchrun ours_s pytorch_s end_s why")
CASES = {}

# No link is broken and no rank has died in these programs before PyTorch or the user ends them.
BYSTANDERS = r"fabric|\b(is|are) dead\b|died"


def case(program, fault, cause, guilty, says="", untrue=BYSTANDERS, where="", makes=None, also=(), certain=True,
         size=4, watch=(HANGING, ENDED, FILES), arguments=(), settings=None, torchrun=(), ours_s=5, pytorch_s=12,
         end_s=0, why="", name=None):
    """
    guilty: the ranks that a true verdict names; () for a job that is not hurt, None where it is no rank's fault. also:
    other sets of ranks that a true sentence may be about, too. says: what a true summary matches; untrue: what a false
    one does. where: a function of the program that the finding has to show. makes: the ranks that make the mistake,
    where these are not the guilty ones. certain: whether "certain" may stand over a true verdict; the record does not
    always decide. ours_s, pytorch_s: the timeouts of both. end_s: when the user ends the job, counted from the
    mistake; 0 if PyTorch does. why: what is known about a verdict that is not right.
    """
    CASES[name or f"{program}/{fault}"] = Case(
        program, fault, list(makes or guilty or [1]), cause, guilty, [list(some) for some in also], says, untrue,
        where, certain, size, watch, [str(word) for word in arguments], settings or {}, torchrun, ours_s, pytorch_s,
        end_s, why)


# --- one rank decides by itself -------------------------------------------------------------------------------------
# A call left out and a call too many look alike until a later call tells: a summary may say either if it says both.

LEFT_OUT = r"skipped|left out|ahead|without"
TOO_MANY = r"extra|too many|behind|where ranks? [\d,-]+ (called|call)|with \d+ elements?"
ONLY_TOO_MANY, ONLY_LEFT_OUT = BYSTANDERS + "|extra|too many", BYSTANDERS + "|skipped|left out"

case("loop", "nan", "rank 1 finds NaN in its batch and goes on to the next step without backward", [1], LEFT_OUT,
     ONLY_TOO_MANY)
case("loop", "barrier", "rank 3 leaves out the barrier of a checkpoint", [3], LEFT_OUT, ONLY_TOO_MANY)
case("loop", "validate", "rank 0 validates alone, one all_reduce too many", [0], TOO_MANY, ONLY_LEFT_OUT,
     where="validate")
case("loop", "save", "rank 0 saves once more, its loss being the best so far: one barrier too many", [0], TOO_MANY,
     ONLY_LEFT_OUT, where="save")
case("loop", "log", "rank 2 alone logs norms, an all_gather too many", [2], r"all_gather", ONLY_LEFT_OUT, where="log",
     why="the record has what NCCL was asked for: PyTorch makes this all_gather out of broadcasts")
case("loop", "oom_retry", "rank 1 runs out of memory and repeats the step in halves: gradients reduced twice", [1],
     TOO_MANY, ONLY_LEFT_OUT, where="train",
     why="autograd's thread made the extra call, and no Python frame is on that thread")
case("loop", "swap", "rank 2 makes two all_reduces in the other order", [2], r"order|swap|elements", ONLY_LEFT_OUT)
case("loop", "early_stop", "rank 1 stops early and destroys its process group", [1],
     r"closed|destroy|ended|exited|finish|stop_early", where="stop_early",
     why="the rank has exited: no stack of it is left")
case("loop", "uneven", "rank 1 has fewer batches and waits in the last barrier", [1])
case("loop", "sigterm", "rank 1 gets SIGTERM, and its handler broadcasts a checkpoint", [1], "broadcast",
     ONLY_LEFT_OUT, where="on_sigterm")
case("loop", "checkpoint", "rank 0 writes a checkpoint for 15 s while the others wait; then all goes on", [0],
     r"write at loop", watch=(HANGING,), pytorch_s=600)
case("loop", "late", "rank 2 is 30 ms late in each step", [2], r"late|straggler|slow", watch=(HANGING,),
     arguments=("--steps", 4000), ours_s=60, pytorch_s=600, end_s=10)
case("loop", "loader", "rank 1 waits in its loader; the user ends the job after 8 s of the 10 that make a hang", [1],
     r"never called|hanging_loader", watch=(ENDED,), ours_s=10, pytorch_s=600, end_s=8,
     name="loop/ended_before_timeout")

# --- one rank ends, or stops ----------------------------------------------------------------------------------------

case("loop", "stop", "rank 1 is stopped (SIGSTOP)", [1], "stop", untrue=BYSTANDERS + "|killed")
case("loop", "leave", "rank 1 calls sys.exit(0) in the middle", [1], r"exit|ended|closed|without")
case("loop", "crash", "rank 1 reads a null pointer", [1], r"dead|died|SIGSEGV|crash", untrue="fabric", watch=(ENDED,))

# --- sharded parameters ---------------------------------------------------------------------------------------------

case("sharded", "layer_drop", "rank 2 leaves out a block by a seed of its own", [2], "", ONLY_TOO_MANY)
case("sharded", "evaluate", "rank 1 evaluates alone, four all_gathers too many", [1], TOO_MANY, ONLY_LEFT_OUT)
case("sharded", "clip", "rank 1 does not clip its gradients", [1], "", ONLY_TOO_MANY)
case("sharded", "log_weights", "rank 0 alone calls full_tensor()", [0], "all_gather", ONLY_LEFT_OUT,
     where="log_weights")
case("hybrid", "loader", "hybrid sharding, 8 ranks: rank 5 waits in its loader", [5], "hanging_loader at mistakes.py",
     size=8)
case("hybrid", "all_reduce", "hybrid sharding, 8 ranks: rank 5 takes its micro-batch for one that is not the last, and "
     "leaves out the all_reduce", [5], "", size=8)

# --- groups ---------------------------------------------------------------------------------------------------------

case("axes", "order", "ranks 1 and 2 call dp before tp, the others tp before dp", [1, 2],
     r"order|for rank \d.* which waits|which waits", also=([0, 1, 2, 3],))
case("axes", "order", "the same, of each rank one dump kept", [1, 2], r"order|which waits", also=([0, 1, 2, 3],),
     settings={"TITANTRACE_KEEP": 1}, watch=(ENDED,), name="axes/order_keep_1",
     why="the one dump that is kept is the last, of PyTorch's abort; two (TITANTRACE_KEEP) would keep that of the hang")
case("axes", "order", "the same, each rank aborts later than the one before", [1, 2], r"order|which waits",
     also=([0, 1, 2, 3],), settings={"ABORT_APART_MS": 600}, watch=(ENDED,), name="axes/order_aborts_apart")
case("axes", "wrong_group", "rank 1 reduces its gradients over tp instead of dp", [1])
case("axes", "skip", "rank 1 leaves out an all_reduce over tp", [1], LEFT_OUT, ONLY_TOO_MANY,
     why="each rank of the pair waits for the other: the record cannot tell a call left out from one made later")
case("axes", "loader", "rank 1 waits in its loader; the group has a name", [1], r"\btp\b|mesh_tp")
case("creation", "members_only", "groups are made by their members only: no harm", (), makes=[0, 1, 2, 3],
     watch=(ENDED,))
case("creation", "other_order", "rank 2 makes the groups in the other order: no harm", (), makes=[2], watch=(ENDED,))
case("roots", "own_root", "every rank broadcasts from itself", [0, 1, 2, 3], "root", also=([1, 2, 3],))
case("roots", "short", "rank 1 broadcasts half of the elements", [1], "32 elements")

# --- sends and receives ---------------------------------------------------------------------------------------------

case("ring", "swapped", "rank 1 sends to the rank before and receives from the next", [1])
case("ring", "hop", "rank 1 leaves out a hop", [1], "", BYSTANDERS + "|sizes?")
case("ring", "size", "rank 1 sends and receives half a block", [1], r"elements|sizes?")
case("ring", "loader", "rank 1 waits in its loader", [1], "hanging_loader at mistakes.py")
case("experts", "splits", "rank 1 uses the split sizes of the step before", [1], r"elements|sizes?|splits?")
case("experts", "skip", "rank 1 does not send its tokens back", [1])
case("stages", "micro_batch", "rank 2 runs one micro-batch too few", [2])
case("stages", "loader", "stage 1 waits in its loader", [1], "hanging_loader at mistakes.py")

# --- beside NCCL ----------------------------------------------------------------------------------------------------

case("beside", "barrier", "rank 1 leaves out a Gloo barrier and goes on to an all_reduce", [1], r"Gloo|barrier",
     also=([0, 2, 3],))
case("beside", "objects", "rank 1 leaves out all_gather_object over Gloo and goes on to an all_reduce", [1],
     r"Gloo|object", also=([0, 2, 3],), arguments=("--at", 4))
case("beside", "store", "rank 2 loads and does not set the key that the others wait for", [2], r"load at beside",
     watch=(HANGING, ENDED), end_s=15,
     why="where the user ends it before ranks dump by themselves: rings hold no stacks; on a loaded machine the store "
         "gives up before that")
case("beside", "monitored_barrier", "rank 2 loads while the others are in a monitored barrier", [2],
     r"load at beside|monitored_barrier", watch=(HANGING, ENDED), end_s=15)
case("beside", "file", "all ranks wait for a file that nobody writes", None, "wait_for_file", makes=[0, 1, 2, 3],
     watch=(HANGING, ENDED), end_s=15,
     why="no finding: WAITING says where all ranks are; after the end there are no stacks")

# --- in Python ------------------------------------------------------------------------------------------------------

for fault, function, what in (
        ("file", "wait_for_file", "for a file"), ("socket", "read_socket", "for a socket"),
        ("lock", "take_lock", "for a lock that it holds itself"), ("queue", "take_from_queue", "for an empty queue"),
        ("retry", "retry_download", "for a server, and tries again and again"),
        ("compiler", "compile_kernel", "for a compiler"), ("flock", "lock_cache", "for a lock of a file (flock)"),
        ("spin", "spin", "for nothing, in a loop"), ("gil", "keep_gil", "in a function of C that keeps the GIL")):
    case("waits", fault, f"rank 1 waits {what}", [1], rf"\b{function} at waits")
case("threads", "read", "rank 1's thread that reads ahead sleeps; the main thread waits for a batch", [1],
     where="read")
case("threads", "write", "rank 1's saver thread sleeps; the main thread waits for it", [1], where="write")
case("threads", "gather", "rank 1's saver thread leaves out an all_reduce on a group of its own", [1], "",
     ONLY_TOO_MANY)

# --- restarted ------------------------------------------------------------------------------------------------------

case("ddp", "skip", "rank 1 leaves out an all_reduce; torchrun restarts the job, and the second attempt ends well",
     [1], LEFT_OUT, ONLY_TOO_MANY, torchrun=("--max-restarts=1",),
     settings={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": 1}, name="ddp/skip_restarted")
