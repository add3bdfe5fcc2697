"""Limits for steps of event time: an element of the far future would make all evaluations before it due.

A stream begins anywhere, or for a resumed run, plausibly behind its last answer; from then on, an element further ahead
of the latest one than a plausible gap is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.durations import LONGEST_MS, to_iso

LONGEST_GAP = 30 * 86_400_000
"""A month in milliseconds: traces have holidays; times further ahead are mostly in another unit, or broken."""


@dataclass(eq=False)
class GapLimit:
    """A check that refuses times further ahead than `gap`, which would close windows for good."""

    gap: int = LONGEST_GAP
    answered: int | None = None
    """the last evaluation of an earlier run, with which the first element is compared"""
    latest: int | None = None
    """the latest time of the elements so far"""

    def take(self, times: Sequence[int] | Ints) -> bool:
        """Return whether all times are plausible, one after the other; if so, they count as arrived."""
        if not len(times):
            return True
        before = self._before
        if before is not None and times[0] - before > self.gap:
            return False
        latest = _latest(times)
        start = int(times[0])
        if self.latest is not None:
            start = self.latest
        if latest > LONGEST_MS or (latest - start > self.gap and not self._slowly(start, times)):
            return False
        self.latest = max(start, latest)
        return True

    def check(self, time: int) -> int:
        """Return a plausible time, which counts as arrived, or raise ValueError."""
        if time > LONGEST_MS:
            raise ValueError(f"{time} is no time: it is in milliseconds since the epoch, at most {LONGEST_MS}")
        before = self._before
        if before is not None and time - before > self.gap:
            reference = "latest element"
            if self.latest is None:
                reference = "last evaluation"
            ahead = f"{time} is {to_iso(time - before)} ahead of the {reference}, at {before}"
            raise ValueError(f"{ahead}; at most {to_iso(self.gap)} is plausible (--gap)")
        if self.latest is None or time > self.latest:
            self.latest = time
        return time

    @property
    def _before(self) -> int | None:
        if self.latest is None:
            return self.answered
        return self.latest

    def _slowly(self, latest: int, times: Sequence[int] | Ints) -> bool:
        """Return whether every single step of some times is plausible, as for few elements far apart."""
        # each step is measured from the latest element before it, whatever the order
        reached = np.maximum.accumulate(np.concatenate([[latest], times]))
        return bool((times - reached[:-1] <= self.gap).all())


def _latest(times: Sequence[int] | Ints) -> int:
    if isinstance(times, np.ndarray):
        return int(times.max())
    return max(times)
