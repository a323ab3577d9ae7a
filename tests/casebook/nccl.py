"""Hangs out of NCCL's tracker and those of its direct users."""
from casebook import case, right


@case("NVIDIA/nccl#479", "two ranks exchange tensors and get stuck",
      "both send first and receive then, without a group around the two calls", right("p2p_cycle", [0, 1]), size=2)
def send_send(job):
    ...


@case("NVIDIA/nccl#1063", "one of many GPUs dies silently and a whole pipeline stalls",
      "one GPU stopped to execute the work in its streams, without an error anywhere",
      right("gpu_queue_blocked", [2]))
def frozen_gpu(job):
    ...


@case("NVIDIA/nccl#2079", "an all_reduce never ends on two GPUs of one machine",
      "PCIe access control sent peer traffic through the IOMMU", right("stuck_in_flight"), size=2)
def access_control(job):
    ...


@case("NVIDIA/nccl#708", "the job ends after 30 minutes in a barrier at the start",
      "one process preprocesses a large data set for longer than the timeout, the others wait in the barrier",
      right("rank_not_arrived", [0], says="preprocess"))
def long_preprocessing(job):
    ...


@case("NVIDIA/nccl#252", "ncclCommInitRank hangs when Python threads create one rank each",
      "the binding keeps the GIL during the call, so that the second thread never makes its own",
      right("comm_init_stuck"), size=1)
def gil_held_in_init(job):
    ...


@case("NVIDIA/nccl#395", "jobs time out in a collective after some hours, for no visible reason",
      "a worker process was forked while a lock was held; it waits for ever, and its rank waits for it",
      right("rank_not_arrived", [1]))
def forked_with_a_lock(job):
    ...


@case("NVIDIA/cuDecomp#24", "NCCL initialization hangs at scale",
      "the root's MPI broadcast of the id makes no progress inside ncclCommInitRank: some ranks never get the id",
      right("comm_init_stuck outside_nccl", [3]))
def id_not_received(job):
    ...
