"""Hangs out of PyTorch's own trackers: c10d, DDP, FSDP, torchtitan, torchrec."""
import ctypes
import gc
import os
import socket
import threading
import time

from casebook import case, right

LAYERS = (2048, 8192, 8192)


def fsdp_gather(job):
    for layer in LAYERS:
        job.world.all_gather(layer)
        job.compute()


def fsdp_step(job):
    fsdp_gather(job)
    for layer in reversed(LAYERS):
        job.world.all_gather(layer)
        job.compute()
        job.world.reduce_scatter(layer)
    job.item()


def sync_batch_norm(job, channels):
    job.world.all_gather(2 * channels + 1)
    job.compute()


def serve_keys(server):
    while True:
        asker, _ = server.accept()
        asker.sendall(b"value")


def ask_for_key(address):
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(address)
        asked.recv(5)


@case("pytorch/pytorch#33148", "DDP hangs when the ranks have different numbers of batches",
      "the rank with the fewest batches leaves the loop; the others wait in the gradients' next all_reduce",
      right("rank_dead rank_not_arrived", [1]), seen=("rank_not_arrived", [1]))
def uneven_inputs(job):
    job.start()
    for _ in range(12 if job.rank == 1 else 13):
        job.compute()
        job.world.all_reduce()
        job.item()


@case("pytorch/pytorch#77562", "FSDP training times out in an all_gather after some epochs, where checkpoints depend "
      "on the best loss so far",
      "the loss was reduced to one rank instead of all_reduced: the ranks disagreed on whether to save",
      right("op_mismatch size_mismatch", [2]), seen=("size_mismatch", [2]))
def best_loss_differs(job):
    job.start()
    for epoch in range(4):
        for _ in range(4):
            fsdp_step(job)
        job.world.reduce(count=1)
        job.item()
        if epoch != 2 or job.rank == 2:  # compares its own part of the loss, but for rank 0
            fsdp_gather(job)
            job.item()


@case("pytorch/pytorch#25390", "creating process groups of pairs fails or hangs",
      "each rank called new_group once, with its own pair only: both pairs took the same id",
      right("comm_init_stuck"), seen=("comm_init_stuck", None))
def own_pair_only(job):
    job.start()
    job.world.barrier()
    for root in (0, 2):  # the id of both pairs goes by the same key, and a root takes its own
        if job.rank == root:
            unique_id = job.new_id()
            job.store.set("group 1", unique_id)
            job.store.set(f"root {root}", unique_id)
        job.world.barrier()
    pair = job.join("group 1" if job.rank % 2 else f"root {job.rank}", 2, job.rank % 2)
    pair.all_reduce()
    job.item()


@case("pytorch/pytorch#97191", "an all_reduce times out and the watchdog does not end the job",
      "rank 0 passes twice as many elements", right("size_mismatch", [0]), seen=("size_mismatch", [0]))
def twice_the_elements(job):
    job.start()
    job.world.all_reduce(8192 if job.rank == 0 else 4096)
    job.item()


@case("pytorch/pytorch#117486", "all_to_all_single hangs with certain split sizes",
      "the splits do not fit: one rank receives more from the other than that one sends",
      right("size_mismatch p2p_unmatched", [0, 1], [0], [1]), size=2, seen=("size_mismatch", [0, 1]))
def splits_do_not_fit(job):
    job.start()
    for _ in range(5):
        job.world.all_to_all()
        job.item()
    if job.rank == 0:
        job.world.all_to_all(sends=(4096, 1024), receives=(4096, 4096))
    else:
        job.world.all_to_all(sends=(4096, 4096), receives=(3072, 4096))
    job.item()


@case("pytorch/pytorch#44957", "SyncBatchNorm hangs when one process does not call a module",
      "one rank is at the first frame of a video and leaves a module out, whose SyncBatchNorm the others wait in",
      right("op_mismatch rank_not_arrived", [3]), seen=("op_mismatch", [3]))
def module_left_out(job):
    job.start()
    for frame in range(8):
        sync_batch_norm(job, 64)
        if frame < 7 or job.rank != 3:  # the last video of rank 3 begins here
            sync_batch_norm(job, 256)
        job.world.all_reduce(8192)
        job.item()


@case("pytorch/pytorch#48988", "validation on one rank hangs with SyncBatchNorm",
      "without running statistics SyncBatchNorm gathers in eval mode, too, and only rank 0 validates",
      right("op_mismatch rank_not_arrived", [0]), seen=("op_mismatch", [0]))
def gathers_in_eval(job):
    job.start()
    for _ in range(5):
        sync_batch_norm(job, 64)
        job.world.all_reduce(8192)
        job.item()
    if job.rank == 0:
        sync_batch_norm(job, 64)
        job.item()
    job.world.barrier()


@case("pytorch/pytorch#172668", "an interleaved pipeline gets stuck once sends and receives are not batched",
      "stage 0 sends its next activation before it receives the gradient; stage 1 sends that gradient first",
      right("p2p_cycle", [0, 1]), size=2, seen=("p2p_cycle", [0]),
      partly="rank 0 alone is named, as it receives later than it always did before")
def send_behind_send(job):
    job.start()
    for _ in range(3):
        if job.rank == 0:
            job.world.send(1)
            job.world.recv(1)
        else:
            job.world.recv(0)
            job.world.send(0)
        job.item()
    if job.rank == 0:
        job.world.send(1, wait=False)
        job.world.send(1, wait=False)
        job.world.recv(1)
    else:
        job.world.recv(0)
        job.world.send(0, wait=False)
        job.world.recv(0)
    job.item()


@case("pytorch/pytorch#88000", "rank 0 hangs in a broadcast for ever, the other rank is done",
      "only rank 0 calls broadcast", right("rank_dead rank_not_arrived comm_init_stuck", [1]), size=2,
      seen=("comm_init_stuck", [1]))
def broadcast_on_rank_0(job):
    job.start()
    if job.rank == 0:
        job.world.broadcast(root=0, count=3)
        job.item()
    print(f"rank {job.rank} done")


@case("pytorch/pytorch#72843", "a recommendation model hangs in the first iteration",
      "a module runs on some ranks only, so DDP reduces its buckets in another order there, before the all_to_all",
      right("op_mismatch p2p_unmatched rank_not_arrived", [3]), seen=("order_inversion", [3]),
      partly="rank 3 and the order are named; the kind is one that had not been written down")
def buckets_in_another_order(job):
    job.start()
    for exchange in (job.world.all_reduce, job.world.all_to_all) if job.rank == 3 else (job.world.all_to_all,
                                                                                        job.world.all_reduce):
        exchange()
    job.item()


@case("pytorch/pytorch#104103", "all_reduce, then item(): the job hangs at the start",
      "rank 0 holds the GIL in item() while its own Python thread should serve the store that rank 1 waits for",
      right("gil_held comm_init_stuck outside_nccl rank_not_arrived", [0]), size=2, seen=("gil_held", [0]))
def gil_held_in_item(job):
    job.start()
    address = f"{job.store.directory}/store"
    if job.rank == 0:
        server = socket.create_server(address, family=socket.AF_UNIX)
        threading.Thread(target=serve_keys, args=(server,), daemon=True).start()
    job.world.barrier()
    if job.rank == 0:
        job.world.all_reduce()
        time.sleep(0.5)
        holding_the_gil = ctypes.PyDLL(f"{os.environ['SIMGPU_DIR']}/libcudart.so.12")
        holding_the_gil.cudaStreamSynchronize(job.stream)
    else:
        time.sleep(1)
        ask_for_key(address)
        job.world.all_reduce()
        job.item()


@case("pytorch/pytorch#42107", "no logs and no checkpoints for hours, all GPUs but one at 100%",
      "one rank had ended with FileNotFoundError; the launcher let the others wait",
      right("rank_dead", [2]), launcher="none", seen=("rank_dead", [2]))
def file_is_gone(job):
    job.start()
    for step in range(20):
        if job.rank == 2 and step == 12:
            open("deleted-by-a-cron-job.jpg", "rb")
        job.compute()
        job.world.all_reduce()
        job.item()


@case("pytorch/torchtitan#1618", "the validation loop hangs near the end of the data set",
      "with steps = -1 the ranks have different numbers of validation batches",
      right("op_mismatch size_mismatch rank_not_arrived", [1]), seen=("op_mismatch", [1]))
def validation_to_the_end(job):
    job.start()
    for _ in range(5):
        fsdp_step(job)
    for _ in range(6 if job.rank == 1 else 8):
        fsdp_gather(job)
        job.item()
    job.world.all_reduce(1)
    job.item()


@case("pytorch/torchtitan#696", "training at scale is slower than its GPUs",
      "Python collects garbage at another time on each rank, and all wait for whoever does",
      right("straggler", [0, 1, 2, 3]), request_s=10, seen=("straggler", None),
      partly="each of the four ranks is a finding of its own; that all pause in turn is not said")
def garbage_at_will(job):
    job.start()
    gc.disable()
    heap = [[number] for number in range(300_000)]
    for step in range(10_000):
        job.compute(4)
        if step % 16 == 4 * job.rank:  # where the collector would have run
            gc.collect()
        job.world.all_reduce()
        job.item()
    del heap


@case("pytorch/torchtitan#1342", "a job with an exception hangs instead of ending",
      "the rank with the exception destroys its process group in a finally block while the others are in collectives",
      right("rank_not_arrived rank_dead", [2]), seen=("rank_dead", [2]))
def destroyed_beside_training(job):
    job.start()
    try:
        for step in range(20):
            if job.rank == 2 and step == 15:
                raise ValueError("no such sample")
            job.compute()
            job.world.all_reduce()
            job.item()
    finally:
        job.world.destroy()


@case("meta-pytorch/torchrec#4149", "a job deadlocks in warm-up with collectives pending on two process groups",
      "some ranks issue the collectives of the two groups in the other order, and synchronize with the GPU in between",
      right("order_inversion rank_not_arrived", [3]), seen=("order_inversion", [3]))
def two_groups_two_orders(job):
    job.start()
    shard, replicate = (job.comm(range(4), name) for name in ("shard", "replicate"))
    for step in range(8):
        if job.rank == 3 and step == 7:
            replicate.all_reduce()
            job.item()
            shard.all_to_all()
        else:
            shard.all_to_all()
            job.item()
            replicate.all_reduce()
        job.item()
