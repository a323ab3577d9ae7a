"""Hangs out of PyTorch's own trackers: c10d, DDP, FSDP, torchtitan, torchrec."""
from casebook import case, right


@case("pytorch/pytorch#33148", "DDP hangs when the ranks have different numbers of batches",
      "the rank with the fewest batches leaves the loop; the others wait in the gradients' next all_reduce",
      right("rank_dead rank_not_arrived", [1]))
def uneven_inputs(job):
    ...


@case("pytorch/pytorch#77562", "FSDP training times out in an all_gather after some epochs, where checkpoints depend "
      "on the best loss so far",
      "the loss was reduced to one rank instead of all_reduced: the ranks disagreed on whether to save",
      right("op_mismatch size_mismatch", [2]))
def best_loss_differs(job):
    ...


@case("pytorch/pytorch#25390", "creating process groups of pairs fails or hangs",
      "each rank called new_group once, with its own pair only: both pairs took the same id",
      right("comm_init_stuck"))
def own_pair_only(job):
    ...


@case("pytorch/pytorch#97191", "an all_reduce times out and the watchdog does not end the job",
      "rank 0 passes twice as many elements", right("size_mismatch", [0]))
def twice_the_elements(job):
    ...


@case("pytorch/pytorch#117486", "all_to_all_single hangs with certain split sizes",
      "the splits do not fit: one rank receives more from the other than that one sends",
      right("size_mismatch p2p_unmatched", [0, 1], [0], [1]), size=2)
def splits_do_not_fit(job):
    ...


@case("pytorch/pytorch#44957", "SyncBatchNorm hangs when one process does not call a module",
      "one rank is at the first frame of a video and leaves a module out, whose SyncBatchNorm the others wait in",
      right("op_mismatch rank_not_arrived", [3]))
def module_left_out(job):
    ...


@case("pytorch/pytorch#48988", "validation on one rank hangs with SyncBatchNorm",
      "without running statistics SyncBatchNorm gathers in eval mode, too, and only rank 0 validates",
      right("op_mismatch rank_not_arrived", [0]))
def gathers_in_eval(job):
    ...


@case("pytorch/pytorch#172668", "an interleaved pipeline gets stuck once sends and receives are not batched",
      "stage 0 sends its next activation before it receives the gradient; stage 1 sends that gradient first",
      right("p2p_cycle", [0, 1]), size=2)
def send_behind_send(job):
    ...


@case("pytorch/pytorch#88000", "rank 0 hangs in a broadcast for ever, the other rank is done",
      "only rank 0 calls broadcast", right("rank_dead rank_not_arrived", [1]), size=2)
def broadcast_on_rank_0(job):
    ...


@case("pytorch/pytorch#72843", "a recommendation model hangs in the first iteration",
      "a module runs on some ranks only, so DDP reduces its buckets in another order there, before the all_to_all",
      right("op_mismatch p2p_unmatched rank_not_arrived", [3]))
def buckets_in_another_order(job):
    ...


@case("pytorch/pytorch#104103", "all_reduce, then item(): the job hangs at the start",
      "rank 0 holds the GIL in item() while its own Python thread should serve the store that rank 1 waits for",
      right("comm_init_stuck outside_nccl rank_not_arrived", [0]), size=2)
def gil_held_in_item(job):
    ...


@case("pytorch/pytorch#42107", "no logs and no checkpoints for hours, all GPUs but one at 100%",
      "one rank had ended with FileNotFoundError; the launcher let the others wait",
      right("rank_dead", [2]), launcher="none")
def file_is_gone(job):
    ...


@case("pytorch/torchtitan#1618", "the validation loop hangs near the end of the data set",
      "with steps = -1 the ranks have different numbers of validation batches",
      right("op_mismatch size_mismatch rank_not_arrived", [1]))
def validation_to_the_end(job):
    ...


@case("pytorch/torchtitan#696", "training at scale is slower than its GPUs",
      "Python collects garbage at another time on each rank, and all wait for whoever does",
      right("straggler", [0, 1, 2, 3]), request=True)
def garbage_at_will(job):
    ...


@case("pytorch/torchtitan#1342", "a job with an exception hangs instead of ending",
      "the rank with the exception destroys its process group in a finally block while the others are in collectives",
      right("rank_not_arrived rank_dead", [2]))
def destroyed_beside_training(job):
    ...


@case("meta-pytorch/torchrec#4149", "a job deadlocks in warm-up with collectives pending on two process groups",
      "some ranks issue the collectives of the two groups in the other order, and synchronize with the GPU in between",
      right("order_inversion rank_not_arrived", [3]))
def two_groups_two_orders(job):
    ...
