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

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.streams.steps import Steps

DEFAULT = DefaultGraph()


class Timed(Protocol):
    """Elements in the order in which they came, in whatever form: quads, or columns of ids."""

    @property
    def times(self) -> Sequence[int] | Ints:
        """When each was, in milliseconds."""

    @property
    def quads(self) -> Sequence[Quad]:
        """The statement of each, in the graph that its stream puts it in."""

    @property
    def graph(self) -> NamedNode | DefaultGraph:
        """The one that all of them are in."""

    @property
    def ordered(self) -> bool:
        """Whether time never goes backwards."""

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int) -> "Timed":
        """The elements from one position to another."""

    def take(self, places: Ints) -> "Timed":
        """The elements at some positions, in that order."""

    def followed_by(self, later: "Timed") -> "Timed":
        """These and then others."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Elements in the order in which they came, all in one graph: the default graph, or the one they are read for."""

    times: Sequence[int]
    quads: Sequence[Quad]
    graph: NamedNode | DefaultGraph = DEFAULT

    def __len__(self) -> int:
        return len(self.times)

    @property
    def ordered(self) -> bool:
        """Whether time never goes backwards."""
        return all(a <= b for a, b in pairwise(self.times))

    def part(self, start: int, stop: int) -> "Batch":
        """The elements from one position to another."""
        return Batch(self.times[start:stop], self.quads[start:stop], self.graph)

    def take(self, places: Ints) -> "Batch":
        """The elements at some positions, in that order."""
        which = places.tolist()
        return Batch([self.times[n] for n in which], [self.quads[n] for n in which], self.graph)

    def followed_by(self, later: Timed) -> "Batch":
        """These and then others."""
        return Batch([*self.times, *as_batch(later).times], [*self.quads, *later.quads], later.graph)


def as_batch(elements: Timed) -> Batch:
    """The same as quads."""
    if isinstance(elements, Batch):
        return elements
    return Batch([int(time) for time in elements.times], elements.quads, elements.graph)


@runtime_checkable
class Stream(Protocol):
    """A source of elements."""

    def batches(self) -> Iterator[Timed]:
        """The elements, batch by batch; a live stream gives what it has as soon as it has it."""


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
