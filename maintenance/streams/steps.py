"""How far event time steps forward at once: an element of the far future makes all evaluations before it due.

A stream begins anywhere, or where a run goes on, plausibly behind what was answered; from there on, what is further
ahead of the latest element than a plausible gap is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.durations import LONGEST_MS, to_iso

LONGEST_GAP = 30 * 86_400_000
"""A month: traces have holidays, and what is further ahead is mostly in another unit of time, or broken."""


@dataclass(eq=False)
class Steps:
    """Refuses times that step further ahead than `gap`, which would end windows for good."""

    gap: int = LONGEST_GAP
    answered: int | None = None
    """the last evaluation of an earlier run: the first element is judged by it"""
    latest: int | None = None
    """the latest time of its elements so far"""

    def take(self, times: Sequence[int] | Ints) -> bool:
        """Whether these are all plausible, one after the other; if so, they have come."""
        if not len(times):
            return True
        before, most = self._before, _latest(times)
        start = int(times[0]) if self.latest is None else self.latest
        leaps = before is not None and times[0] - before > self.gap
        if most > LONGEST_MS or leaps or (most - start > self.gap and not self._slowly(start, times)):
            return False
        self.latest = max(start, most)
        return True

    def check(self, time: int) -> int:
        """A time that has come; a ValueError says that it is none."""
        if time > LONGEST_MS:
            raise ValueError(f"{time} is no time: it is in milliseconds since the epoch, at most {LONGEST_MS}")
        if (before := self._before) is not None and time - before > self.gap:
            what = "last evaluation" if self.latest is None else "latest element"
            ahead = f"{time} is {to_iso(time - before)} ahead of the {what}, at {before}"
            raise ValueError(f"{ahead}; at most {to_iso(self.gap)} is plausible, which --gap says")
        self.latest = time if self.latest is None else max(self.latest, time)
        return time

    @property
    def _before(self) -> int | None:
        """What the next element is judged by."""
        return self.answered if self.latest is None else self.latest

    def _slowly(self, latest: int, times: Sequence[int] | Ints) -> bool:
        """The same where elements are few and far between."""
        reached = np.maximum.accumulate(np.concatenate([[latest], times]))
        return bool((times - reached[:-1] <= self.gap).all())


def _latest(times: Sequence[int] | Ints) -> int:
    return int(times.max()) if isinstance(times, np.ndarray) else max(times)
