"""A graph of dependencies in time: a node happens when the last of those it waits for has happened, and its own time is
over. Each node has a time of its own and an extra one that the cause brings, so the same graph, with the same noise,
tells what the job takes with its cause and without it."""
from typing import List, Sequence

NEVER = -1e18


class Graph:
    def __init__(self):
        self.before: List[list] = [[]]  # node 0: the start
        self.own: List[float] = [0.0]
        self.extra: List[float] = [0.0]
        self.gates: List[int] = []
        self._order: List[int] = []

    def add(self, before: Sequence[int], own: float = 0.0, extra: float = 0.0) -> int:
        self.before.append(list(before))
        self.own.append(own)
        self.extra.append(extra)
        return len(self.own) - 1

    def gate(self, before: int) -> int:
        """A dependency that exists only with the cause: a cudaFree that waits for the device."""
        self.gates.append(self.add([before]))
        return self.gates[-1]

    def order(self) -> List[int]:
        """Every node behind all that it waits for; a cycle would be a job that hangs."""
        if len(self._order) != len(self.own):
            waits = [len(nodes) for nodes in self.before]
            behind: List[list] = [[] for _ in self.own]
            for node, nodes in enumerate(self.before):
                for other in nodes:
                    behind[other].append(node)
            ready = [node for node, count in enumerate(waits) if not count]
            for node in ready:  # grows meanwhile
                for other in behind[node]:
                    waits[other] -= 1
                    if not waits[other]:
                        ready.append(other)
            if len(ready) != len(self.own):
                raise ValueError("the job hangs: %d of %d nodes" % (len(ready), len(self.own)))
            self._order = ready
        return self._order

    def times(self, scale: float) -> List[float]:
        """Of each node; `scale` multiplies what the cause brings, and 0 is the job without it."""
        if scale:
            # No work gets shorter than a fifth of its usual time.
            weight = [max(own + scale * extra, own / 5) if extra else own
                      for own, extra in zip(self.own, self.extra)]
        else:
            weight = list(self.own)
            for node in self.gates:
                weight[node] = NEVER
        found = [0.0] * len(weight)
        before = self.before
        for node in self.order():
            nodes = before[node]
            if len(nodes) == 1:
                found[node] = found[nodes[0]] + weight[node]
            elif len(nodes) == 2:
                first, second = found[nodes[0]], found[nodes[1]]
                found[node] = (first if first > second else second) + weight[node]
            else:
                found[node] = max([found[other] for other in nodes], default=0.0) + weight[node]
        return found
