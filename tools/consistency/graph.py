"""Dependencies between transactions as a graph, and its cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

WW, WR, RW, RT = 1, 2, 4, 8
"""Reasons why a transaction comes before another one: it wrote the version before the other's, it wrote what the other
read, it read the version before the other's, or it was acknowledged before the other began.

Plain numbers: a graph has millions of them.
"""

_BITS = 4
_MASK = (1 << _BITS) - 1
Graph = Sequence[Sequence[int]]
"""Edges from each node: the other node, shifted by four bits, with the kinds of the edge in these bits."""
Step = tuple[int, int, int]
"""An edge: from, kind, to."""


class Builder:
    """A graph of transactions, numbered from 0, and of the moments of their order in time, whose numbers follow."""

    def __init__(self, transactions: int) -> None:
        self.transactions = transactions
        self.edges: list[list[int]] = [[] for _ in range(transactions)]

    def add(self, source: int, kind: int, target: int) -> None:
        """Add an edge, unless it would lead back to its node."""
        if source != target:
            self.edges[source].append(target << _BITS | kind)

    def order_in_time(self, spans: Iterable[tuple[int, int, int | None]]) -> None:
        """Add the order in time of transactions: number, start, and end, which is None for one without an answer.

        A chain of moments, one for each end, says with three edges for each transaction what one edge for each pair
        would say.
        """
        spans = list(spans)
        ends = sorted((end, number) for number, _, end in spans if end is not None)
        moment = {number: self.transactions + place for place, (_, number) in enumerate(ends)}
        self.edges += [[] for _ in ends]
        for number, place in moment.items():
            self.add(number, RT, place)
            if place + 1 < len(self.edges):
                self.add(place, RT, place + 1)
        place = 0
        for start, number in sorted((start, number) for number, start, _ in spans):
            while place < len(ends) and ends[place][0] < start:
                place += 1
            if place:
                self.add(self.transactions + place - 1, RT, number)


def components(graph: Graph, nodes: Iterable[int], kinds: int) -> list[list[int]]:
    """Return the strongly connected components of more than one node, by edges of these kinds between these nodes.

    Tarjan's algorithm, without recursion.
    """
    index = [-1] * len(graph)
    for node in nodes:
        index[node] = 0
    low = [0] * len(graph)
    on_stack = bytearray(len(graph))
    stack: list[int] = []
    counter, result = 0, list[list[int]]()
    for root in range(len(graph)):
        if index[root]:
            continue
        counter += 1
        index[root] = low[root] = counter
        stack.append(root)
        on_stack[root] = 1
        work = [(root, iter(graph[root]))]
        while work:
            node, successors = work[-1]
            for edge in successors:
                if not edge & kinds:
                    continue
                neighbor = edge >> _BITS
                if not index[neighbor]:
                    counter += 1
                    index[neighbor] = low[neighbor] = counter
                    stack.append(neighbor)
                    on_stack[neighbor] = 1
                    work.append((neighbor, iter(graph[neighbor])))
                    break
                if on_stack[neighbor] and index[neighbor] < low[node]:
                    low[node] = index[neighbor]
            else:
                work.pop()
                if work and low[node] < low[work[-1][0]]:
                    low[work[-1][0]] = low[node]
                if low[node] == index[node]:
                    component = _popped(stack, on_stack, node)
                    if len(component) > 1:
                        result.append(component)
    return result


def _popped(stack: list[int], on_stack: bytearray, last: int) -> list[int]:
    component: list[int] = []
    while True:
        node = stack.pop()
        on_stack[node] = 0
        component.append(node)
        if node == last:
            return component


def levels(graph: Graph, nodes: set[int], kinds: int) -> dict[int, int]:
    """Return the length of the longest path to each node by edges of these kinds between these nodes, without nodes to
    which a cycle leads. A path leads from lower to higher levels only.
    """
    missing = dict.fromkeys(nodes, 0)
    successors = {node: [e >> _BITS for e in graph[node] if e & kinds and e >> _BITS in nodes] for node in nodes}
    for neighbors in successors.values():
        for neighbor in neighbors:
            missing[neighbor] += 1
    result = {node: 0 for node, count in missing.items() if not count}
    queue = deque(result)
    while queue:
        node = queue.popleft()
        for neighbor in successors[node]:
            missing[neighbor] -= 1
            result[neighbor] = max(result.get(neighbor, 0), result[node] + 1)
            if not missing[neighbor]:
                queue.append(neighbor)
    return {node: level for node, level in result.items() if not missing[node]}


class Search:
    """Search for shortest paths between the transactions of a component, by edges of some kinds. Each path may cost a
    number of edges, and so may all of them together.
    """

    def __init__(self, graph: Graph, transactions: int, component: Iterable[int], kinds: int) -> None:
        self._graph = graph
        self._transactions = transactions
        self._inside = set(component)
        self._kinds = kinds
        self._levels = levels(graph, self._inside, kinds)
        self.budget = 0
        """Edges that may still be looked at for all paths."""
        self.is_complete = True
        """False once a search ended early."""

    def edges(self, kind: int) -> Iterator[tuple[int, int]]:
        """Yield the edges of a kind that do not leave the component."""
        for node in sorted(self._inside):
            for edge in self._graph[node]:
                if edge & kind and edge >> _BITS in self._inside:
                    yield node, edge >> _BITS

    def path(self, start: int, goal: int, most: int) -> list[Step] | None:
        """Return the path with the fewest transactions; None if there is none, or it was not found within `most` edges.
        Moments on the way are left out.
        """
        highest = self._levels.get(goal, 1 << 62)
        if self._levels.get(start, 0) >= highest:
            return None
        came_from: dict[int, tuple[int, int]] = {start: (start, 0)}
        queue, remaining = deque([start]), min(most, self.budget)
        before = remaining
        while queue and remaining > 0:
            node = queue.popleft()
            if node == goal:
                break
            for edge in self._graph[node]:
                remaining -= 1
                neighbor = edge >> _BITS
                if not edge & self._kinds or neighbor not in self._inside or neighbor in came_from:
                    continue
                if self._levels.get(neighbor, 0) >= highest and neighbor != goal:
                    continue
                came_from[neighbor] = node, edge & _MASK
                # A moment is no transaction: to go on to the next one costs nothing.
                (queue.appendleft if neighbor >= self._transactions else queue.append)(neighbor)
        self.budget -= before - remaining
        if goal in came_from:
            return self._walked(came_from, start, goal)
        self.is_complete = self.is_complete and not queue
        return None

    def _walked(self, came_from: dict[int, tuple[int, int]], start: int, goal: int) -> list[Step]:
        steps: list[Step] = []
        node = target = goal
        while node != start:
            node, kind = came_from[node]
            if node < self._transactions:
                steps.append((node, kind, target))
                target = node
        return steps[::-1]
