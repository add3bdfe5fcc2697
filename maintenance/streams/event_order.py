"""Event time: elements in order, a watermark, and a count of those that come too late.

The watermark is the latest time seen minus the allowed delay. What comes before the watermark is late: it is counted
and left out, because evaluations up to the watermark may have been answered. What is after it waits until the watermark
passes it, so that everything handed on is in order.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.errors import TimeError
from freshkeeper.maintenance.streams.batch import Batch, Timed

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
    _waiting: Timed = EMPTY

    @property
    def watermark(self) -> int:
        """No element before this instant is taken any more."""
        return max(self._passed, self.latest - self.delay) if self.latest != NEVER else self._passed

    def go_on(self, passed: int) -> None:
        """The others have gone on to this instant without this stream."""
        self._passed = max(self._passed, passed)

    def take(self, batch: Timed) -> Timed:
        """What may be handed on now, in order."""
        if not len(batch):
            return EMPTY
        if not self.delay and batch.times[0] >= self.watermark and batch.ordered:
            self._begin(int(batch.times[0]))
            self.latest = _reckoned(int(batch.times[-1]))
            return batch
        waiting = self._sorted(batch)
        cut = bisect_right(waiting.times, self.watermark)
        self._waiting = waiting.part(cut, len(waiting))
        return waiting.part(0, cut)

    def rest(self) -> Timed:
        """At the end of the stream: all that waits."""
        waiting, self._waiting = self._waiting, EMPTY
        return waiting

    def _begin(self, time: int) -> None:
        self.first = time if self.first is None else min(self.first, time)

    def _sorted(self, batch: Timed) -> Timed:
        """What is not late, by time and then by arrival, with what waited already."""
        _reckoned(int(max(batch.times)))
        times = np.asarray(batch.times, np.int64)
        before = np.maximum.accumulate(np.concatenate([[self.latest], times]))[:-1]
        kept = np.flatnonzero(times >= np.maximum(self._passed, before - self.delay))
        self.late += times.size - kept.size
        if not kept.size:
            return self._waiting
        self.latest = max(self.latest, int(times[kept].max()))
        self._begin(int(times[kept].min()))
        waiting = batch.take(kept)
        if len(self._waiting):
            waiting = self._waiting.followed_by(waiting)
        return waiting if waiting.ordered else waiting.take(np.argsort(np.asarray(waiting.times), kind="stable"))


def _reckoned(time: int) -> int:
    if time > LATEST:
        raise TimeError(f"an element has the time {time}: give milliseconds since the epoch, at most {LATEST}")
    return time
