"""A ledger of which a part is held back between rounds, for keys that nobody has asked for yet.

A round opens it, pays for its refreshes, and leaves the reserve, which misses take one request at a time from any
thread. What they leave is there for the next round: the bank is as large as the reserve.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Lock
from typing import Any

from freshkeeper.maintenance.cache.budget.ledger import Amount, BudgetRule, Ledger, exact
from freshkeeper.maintenance.cache.budget.target_ledger import TargetLedger
from freshkeeper.policies.base import Budget


@dataclass(eq=False)
class Reserve(Ledger):
    """γ per round, of which `held` is held back for misses.

    >>> from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
    >>> ledger = Reserve.of(BudgetRule.of(4, bank=2), 2)
    >>> ledger.open().available, ledger.take(1), ledger.take(2)
    (2.0, True, False)
    >>> ledger.spend(2)
    >>> ledger.open().available
    3.0
    """

    share: Fraction = Fraction(0)
    """of a round, in cost units"""
    held: Fraction = Fraction(0)
    """what misses may still take before the next round"""
    lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, rule: BudgetRule, share: Amount) -> "Reserve":
        """Hold back so much of every round."""
        return cls(rule, share=exact(share, "a reserve"))

    @property
    def reserved(self) -> Fraction:
        """What is held back of the round that begins."""
        return self.share

    def open(self, now: int = 0) -> Budget:
        """Pay in, and hold the reserve back."""
        with self.lock:
            self.available += self.held
            budget = super().open(now)
            self.held = min(self.reserved, self.available)
            self.available -= self.held
            return Budget(float(self.available), budget.per_evaluation, budget.bank)

    def spend(self, amount: Amount) -> None:
        """Of a round; what it leaves is for misses, until the next one."""
        with self.lock:
            super().spend(amount)
            self.held += self.available
            self.available = Fraction(0)

    def take(self, amount: Amount) -> bool:
        """Spend so much for misses, if it is there."""
        cost = exact(amount)
        with self.lock:
            if cost > self.held:
                return False
            self.held -= cost
            self.spent += cost
            return True

    def settle(self, now: int, amount: Fraction) -> tuple[float, Fraction]:
        """Of a round that was killed nobody knows what misses took beside it: all that was paid counts."""
        had, spent = super().settle(now, amount)
        self.spent += self.held
        self.held = Fraction(0)
        return had, spent

    def dump(self) -> dict[str, Any]:
        """After a kill nobody knows what misses took since: all that they might have."""
        return super().dump() | {"spent": str(self.spent + self.held), "available": "0"}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from an earlier run."""
        super().load(state)
        self.held = Fraction(0)


@dataclass(eq=False)
class TargetReserve(Reserve, TargetLedger):
    """The same where a controller pays: the reserve is as large a part of what is paid."""

    @property
    def reserved(self) -> Fraction:
        """As large a part as of the most; a whole unit at least, or nothing would ever be fetched at once."""
        return max(self.rule.unit, self.share * self.controller.pay / self.controller.ceiling)
