"""How long it takes until a key is asked for again: from that an enricher learns for how long keys count as needed.

The horizon is four times the gap that nine in ten are no longer than, some nine times the mean of one that is
exponential: a key is nearly always asked for again within it, and a part of it, in which refreshes are planned, is a
quarter of a gap. Gaps that are longer than what has been seen so far cannot be seen, but then the longest that can be
seen are common, so that the horizon grows with the time that passed until it holds them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats

SHORTEST, PER_OCTAVE, OCTAVES = 125.0, 2, 32
"""Bins of gaps: from an eighth of a second to half a millennium, two to an octave."""
SHARE, TIMES = 0.9, 4
ENOUGH, REMEMBERED = 100, 10_000
"""Gaps before anything is said, and how many count in effect."""
STEADY = 2
"""A horizon that would change by less than this factor is left alone."""


@dataclass(eq=False)
class ReuseGaps:
    """What was seen of them, as counts."""

    counts: Floats = field(default_factory=lambda: np.zeros(PER_OCTAVE * OCTAVES))

    def note(self, gaps: Sequence[int]) -> None:
        """Gaps in ms between rounds before which a key was asked for, however often."""
        octaves = np.log2(np.maximum(np.array(gaps, np.float64), SHORTEST) / SHORTEST)
        bins = np.minimum(np.ceil(octaves * PER_OCTAVE), self.counts.size - 1).astype(np.int64)
        self.counts += np.bincount(bins, minlength=self.counts.size)
        if (total := self.counts.sum()) > REMEMBERED:
            self.counts *= REMEMBERED / total

    def horizon(self, held: int, shortest: int, longest: int) -> int:
        """The one to be had instead of that which is held, or the same."""
        if (total := self.counts.sum()) < ENOUGH:
            return held
        most = int(np.searchsorted(np.cumsum(self.counts), SHARE * total))
        wanted = min(max(round(TIMES * SHORTEST * 2 ** (most / PER_OCTAVE)), shortest), longest)
        return held if held / STEADY < wanted < held * STEADY else wanted
