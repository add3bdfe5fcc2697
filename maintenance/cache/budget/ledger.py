"""Budgets that are honest by construction: γ per evaluation, a bank, and a ledger that never lets spending run ahead.

A fractional γ is paid out exactly, in whole units: 2.5 means 2, 3, 2, 3, ... What an evaluation leaves goes to the
bank as far as it has room. After every evaluation: spent so far ≤ paid so far ≤ k·γ + what the bank held at first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from freshkeeper.maintenance.base.errors import BudgetError, ConfigError
from freshkeeper.policies.base import Budget

Amount = int | float | Fraction
WHOLE_BELOW = 2**53
"""Below this a float without a fraction is exactly the integer that it is written as."""


def exact(amount: Amount, name: str = "amount") -> Fraction:
    """A number of cost units as people write it: 0.1 is a tenth."""
    if isinstance(amount, float) and 0 <= amount < WHOLE_BELOW and amount.is_integer():
        return Fraction(int(amount))  # as most are: reading the text takes ten times as long
    value = Fraction(str(amount)) if isinstance(amount, float) and amount == amount and abs(amount) < 1e300 else amount
    if isinstance(value, float) or value < 0:
        raise ConfigError(f"{name} must be zero or more cost units, not {amount}")
    return Fraction(value)


@dataclass(frozen=True)
class BudgetRule:
    """γ of every evaluation, the capacity of the bank, what it holds at first, and the unit that is paid out whole.

    >>> from freshkeeper import BudgetRule
    >>> rule = BudgetRule.of(0.5, bank=2)
    >>> [int(rule.paid(evaluations)) for evaluations in (1, 2, 3, 4)]
    [0, 1, 1, 2]
    """

    per_evaluation: Fraction
    bank: Fraction = Fraction(0)
    initial: Fraction = Fraction(0)
    unit: Fraction = Fraction(1)
    evaluations: int | None = None
    """how many there will be, where that is known: what is then in the bank is lost, and policies are told"""

    @classmethod
    def of(
        cls,
        per_evaluation: Amount,
        bank: Amount = 0,
        initial: Amount = 0,
        unit: Amount = 1,
        evaluations: int | None = None,
    ) -> "BudgetRule":
        """From numbers as people write them."""
        rule = cls(
            exact(per_evaluation, "a budget per evaluation"),
            exact(bank, "a bank's capacity"),
            exact(initial, "a bank's first content"),
            exact(unit, "the unit that is paid out"),
            evaluations,
        )
        if rule.unit == 0:
            raise ConfigError("the unit that is paid out must be more than 0")
        if rule.initial > rule.bank:
            raise ConfigError(f"the bank holds {rule.bank} at most, so it cannot hold {rule.initial} at first")
        return rule

    def paid(self, evaluations: int) -> Fraction:
        """What the first evaluations are paid together, in whole units."""
        return evaluations * self.per_evaluation // self.unit * self.unit


@dataclass(eq=False)
class Ledger:
    """What was paid in, what was spent, what is carried. Overdrafts only for policies that are marked for it.

    >>> from freshkeeper import BudgetRule, Ledger
    >>> ledger = Ledger(BudgetRule.of(2, bank=1))
    >>> ledger.open().available
    2.0
    >>> ledger.spend(1)
    >>> ledger.open().available
    3.0
    """

    rule: BudgetRule
    overdraft: bool = False
    evaluations: int = 0
    spent: Fraction = Fraction(0)
    carried: Fraction = field(init=False)
    paid: Fraction = field(init=False, default=Fraction(0))
    """what this evaluation was paid"""
    available: Fraction = field(init=False)

    def __post_init__(self) -> None:
        self.carried = self.rule.initial
        self.available = Fraction(0)

    def open(self, now: int = 0) -> Budget:
        """Pay in for the next evaluation; what the last one left is in the bank, as far as it has room."""
        del now
        if self.evaluations:
            self.carried = min(self.rule.bank, max(Fraction(0), self.available))
        self.evaluations += 1
        self.paid = self.pay()
        self.available = self.carried + self.paid
        remaining = None if self.rule.evaluations is None else max(1, self.rule.evaluations - self.evaluations + 1)
        return Budget(float(self.available), float(self.rule.per_evaluation), float(self.rule.bank), remaining)

    def pay(self) -> Fraction:
        """What the evaluation that begins is paid."""
        return self.rule.paid(self.evaluations) - self.rule.paid(self.evaluations - 1)

    def keep(self, amount: Amount) -> None:
        """The choice of this evaluation costs so much; nobody else wants the rest."""

    def extend(self) -> None:
        """What is left may go to second tries."""

    def spend(self, amount: Amount) -> None:
        """Take money out; more than there is is an error, unless overdrafts are allowed and so marked."""
        cost = exact(amount, "spending")
        if cost > self.available and not self.overdraft:
            raise BudgetError(f"evaluation {self.evaluations} has {self.available} cost units left, not {cost}")
        self.available -= cost
        self.spent += cost

    def settle(self, now: int, amount: Fraction) -> tuple[float, Fraction]:
        """An evaluation of which nobody knows what it spent: up to this much counts; what it had, and what counts."""
        had = self.open(now).available
        spent = amount if self.overdraft else min(amount, self._at_most(amount))
        self.spend(spent)
        return had, spent

    def _at_most(self, amount: Fraction) -> Fraction:
        del amount
        return self.available

    def dump(self) -> dict[str, Any]:
        """What must survive a restart."""
        amounts = {name: str(getattr(self, name)) for name in ("spent", "carried", "paid", "available")}
        return {"evaluations": self.evaluations} | amounts

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from an earlier run."""
        self.evaluations = state["evaluations"]
        for name in ("spent", "carried", "paid", "available"):
            setattr(self, name, Fraction(state[name]))

    @property
    def over_budget(self) -> bool:
        """Whether more was spent than the rule ever paid."""
        return self.spent > self.rule.paid(self.evaluations) + self.rule.initial

    def check(self) -> None:
        """The invariant, after every run: cumulative spending never exceeds k·γ plus the initial bank."""
        limit = self.evaluations * self.rule.per_evaluation + self.rule.initial
        if not self.overdraft and self.spent > limit:
            raise BudgetError(f"{self.spent} cost units were spent in {self.evaluations} evaluations that paid {limit}")


def rule_of(budget: "BudgetRule | Ledger | Amount") -> "BudgetRule | Ledger":
    """A rule, or a number of requests for every evaluation."""
    if isinstance(budget, BudgetRule | Ledger):
        return budget
    if isinstance(budget, int | float | Fraction) and not isinstance(budget, bool):
        return BudgetRule.of(budget)
    raise ConfigError(f"a budget is what an evaluation may spend, as BudgetRule.of(2) or 2, not {budget!r}")
