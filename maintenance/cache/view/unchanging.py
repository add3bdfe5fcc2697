"""Entries that never change, as the operator says (knowledge: published)."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Ids, Ints
from freshkeeper.maintenance.cache.view.changes import Beliefs, Evidence
from freshkeeper.maintenance.cache.view.dumpable import Dumped
from freshkeeper.maintenance.cache.view.learned import exponential
from freshkeeper.maintenance.cache.view.rates import paired, reaching
from freshkeeper.policies.base import Knowledge


class Unchanging(Dumped):
    """A copy is fresh for ever: nothing is to be gained by a refresh."""

    LEARNED: ClassVar = ()
    knowledge: ClassVar[Knowledge] = Knowledge.PUBLISHED

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """Check that there is a key for each slot."""
        paired(slots, keys)

    def evict(self, slots: Ids) -> None:
        """Do nothing: no slot has any state."""

    def observe(self, evidence: Evidence) -> None:
        """Do nothing: there is nothing to learn."""

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """Return beliefs for a change rate of 0."""
        count, which = reaching(last_refresh, slots)
        return exponential(np.zeros(count if which is None else which.size), instants, last_refresh, look_ahead)
