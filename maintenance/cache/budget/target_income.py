"""Income that a controller sets: an evaluation is paid what the target needs, and never more than the ceiling."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from freshkeeper.maintenance.base.errors import BudgetError, ConfigError
from freshkeeper.maintenance.cache.budget.controller import Controller
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger, RuleIncome


@dataclass(eq=False)
class TargetIncome(RuleIncome):
    """Pays what its controller says, in whole units, none of it lost; the rule is the ceiling.

    >>> from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger
    >>> rule = BudgetRule.of(4)
    >>> Ledger(rule, paid_by=TargetIncome.towards(0.95, rule)).open().available
    4.0
    """

    controller: Controller
    due: Fraction = Fraction(0)
    """what the controller set and is no whole unit yet"""
    total: Fraction = Fraction(0)
    """what was paid out so far"""

    @classmethod
    def towards(cls, target: float, rule: BudgetRule) -> Self:
        """Return an income that keeps this share of answers fresh, if the rule pays enough for it."""
        return cls(rule, Controller.of(target, rule.per_evaluation))

    def pay(self, evaluation: int) -> Fraction:
        self.due += self.controller.pay
        unit = self.rule.unit
        paid = min(self.due // unit * unit, super().pay(evaluation))
        self.due = min(self.due - paid, unit)
        self.total += paid
        return paid

    def check(self, ledger: Ledger) -> None:
        super().check(ledger)
        if not ledger.overdraft and ledger.spent > self.total + self.rule.initial:
            raise BudgetError(f"{ledger.spent} cost units were spent, and {self.total} were paid towards the target")

    def dump(self) -> dict[str, Any]:
        return {"due": str(self.due), "total": str(self.total), "controller": self.controller.dump()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.due, self.total = Fraction(state.get("due", 0)), Fraction(state.get("total", state["spent"]))
        if "controller" in state:
            self.controller.load(state["controller"])


def ledger_of(budget: BudgetRule | Ledger, target: float | None) -> Ledger:
    """Return the ledger of a manager: a given one, one that the rule pays, or one that is paid what a target needs."""
    if target is None:
        return budget if isinstance(budget, Ledger) else Ledger(budget)
    if isinstance(budget, Ledger):
        raise ConfigError("a target needs a budget of its own, as BudgetRule.of(10): others share this ledger")
    return Ledger(budget, paid_by=TargetIncome.towards(target, budget))
