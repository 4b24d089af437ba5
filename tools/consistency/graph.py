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


class Search:
    """Search for shortest paths between transactions of a component, within a budget of edges for all of them."""

    def __init__(self, graph: Graph, transactions: int, budget: int) -> None:
        self._graph = graph
        self._transactions = transactions
        self.budget = budget

    def edges(self, component: Iterable[int], kind: int) -> Iterator[tuple[int, int]]:
        """Yield the edges of a kind that do not leave the component."""
        inside = set(component)
        for node in sorted(inside):
            for edge in self._graph[node]:
                if edge & kind and edge >> _BITS in inside:
                    yield node, edge >> _BITS

    def path(self, start: int, goal: int, kinds: int, inside: set[int]) -> list[Step] | None:
        """Return the path with the fewest transactions by edges of these kinds; None if there is none, or the budget is
        spent. Moments on the way are left out.
        """
        came_from: dict[int, tuple[int, int]] = {start: (start, 0)}
        queue = deque([start])
        while queue and self.budget > 0:
            node = queue.popleft()
            if node == goal:
                return self._walked(came_from, start, goal)
            for edge in self._graph[node]:
                self.budget -= 1
                neighbor = edge >> _BITS
                if not edge & kinds or neighbor not in inside or neighbor in came_from:
                    continue
                came_from[neighbor] = node, edge & _MASK
                # A moment is no transaction: to go on to the next one costs nothing.
                (queue.appendleft if neighbor >= self._transactions else queue.append)(neighbor)
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
