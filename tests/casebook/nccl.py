"""Hangs out of NCCL's tracker and those of its direct users."""
import ctypes
import multiprocessing
import os
import threading
import time

from casebook import case, right


def preprocess():
    time.sleep(600)


def barrier(job, store):
    job.store.set(f"id of {job.rank}", bytes.fromhex(store.get("id").decode()))
    job.join(f"id of {job.rank}", job.size, job.rank).barrier()


def load(lock, batches):
    with lock:
        batches.put("batch")


def mpi_bcast(job):
    job.store.get("id")
    if job.rank == 3:  # behind a rank of the tree that makes no progress
        job.store.get("progress")


@case("NVIDIA/nccl#479", "two ranks exchange tensors and get stuck",
      "both send first and receive then, without a group around the two calls", right("p2p_cycle", [0, 1]), size=2,
      seen=("p2p_cycle", [0, 1]))
def send_send(job):
    job.start()
    other = 1 - job.rank
    job.world.send(other)
    job.world.recv(other)
    job.item()


@case("NVIDIA/nccl#1063", "one of many GPUs dies silently and a whole pipeline stalls",
      "one GPU stopped to execute the work in its streams, without an error anywhere",
      right("gpu_queue_blocked", [2]), seen=("gpu_queue_blocked", [2]))
def frozen_gpu(job):
    job.start()
    for step in range(30):
        if job.rank == 2 and step == 20:
            job.kernels.simgpu_launch_hang(job.stream)
        if job.rank > 0:
            job.world.recv(job.rank - 1)
        job.compute()
        if job.rank < 3:
            job.world.send(job.rank + 1)
        job.item()


@case("NVIDIA/nccl#2079", "an all_reduce never ends on two GPUs of one machine",
      "PCIe access control sent peer traffic through the IOMMU", right("stuck_in_flight"), size=2,
      seen=("stuck_in_flight", [0, 1]))
def access_control(job):
    job.start()
    job.nccl.simgpuNcclStuckNext(job.world.handle)
    job.world.all_reduce()
    job.item()


@case("NVIDIA/nccl#708", "the job ends after 30 minutes in a barrier at the start",
      "one process preprocesses a large data set for longer than the timeout, the others wait in the barrier",
      right("rank_not_arrived outside_nccl comm_init_stuck", [0], says="preprocess"),
      nothing="no finding yet: WAITING, which names rank 0 in preprocess and the others in the barrier; a wait outside "
              "NCCL is called a hang after 30 minutes")
def long_preprocessing(job):
    job.start()
    store = job.gloo().distributed_c10d._get_default_store()
    if job.rank == 0:
        preprocess()
        store.set("id", job.new_id().hex())
    barrier(job, store)


@case("NVIDIA/nccl#252", "ncclCommInitRank hangs when Python threads create one rank each",
      "the binding keeps the GIL during the call, so that the second thread never makes its own",
      right("comm_init_stuck"), size=1, seen=("comm_init_stuck", []))
def gil_held_in_init(job):
    job.start()
    holding_the_gil = ctypes.PyDLL(f"{os.environ['SIMGPU_DIR']}/libnccl.so.2")
    holding_the_gil.ncclCommInitRank.argtypes = job.nccl.ncclCommInitRank.argtypes
    job.store.set("both", job.new_id())

    def use_gpu(number):
        job.set_device(number)
        job.join("both", 2, number, holding_the_gil)

    threads = [threading.Thread(target=use_gpu, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@case("NVIDIA/nccl#395", "jobs time out in a collective after some hours, for no visible reason",
      "a worker process was forked while a lock was held; it waits for ever, and its rank waits for it",
      right("rank_not_arrived", [1]), seen=("rank_not_arrived", [1]))
def forked_with_a_lock(job):
    job.start()
    lock, batches = threading.Lock(), multiprocessing.SimpleQueue()
    for step in range(20):
        if job.rank == 1 and step == 12:
            with lock:  # another thread writes its line to the log
                multiprocessing.get_context("fork").Process(target=load, args=(lock, batches), daemon=True).start()
            batches.get()
        job.compute()
        job.world.all_reduce()
        job.item()


@case("NVIDIA/cuDecomp#24", "NCCL initialization hangs at scale",
      "the root's MPI broadcast of the id makes no progress inside ncclCommInitRank: some ranks never get the id",
      right("comm_init_stuck outside_nccl", [3]), seen=("comm_init_stuck", [3]))
def id_not_received(job):
    job.start()
    if job.rank == 0:
        job.store.set("id", job.new_id())
    else:
        mpi_bcast(job)
    world = job.join("id", 4, job.rank)
    if job.rank == 0:
        job.store.set("progress", b"")  # in the next call of MPI
    world.barrier()
