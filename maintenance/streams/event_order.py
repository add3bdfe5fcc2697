"""Event time: elements in order, a watermark, and a count of elements that arrive too late.

The watermark is the latest time seen minus the allowed delay. An element before the watermark is late: it is counted
and left out, because evaluations up to the watermark may have been answered. An element after it waits until the
watermark passes it, so that elements are handed on in order.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.errors import TimeError
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.streams.batch import Batch, TimedElements

LATEST = 2**62 - 1
"""The last time that arithmetic can represent; tighter limits are the reader's business."""
EMPTY = Batch((), ())


@dataclass(eq=False)
class EventOrder:
    """The order in time of one stream."""

    delay: int = 0
    latest: int = DISTANT_PAST
    late: int = 0
    first: int | None = None
    """the earliest time so far, handed on or waiting"""
    _passed: int = DISTANT_PAST
    _waiting: TimedElements = EMPTY

    @property
    def watermark(self) -> int:
        """The instant before which elements are late."""
        if self.latest == DISTANT_PAST:
            return self._passed
        return max(self._passed, self.latest - self.delay)

    def advance(self, passed: int) -> None:
        """Advance to an instant that other streams have reached without this one."""
        self._passed = max(self._passed, passed)

    def take(self, batch: TimedElements) -> TimedElements:
        if not len(batch):
            return EMPTY
        # the usual case: nothing is late and nothing waits, so that nothing has to be sorted
        if not self.delay and batch.times[0] >= self.watermark and batch.ordered:
            self._begin(int(batch.times[0]))
            self.latest = _checked(int(batch.times[-1]))
            return batch
        waiting = self._sorted(batch)
        cut = bisect_right(waiting.times, self.watermark)
        self._waiting = waiting.part(cut, len(waiting))
        return waiting.part(0, cut)

    def rest(self) -> TimedElements:
        waiting, self._waiting = self._waiting, EMPTY
        return waiting

    def _begin(self, time: int) -> None:
        if self.first is None or time < self.first:
            self.first = time

    def _sorted(self, batch: TimedElements) -> TimedElements:
        """Return the elements that are not late, by time and then by arrival, with those that wait already."""
        _checked(int(max(batch.times)))
        times = np.asarray(batch.times, np.int64)
        # the latest time before each element: an earlier element of the same batch moves the watermark, too
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
        if waiting.ordered:
            return waiting
        return waiting.take(np.argsort(np.asarray(waiting.times), kind="stable"))


def _checked(time: int) -> int:
    if time > LATEST:
        raise TimeError(f"an element has the time {time}: give milliseconds since the epoch, at most {LATEST}")
    return time
