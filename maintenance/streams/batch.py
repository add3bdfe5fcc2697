"""Batches of elements, and the protocol of streams, which yield batches.

An element is one timestamped triple. A graph of a stream arrives as its triples, all with the graph's time.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from operator import index
from typing import Protocol, runtime_checkable

from pyoxigraph import DefaultGraph, Quad, Triple

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.streams.gap_limit import GapLimit

DEFAULT = DefaultGraph()


class TimedElements(Protocol):
    """Elements in the order of arrival, in whatever form: quads, or columns of ids."""

    @property
    def times(self) -> Sequence[int] | Ints:
        """The times of the elements in milliseconds."""

    @property
    def quads(self) -> Sequence[Quad]:
        """The statements of the elements, in the default graph."""

    @property
    def ordered(self) -> bool:
        """True if time never goes backwards."""

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int) -> "TimedElements":
        """Return the elements from one position to another."""

    def take(self, places: Ints) -> "TimedElements":
        """Return the elements at some positions, in that order."""

    def followed_by(self, later: "TimedElements") -> "TimedElements":
        """Return these elements followed by others."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Elements as quads, all in the default graph."""

    times: Sequence[int]
    quads: Sequence[Quad]

    def __len__(self) -> int:
        return len(self.times)

    @property
    def ordered(self) -> bool:
        return all(a <= b for a, b in pairwise(self.times))

    def part(self, start: int, stop: int) -> "Batch":
        return Batch(self.times[start:stop], self.quads[start:stop])

    def take(self, places: Ints) -> "Batch":
        which = places.tolist()
        times = [self.times[n] for n in which]
        quads = [self.quads[n] for n in which]
        return Batch(times, quads)

    def followed_by(self, later: TimedElements) -> "Batch":
        return Batch([*self.times, *map(int, later.times)], [*self.quads, *later.quads])


@runtime_checkable
class Stream(Protocol):
    """A source of elements."""

    def batches(self) -> Iterator[TimedElements]:
        """Yield the elements, batch by batch; a live stream yields elements as soon as they arrive."""


@dataclass(frozen=True, eq=False)
class Elements:
    """A stream from any iterable of (time, triple or quad)."""

    items: Iterable[tuple[int, Triple | Quad]]
    size: int = 1_000
    steps: GapLimit = field(default_factory=GapLimit)

    def batches(self) -> Iterator[Batch]:
        times: list[int] = []
        quads: list[Quad] = []
        for time, item in self.items:
            times.append(checked(time, self.steps))
            # without its graph: a stream's elements are in the graph of the window
            quads.append(Quad(item.subject, item.predicate, item.object))
            if len(times) == self.size:
                yield Batch(times, quads)
                times, quads = [], []
        if times:
            yield Batch(times, quads)


def checked(time: int, steps: GapLimit) -> int:
    """Return a time given by a program, if it is a whole number of any type and plausible; else raise InputError."""
    milliseconds = -1
    with suppress(TypeError):
        if not isinstance(time, bool):  # True is an int to `index`
            milliseconds = index(time)
    if milliseconds < 0:
        raise InputError(f"an element has the time {time!r}: give whole milliseconds since the epoch")
    try:
        return steps.check(milliseconds)
    except ValueError as error:
        raise InputError(f"an element is refused: {error}") from None


def without_graphs(quads: Sequence[Quad]) -> Sequence[Quad]:
    """Return the triples in the default graph, whatever graph their source names: a window's content is one graph."""
    if all(quad.graph_name == DEFAULT for quad in quads):
        return quads
    return [Quad(quad.subject, quad.predicate, quad.object) for quad in quads]
