"""Event time: elements in order, a watermark, and a count of those that come too late.

The watermark is the latest time seen minus the allowed delay. What comes before the watermark is late: it is counted
and left out, because evaluations up to the watermark may have been answered. What is after it waits until the watermark
passes it, so that everything handed on is in order.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from pyoxigraph import DefaultGraph, NamedNode, Quad

from freshkeeper.maintenance.streams.batch import DEFAULT, Batch
from freshkeeper.policies.errors import TimeError

NEVER = -(2**62)
LATEST = 2**62 - 1
"""The last time that can be reckoned with; what no stream should say is its reader's business."""
EMPTY = Batch((), ())


@dataclass(eq=False)
class Order:
    """One stream's order in time."""

    delay: int = 0
    latest: int = NEVER
    late: int = 0
    first: int | None = None
    """the earliest time taken so far, handed on or waiting"""
    _passed: int = NEVER
    _waiting: list[tuple[int, int, Quad]] = field(default_factory=list)
    _number: int = 0
    _graph: NamedNode | DefaultGraph = DEFAULT

    @property
    def watermark(self) -> int:
        """No element before this instant is taken any more."""
        return max(self._passed, self.latest - self.delay) if self.latest != NEVER else self._passed

    def go_on(self, passed: int) -> None:
        """The others have gone on to this instant without this stream."""
        self._passed = max(self._passed, passed)

    def take(self, batch: Batch) -> Batch:
        """What may be handed on now, in order."""
        if not len(batch):
            return EMPTY
        if not self.delay and batch.times[0] >= self.watermark and batch.ordered:
            self._begin(batch.times[0])
            self.latest = _reckoned(batch.times[-1])
            return batch
        self._graph = batch.graph
        return self._release(self._sorted(batch))

    def rest(self) -> Batch:
        """At the end of the stream: all that waits."""
        waiting, self._waiting = self._waiting, []
        return Batch([time for time, _, _ in waiting], [quad for _, _, quad in waiting], self._graph)

    def _begin(self, time: int) -> None:
        self.first = time if self.first is None else min(self.first, time)

    def _sorted(self, batch: Batch) -> list[tuple[int, int, Quad]]:
        """What is not late, by time and then by arrival, with what waited already."""
        for time, quad in zip(batch.times, batch.quads, strict=True):
            if time < self.watermark:
                self.late += 1
                continue
            self.latest = max(self.latest, _reckoned(time))
            self._begin(time)
            self._waiting.append((time, self._number, quad))
            self._number += 1
        self._waiting.sort(key=lambda item: item[:2])
        return self._waiting

    def _release(self, waiting: list[tuple[int, int, Quad]]) -> Batch:
        """Hand on what the watermark has reached."""
        cut = bisect_left(waiting, (self.watermark + 1,), key=lambda item: item[:1])
        ready, self._waiting = waiting[:cut], waiting[cut:]
        return Batch([time for time, _, _ in ready], [quad for _, _, quad in ready], self._graph)


def _reckoned(time: int) -> int:
    if time > LATEST:
        raise TimeError(f"an element has the time {time}: give milliseconds since the epoch, at most {LATEST}")
    return time
