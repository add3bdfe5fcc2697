"""Poisson processes: rates learned from what refreshes reveal (knowledge: learned), or published ones.

An SR of rate λ is fresh for a time d with the probability exp(−λ·d); refreshed now it has d = β·m at evaluation m, kept
with a copy of age a it has d = a + β·m.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.changes import Beliefs, Evidence
from freshkeeper.maintenance.cache.view.clocks import Clocks
from freshkeeper.maintenance.cache.view.dumpable import Dumped
from freshkeeper.maintenance.cache.view.rates import ChangeBits, Checks, Estimator, LastModified, paired, reaching, span
from freshkeeper.maintenance.cache.view.schedule import Numbered, Numbering
from freshkeeper.policies.base import NEVER, Knowledge

REGULAR = 0.2
"""The probability of working by a clock from which on an entry is believed to."""


class Learned(Dumped):
    """Rates learned online by an estimator; those of all SRs pooled stand in until an SR has been checked.

    No rate is believed to be below `floor` times the pooled one: an entry that was quiet whenever it was looked at
    loses the benefit of the doubt after some 1/floor mean change intervals without a look, and is looked at again.
    Where taking entries for clocks tells what is seen better than rates do, they are believed to be (`clocks.py`); what
    was never checked has its rate. With `LastModified()` it reads dates that sources tell, which tables have to call
    `published`, and looks for no clocks.

    >>> from freshkeeper import Learned
    >>> Learned(floor=0.1).knowledge.value
    'learned'
    """

    LEARNED: ClassVar = ("_estimator", "clocks")

    def __init__(self, estimator: Estimator | None = None, floor: float = 0.01) -> None:
        """`estimator` is ChangeBits() unless another is given."""
        if not 0 <= floor <= 1:
            raise ConfigError(f"floor is {floor}; it is a share of the pooled rate, between 0 and 1")
        self._estimator: Estimator = ChangeBits() if estimator is None else estimator
        self._floor = floor
        self.clocks = Clocks()

    @property
    def knowledge(self) -> Knowledge:
        """`learned` from change bits, `published` from dates."""
        return Knowledge.PUBLISHED if isinstance(self._estimator, LastModified) else Knowledge.LEARNED

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """Start these slots from the pooled rate."""
        paired(slots, keys)
        self.evict(slots)

    def evict(self, slots: Ids) -> None:
        """Forget what was learned of these slots."""
        self._estimator.reset(slots)
        self.clocks.reset(slots)

    def rates(self, slots: int, which: Ints | None = None) -> Floats:
        """Return the rates per ms that are believed of the first `slots`, or of some of them."""
        return np.maximum(self._estimator.rates(slots, which), self._floor * self._estimator.pooled)

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """exp(−λ·βm) and exp(−λ·(a + βm)); of regular entries what their clocks say, as far as they are believed."""
        plain = exponential(self.rates(*reaching(last_refresh, slots)), instants, last_refresh, look_ahead)
        numbers = np.arange(last_refresh.size) if slots is None else slots
        chance, _ = self.clocks.regular(numbers)
        rows = np.flatnonzero((chance >= REGULAR) & (last_refresh != NEVER))
        if rows.size:
            found = self.clocks.beliefs(numbers[rows], instants, last_refresh[rows], look_ahead)
            self._doubt(found, instants, last_refresh[rows])
            for matrix, by_the_clock in zip(plain.matrices, found.matrices, strict=True):
                matrix[rows] += self.clocks.weight * (by_the_clock - matrix[rows])
        return plain

    def regular(self, slots: Ints) -> tuple[Floats, Floats]:
        """Return the probability and the period in ms of a clock for each of these slots."""
        return self.clocks.regular(slots)

    def _doubt(self, found: Beliefs, instants: Ints, last_refresh: Ints) -> None:
        """Lower the confidence in entries that seem to stand still, with a clock as without."""
        doubt = self._floor * self._estimator.pooled
        found.refreshed[:] *= np.exp(-doubt * (instants - instants[0]))
        found.kept[:] *= np.exp(-doubt * np.maximum(instants - last_refresh[:, None], 0))

    def observe(self, evidence: Evidence) -> None:
        """Hand the checks to the estimator, and before that to the clocks, with what rates would have said."""
        found = checks(evidence)
        if self.knowledge is Knowledge.LEARNED:
            self.clocks.observe(found, self.rates(span(found.slots), found.slots.astype(np.int64)))
        self._estimator.observe(found)


class Poisson(Numbered):
    """Known rates per ms, by SR number, and nothing else; a slot whose key has no number never changes.

    >>> import numpy as np
    >>> from freshkeeper import Poisson
    >>> model = Poisson(np.array([0.001]), numbers={"ann": 0})
    >>> model.admit(np.array([0], np.int32), ["ann"])
    >>> model.beliefs(np.array([1000, 2000]), np.array([500]), look_ahead=False).kept.round(2)
    array([[0.61, 0.22]])
    """

    knowledge: ClassVar[Knowledge] = Knowledge.RATES

    def __init__(self, rates: Floats, numbers: Mapping[Any, int] | None = None) -> None:
        """`rates[j]` is the rate of SR j, `numbers` the number of each key (default: the keys are the numbers)."""
        rates = np.asarray(rates, np.float64)
        bad = ~(np.isfinite(rates) & (rates >= 0))
        if bad.any():
            worst = int(bad.argmax())
            raise InputError(f"entry {worst} has the rate {rates[worst]} per ms; a rate is finite and not below 0")
        self._rates = np.append(rates, 0.0)
        self._numbering = Numbering(rates.size, numbers)

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """exp(−λ·βm) and exp(−λ·(a + βm))."""
        rates = self._rates[self._numbering.of(*reaching(last_refresh, slots))]
        return exponential(rates, instants, last_refresh, look_ahead)


def exponential(rates: Floats, instants: Ints, last_refresh: Ints, look_ahead: bool) -> Beliefs:
    """Beliefs of Poisson processes, one rate per slot; a Poisson process does not remember, so `kept` is a product."""
    ahead = (instants - instants[0]).astype(np.float64)
    refreshed = np.exp(np.multiply.outer(-rates, ahead))
    age = np.maximum(instants[0] - last_refresh, 0)
    survived = np.where(last_refresh == NEVER, 0.0, np.exp(-rates * age))
    kept = survived[:, None] * refreshed
    change = -np.expm1(np.multiply.outer(-rates, np.diff(ahead, prepend=0.0))) if look_ahead else None
    return Beliefs(refreshed, kept, change)


def checks(evidence: Evidence) -> Checks:
    """Evidence as an estimator takes it: intervals and ages instead of times.

    A version told to be younger than the replaced copy is a change, even if the value came out the same.
    """
    held = evidence.previous != NEVER
    tau = np.where(held, evidence.now - evidence.previous, 0)
    told = evidence.modified != UNKNOWN
    newer = held & told & (evidence.modified > evidence.previous)
    age = np.where(told, np.maximum(evidence.now - evidence.modified, 0), -1)
    return Checks(evidence.slots, np.maximum(tau, 0), evidence.changed | newer, age)
