"""Where ranks stand: tensor parallel fastest, then context, data and pipeline parallel, on hosts of eight GPUs."""
from typing import Dict, List, NamedTuple, Tuple

PER_HOST = 8


class Group(NamedTuple):
    axis: str
    ranks: Tuple[int, ...]

    @property
    def hosts(self) -> set:
        return {rank // PER_HOST for rank in self.ranks}


class Layout:
    def __init__(self, tp: int, cp: int, dp: int, pp: int, per_host: int = PER_HOST):
        self.tp, self.cp, self.dp, self.pp = tp, cp, dp, pp
        self.world = tp * cp * dp * pp
        self.per_host = per_host
        self.hosts = (self.world + per_host - 1) // per_host
        self.groups: Dict[str, List[Group]] = {}  # by axis; data parallel groups hold context parallel ranks, too
        self.axes = ["world", "tp", "cp", "dp", "pp"]  # in the order in which a program makes communicators
        self.group_of: List[Dict[str, Group]] = [{} for _ in range(self.world)]
        axes = {"tp": (0,), "cp": (1,), "dp": (1, 2), "pp": (3,), "world": (0, 1, 2, 3)}
        for axis, varies in axes.items():
            members: Dict[tuple, list] = {}
            for rank in range(self.world):
                place = self.place(rank)
                members.setdefault(tuple(p for i, p in enumerate(place) if i not in varies), []).append(rank)
            self.groups[axis] = [Group(axis, tuple(ranks)) for ranks in members.values() if len(ranks) > 1]
            for group in self.groups[axis]:
                for rank in group.ranks:
                    self.group_of[rank][axis] = group

    def regroup(self, axis: str, members: List[List[int]]):
        """Other communicators of that axis, or of a new one."""
        self.groups[axis] = [Group(axis, tuple(ranks)) for ranks in members if len(ranks) > 1]
        self.axes += [axis] if axis not in self.axes else []
        for rank, groups in enumerate(self.group_of):
            groups.pop(axis, None)
            groups.update({axis: group for group in self.groups[axis] if rank in group.ranks})

    def place(self, rank: int) -> Tuple[int, int, int, int]:
        """Its tensor, context, data and pipeline coordinate."""
        return (rank % self.tp, rank // self.tp % self.cp, rank // (self.tp * self.cp) % self.dp, self.stage(rank))

    def stage(self, rank: int) -> int:
        return rank // (self.tp * self.cp * self.dp)

    def stage_ranks(self, stage: int) -> List[int]:
        return [rank for rank in range(self.world) if self.stage(rank) == stage]

    def host_ranks(self, host: int) -> List[int]:
        return [rank for rank in range(self.world) if rank // self.per_host == host]

    def neighbour(self, rank: int, by: int) -> int:
        """The rank of the next stage (1) or the one before (-1), -1: there is none."""
        other = rank + by * self.tp * self.cp * self.dp
        return other if 0 <= other < self.world else -1

    def describe(self) -> dict:
        return {"tp": self.tp, "cp": self.cp, "dp": self.dp, "pp": self.pp, "world": self.world, "hosts": self.hosts,
                "ep": max([len(group.ranks) for group in self.groups.get("ep", [])], default=1)}


def host_name(host: int) -> str:
    return "node-%d" % host


# (tp, cp, dp, pp). No stage has a single rank: it could not be told from that rank.
LAYOUTS = [(1, 1, 8, 1), (2, 1, 4, 1), (2, 1, 2, 2), (1, 1, 2, 4),
           (1, 1, 16, 1), (2, 1, 8, 1), (4, 1, 4, 1), (2, 1, 4, 2), (2, 1, 2, 4), (2, 2, 2, 2), (4, 1, 1, 4),
           (8, 1, 4, 1), (4, 1, 4, 2), (2, 1, 4, 4), (4, 1, 2, 4), (1, 1, 8, 4), (2, 2, 8, 1),
           (8, 1, 4, 2), (8, 1, 2, 4)]
