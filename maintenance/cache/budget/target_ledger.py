"""A ledger that a controller pays: what an evaluation has is what the target needs, and never more than the ceiling."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

from freshkeeper.maintenance.base.errors import BudgetError, ConfigError
from freshkeeper.maintenance.cache.budget.controller import Controller
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger


@dataclass(eq=False)
class TargetLedger(Ledger):
    """The rule is the ceiling; what the controller pays is paid out in whole units, none of it lost.

    >>> from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
    >>> ledger = TargetLedger.towards(0.95, BudgetRule.of(4))
    >>> ledger.open().available
    4.0
    """

    controller: Controller = field(kw_only=True)
    due: Fraction = Fraction(0)
    """what was paid and is no whole unit yet"""
    total: Fraction = Fraction(0)
    """what was paid out so far"""

    @classmethod
    def towards(cls, target: float, rule: BudgetRule, **others: Any) -> Self:
        """Never more than the rule says."""
        return cls(rule, controller=Controller.of(target, rule.per_evaluation), **others)

    def pay(self) -> Fraction:
        """What the next evaluation is paid; together never more than the rule pays."""
        self.due += self.controller.pay
        paid = min(self.due // self.rule.unit * self.rule.unit, super().pay())
        self.due -= paid
        self.due = min(self.due, self.rule.unit)
        self.total += paid
        return paid

    def check(self) -> None:
        """What was spent was paid, and what was paid is no more than the rule says."""
        super().check()
        if not self.overdraft and self.spent > self.total + self.rule.initial:
            raise BudgetError(f"{self.spent} cost units were spent, and {self.total} were paid towards the target")

    def dump(self) -> dict[str, Any]:
        """With what the controller knows."""
        own = {"due": str(self.due), "total": str(self.total), "controller": self.controller.dump()}
        return super().dump() | own

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from an earlier run; one that had no target is paid from now on."""
        super().load(state)
        self.due, self.total = Fraction(state.get("due", 0)), Fraction(state.get("total", state["spent"]))
        if "controller" in state:
            self.controller.load(state["controller"])


def ledger_of(budget: BudgetRule | Ledger, target: float | None) -> Ledger:
    """The ledger of a manager: its own, one that it shares, or one that pays what a target needs."""
    if target is None:
        return budget if isinstance(budget, Ledger) else Ledger(budget)
    if isinstance(budget, Ledger):
        raise ConfigError("a target needs a budget of its own, as BudgetRule.of(10): others share this ledger")
    return TargetLedger.towards(target, budget)
