"""Counts per last evaluation, for SNs and SRs alike: a ring of rows, their total, and how much arrives of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints, grown
from freshkeeper.maintenance.base.errors import ConfigError


@dataclass(eq=False)
class ArrivalRates:
    """Discounted counts over a discounted number of evaluations; `memory` is how many evaluations count in effect."""

    memory: float = 200.0
    counts: Floats = field(default_factory=lambda: np.zeros(0))
    evaluations: float = 0.0

    def __post_init__(self) -> None:
        """Raise ConfigError for a memory of one evaluation or less."""
        if self.memory <= 1:
            raise ConfigError(f"the memory of arrival rates must be more than 1 evaluation, not {self.memory}")

    def extend(self, width: int) -> None:
        """Make room for numbers below `width`."""
        self.counts = grown(self.counts, width)

    def fade(self, evaluations: int) -> float:
        """Let so many evaluations pass; the factor by which the counts are to be faded before what arrived is added."""
        factor = (1.0 - 1.0 / self.memory) ** evaluations
        self.evaluations = self.evaluations * factor + evaluations
        return factor

    def load(self, evaluations: float, counts: Sequence[float], age: Sequence[int]) -> None:
        """Load counts that have faded since, for so many evaluations each."""
        fade = 1.0 - 1.0 / self.memory
        self.evaluations = evaluations
        self.counts[: len(counts)] = [count * fade**ago for count, ago in zip(counts, age, strict=True)]

    def in_steps(self, share: float) -> "ArrivalRates":
        """Return the rates for evaluations of another length: `share` of them come in an evaluation of these."""
        evaluations = max(1.0, self.evaluations * share)
        known = self.evaluations * share
        return ArrivalRates(self.memory, self.counts * (evaluations / known if known else 1.0), evaluations)

    def per_evaluation(self, width: int) -> Floats:
        """Return the expected new arrivals of each per evaluation."""
        return self.counts[:width] / max(self.evaluations, 1.0)


Selected: TypeAlias = int | Ints
"""numbers below this one, or just these"""


@dataclass(eq=False)
class WindowCounts:
    """Row e mod ring counts what has its last evaluation at e; one more row, `far`, what stays beyond the ring."""

    ring: int
    rates: ArrivalRates = field(default_factory=ArrivalRates)
    rows: Ids = field(init=False)
    total: Ids = field(default_factory=lambda: np.zeros(0, np.int32))

    def __post_init__(self) -> None:
        self.rows = np.zeros((self.ring + 1, 0), np.int32)

    def extend(self, width: int) -> None:
        """Make room for numbers below `width`, and for as many again."""
        self.rows, self.total = grown(self.rows, width, axis=1), grown(self.total, width)
        self.rates.extend(self.total.size)

    def clear(self) -> None:
        """Count nothing, with no room."""
        self.rows, self.total = np.zeros((self.ring + 1, 0), np.int32), np.zeros(0, np.int32)
        self.rates.counts = np.zeros(0)

    def still_there(self, k: int, chosen: Selected, horizon: int) -> Floats:
        """Suffix sums over the ring from evaluation k on: column m counts what has its last one at m or later."""
        if horizon == 1:
            now = self.total[:chosen] if isinstance(chosen, int) else self.total[chosen]
            return now.astype(np.float64)[:, None]
        part = self.rows[:, :chosen] if isinstance(chosen, int) else self.rows[:, chosen]
        counts = np.empty((horizon, part.shape[1]))
        counts[self.ring :] = 0.0
        total = part[-1].copy()
        for m in range(self.ring - 1, -1, -1):
            total += part[(k + m) % self.ring]
            if m < horizon:
                counts[m] = total
        return counts.T
