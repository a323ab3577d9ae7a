"""What a rank does: a list of operations, built by jobs.py, edited by faults.py, run by engine.py.

The lists are plain data: a fault is an edit of a list (an operation more, less, other or elsewhere), so that any fault
can be put into any job.
"""

from typing import Dict, List, Optional, Sequence, Tuple

BYTES = {"Float": 4, "BFloat16": 2, "Half": 2, "Long": 8, "Int": 4, "Byte": 1}


class Group:
    """A process group. `eager`: its communicator is made with the job, not by the first call."""

    def __init__(self, name: str, desc: str, ranks: Sequence[int], eager: bool = False):
        self.name = name
        self.desc = desc
        self.ranks = list(ranks)
        self.eager = eager
        self.place = {rank: i for i, rank in enumerate(self.ranks)}


class Op:
    """One operation of a host. `kind` says which of the other fields count:

    host: `seconds` in `what` · kernel: `seconds` on the GPU's compute stream · call: a collective · batch: sends and
    receives in one NCCL group (`messages`) · p2p: one message of its own · coalesced: collectives in one NCCL group
    (`parts`) · wait: the compute stream waits for the call with `tag` · sync: the host waits for the compute stream ·
    poll: as sync, but the host asks in a loop; `what` is "stream", "event" (of the compute stream) or "work" (the
    call with `tag`) · barrier: all of `group` meet outside NCCL, in the store or in `what` · signal, await: of the
    threads of a rank one waits until another has said `what` for the `number`-th time · stuck: never returns · exit:
    the process ends · gpu_hang: a kernel that never ends · step: a step begins
    """

    __slots__ = ("kind", "group", "name", "inputs", "outputs", "dtype", "messages", "parts", "seconds", "what", "tag",
                 "wait", "step", "site", "number", "stream")

    def __init__(self, kind: str, **fields):
        self.kind = kind
        self.group = self.name = self.inputs = self.outputs = self.messages = self.parts = self.tag = self.site = None
        self.dtype = "Float"
        self.seconds = 0.0
        self.what = ""
        self.wait = True
        self.step = 0
        self.number = -1
        self.stream = None
        for name, value in fields.items():
            setattr(self, name, value)

    def copy(self, **changes) -> "Op":
        twin = Op(self.kind, **{name: getattr(self, name) for name in self.__slots__ if name != "kind"})
        for name, value in changes.items():
            setattr(twin, name, value)
        return twin

    def __repr__(self):
        return "Op(%s%s%s step %d)" % (self.kind, " " + self.name if self.name else "",
                                       " on " + self.group.name if self.group else "", self.step)


# (direction, the other rank, elements)
Message = Tuple[str, int, int]

COMMUNICATION = ("call", "batch", "p2p", "coalesced")


class Program:
    """Builds the list of one thread of one rank."""

    def __init__(self, rank: int):
        self.rank = rank
        self.ops: List[Op] = []
        self.step_now = 0
        self.tags = 0
        self.thread = "background"  # of programs of host threads beside the main one

    def add(self, op: Op) -> Op:
        op.step = self.step_now
        self.ops.append(op)
        return op

    def step(self, number: int):
        self.step_now = number
        self.add(Op("step", number=number))

    def host(self, seconds: float, what: str = "python"):
        self.add(Op("host", seconds=seconds, what=what))

    def kernel(self, seconds: float):
        self.add(Op("kernel", seconds=seconds))

    def sync(self):
        self.add(Op("sync"))

    def barrier(self, group: Group, what: str = "", number: int = -1, site=None):
        self.add(Op("barrier", group=group, what=what, number=number, site=site))

    def poll(self, what: str = "stream", tag: Optional[int] = None):
        self.add(Op("poll", what=what, tag=tag))

    def signal(self, what: str):
        self.add(Op("signal", what=what))

    def await_thread(self, what: str, number: int):
        self.add(Op("await", what=what, number=number))

    def wait(self, tag: Optional[int]):
        self.add(Op("wait", tag=tag))

    def _tagged(self, op: Op) -> int:
        self.tags += 1
        op.tag = self.tags
        self.add(op)
        return self.tags

    def call(self, group: Group, name: str, elements: int, dtype: str = "Float", wait: bool = True, site=None,
             inputs=None, outputs=None) -> int:
        """A collective of `elements`: what a member keeps of a gather or scatter, the whole of the others."""
        size = len(group.ranks)
        if inputs is None:
            inputs, outputs = shapes(name, elements, size)
        return self._tagged(Op("call", group=group, name=name, inputs=inputs, outputs=outputs, dtype=dtype, wait=wait,
                               site=site))

    def batch(self, group: Group, messages: List[Message], dtype: str = "BFloat16", wait: bool = True,
              site=None) -> int:
        return self._tagged(Op("batch", group=group, messages=messages, dtype=dtype, wait=wait, site=site))

    def message(self, group: Group, message: Message, dtype: str = "BFloat16", wait: bool = True, site=None) -> int:
        return self._tagged(Op("p2p", group=group, messages=[message], dtype=dtype, wait=wait, site=site))

    def coalesced(self, group: Group, name: str, parts: List[Tuple[str, list, list]], dtype: str = "Float",
                  wait: bool = True, site=None) -> int:
        return self._tagged(Op("coalesced", group=group, name=name, parts=parts, dtype=dtype, wait=wait, site=site))


def shapes(name: str, elements: int, size: int):
    """Sizes of inputs and outputs, as PyTorch's wrappers hand them to ProcessGroupNCCL."""
    if name in ("_all_gather_base", "all_gather"):
        return [[elements]], [[elements * size]]
    if name in ("_reduce_scatter_base", "reduce_scatter"):
        return [[elements * size]], [[elements]]
    return [[elements]], [[elements]]


class Job:
    """Programs of all ranks and what else the engine must know of them."""

    def __init__(self, name: str, world: int, per_host: int = 8):
        self.name = name
        self.world = world
        self.per_host = per_host
        self.groups: Dict[str, Group] = {}
        self.programs = [Program(rank) for rank in range(world)]
        self.threads: List[Tuple[int, Program]] = []  # of background threads
        self.default = self.group("0", "default_pg", range(world))

    def group(self, name: str, desc: str, ranks: Sequence[int], eager: bool = False) -> Group:
        self.groups[name] = Group(name, desc, ranks, eager)
        return self.groups[name]

    def new_groups(self, desc: str, lists: List[List[int]]) -> Dict[int, Group]:
        """One group for each list; every rank's own one by rank. All ranks count all groups (new_group)."""
        mine = {}
        for ranks in lists:
            group = self.group(str(len(self.groups)), desc, ranks)
            for rank in ranks:
                mine[rank] = group
        return mine
