"""The freshness of answers as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.engine.r2s import Freshness

NO_AGE = -1
"""The age of an answer that no cached entry was used for."""


@dataclass(frozen=True, eq=False)
class FreshnessColumns(Sequence[Freshness]):
    """The probability that each answer is fresh, and the age of its oldest cached entry in milliseconds."""

    probabilities: Floats
    ages: Ints

    @classmethod
    def of(cls, each: Sequence[Freshness]) -> "FreshnessColumns":
        """Return the freshness of answers as columns."""
        if isinstance(each, FreshnessColumns):
            return each
        ages = [NO_AGE if one.age is None else one.age for one in each]
        return cls(np.array([one.probability for one in each], np.float64), np.array(ages, np.int64))

    def __len__(self) -> int:
        return self.probabilities.size

    def __iter__(self) -> Iterator[Freshness]:
        ages = (None if age < 0 else age for age in self.ages.tolist())
        return map(Freshness, self.probabilities.tolist(), ages)

    @overload
    def __getitem__(self, number: int) -> Freshness: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Freshness]: ...

    def __getitem__(self, number: int | slice) -> Freshness | Sequence[Freshness]:
        if isinstance(number, slice):
            return FreshnessColumns(self.probabilities[number], self.ages[number])
        age = int(self.ages[number])
        return Freshness(float(self.probabilities[number]), None if age < 0 else age)


CERTAIN = FreshnessColumns(np.empty(0), np.empty(0, np.int64))
"""The freshness of answers that are all certain: empty columns."""
