"""The seam between the view and what is known of changes: a ChangeModel turns evidence into probabilities.

A slot is the view's number for an SR. Models keep arrays by slot, grown as slots are admitted. All times are integer
milliseconds. Models: `schedule.py` (exact and fixed schedules), `published.py` (last-modified and expiry),
`survival.py` (a curve from observed intervals), `learned.py` (rates learned from what refreshes reveal).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints
from freshkeeper.policies.base import Knowledge


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence of successful fetches, one row per entry."""

    slots: Ids
    now: int
    previous: Ints
    """when the copy that was replaced had been fetched; freshkeeper.policies.base.NEVER where there was none"""
    changed: Bools
    """the value differs from the replaced copy's; False where there was none"""
    modified: Ints
    """when the source says the value last changed, or UNKNOWN"""
    expires: Ints
    """the first instant at which the source says the value no longer holds, or UNKNOWN"""


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Probabilities over the next H evaluations, SR × H; entry m speaks of the instant of evaluation m (0 is now)."""

    refreshed: Floats
    """a copy fetched now is still fresh"""
    kept: Floats
    """the copy that the view holds is (still) fresh; 0 where there is none"""
    change: Floats | None
    """the SR changes between the evaluations m − 1 and m, whatever happened before; column 0 is 0"""

    @property
    def matrices(self) -> list[Floats]:
        """The matrices that are not None."""
        return [matrix for matrix in (self.refreshed, self.kept, self.change) if matrix is not None]


@runtime_checkable
class TellsClocks(Protocol):
    """A model that finds out which entries change by a clock."""

    def regular(self, slots: Ints) -> tuple[Floats, Floats]:
        """Return the probability that each of these slots changes by a clock, and the period in ms that it has then."""


class ChangeModel(Protocol):
    """The knowledge of changes: a seam for what is exact, published or learned."""

    @property
    def knowledge(self) -> Knowledge:
        """The amount of knowledge, for tables that must not mix the levels."""

    def admit(self, slots: Ids, keys: Sequence[object]) -> None:
        """Assign entries to these slots, of which nothing is known yet."""

    def evict(self, slots: Ids) -> None:
        """Forget what was known of these slots."""

    def beliefs(self, instants: Ints, last_refresh: Ints, look_ahead: bool, slots: Ints | None = None) -> Beliefs:
        """Probabilities at `instants` (H of them, the first is now); `change` only with `look_ahead`.

        `last_refresh` is that of all slots from 0 on, or of the `slots` that are asked for, in ascending order.
        """

    def observe(self, evidence: Evidence) -> None:
        """Learn from what fetches revealed."""
