"""Batches of elements, and what a stream is: something that gives batches.

An element is one timestamped triple. Graphs of a stream come as their triples, all with the graph's time.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from operator import index
from typing import Protocol, runtime_checkable

from pyoxigraph import DefaultGraph, NamedNode, Quad, Triple

from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.policies.errors import InputError

DEFAULT = DefaultGraph()


@dataclass(frozen=True, eq=False)
class Batch:
    """Elements in the order in which they came, all in one graph: the default graph, or the one they are read for."""

    times: Sequence[int]
    quads: Sequence[Quad]
    graph: NamedNode | DefaultGraph = DEFAULT

    def __len__(self) -> int:
        """How many elements."""
        return len(self.times)

    @property
    def ordered(self) -> bool:
        """Whether time never goes backwards."""
        return all(a <= b for a, b in pairwise(self.times))

    def part(self, start: int, stop: int) -> "Batch":
        """The elements from one position to another."""
        return Batch(self.times[start:stop], self.quads[start:stop], self.graph)


@runtime_checkable
class Stream(Protocol):
    """A source of elements."""

    def batches(self) -> Iterator[Batch]:
        """The elements, batch by batch; a live stream gives what it has as soon as it has it."""
        ...


@dataclass(frozen=True, eq=False)
class Elements:
    """A stream from any iterable of (time, triple or quad)."""

    items: Iterable[tuple[int, Triple | Quad]]
    size: int = 1_000
    steps: Steps = field(default_factory=Steps)

    def batches(self) -> Iterator[Batch]:
        """Batches of at most `size` elements."""
        times: list[int] = []
        quads: list[Quad] = []
        for time, item in self.items:
            times.append(checked(time, self.steps))
            quads.append(Quad(item.subject, item.predicate, item.object))
            if len(times) == self.size:
                yield Batch(times, quads)
                times, quads = [], []
        if times:
            yield Batch(times, quads)


def checked(time: int, steps: Steps) -> int:
    """A time that a program gives; whole numbers of any kind will do."""
    with suppress(TypeError):
        if not isinstance(time, bool) and (whole := index(time)) >= 0:
            try:
                return steps.check(whole)
            except ValueError as error:
                raise InputError(f"an element cannot be taken: {error}") from None
    raise InputError(f"an element has the time {time!r}: give whole milliseconds since the epoch")


def in_graph(quads: Sequence[Quad], graph: NamedNode | DefaultGraph = DEFAULT) -> Sequence[Quad]:
    """The triples in this graph, whatever graph their source names: the content of a window is one graph."""
    if all(quad.graph_name == graph for quad in quads):
        return quads
    return [Quad(quad.subject, quad.predicate, quad.object, graph) for quad in quads]
