"""Budgets that are honest by construction: γ per evaluation, a bank, and a ledger that never lets spending run ahead.

A fractional γ is paid out exactly, in whole units: 2.5 means 2, 3, 2, 3, ... What an evaluation leaves goes to the
bank as far as it has room. After every evaluation: spent so far ≤ paid so far ≤ k·γ + what the bank held at first.
"""

from collections.abc import Hashable, Mapping
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from freshkeeper.maintenance.base.errors import BudgetError, ConfigError
from freshkeeper.policies.base import Budget

Amount = int | float | Fraction
WHOLE_BELOW = 2**53
"""Below this a float without a fraction is exactly the integer that it is written as."""


def exact(amount: Amount, name: str = "amount") -> Fraction:
    """Return a number of cost units exactly as people write it: 0.1 is a tenth."""
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
        """Build a rule from numbers as people write them."""
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

    @cached_property
    def pays_evenly(self) -> bool:
        """True if every evaluation is paid the same, because γ is a whole number of units."""
        return self.per_evaluation % self.unit == 0

    def paid(self, evaluations: int) -> Fraction:
        """Return what the first evaluations are paid together, in whole units."""
        return evaluations * self.per_evaluation // self.unit * self.unit


class Income:
    """The source of a ledger's money; by default the ledger is alone, and what is left stays with it.

    A rule pays the same at every evaluation (`RuleIncome`), a controller what a target needs (`TargetIncome`), a budget
    that views share what the others leave (`SharedIncome`).
    """

    def open(self, ledger: "Ledger") -> Budget:
        """Pay for the evaluation that begins: set what the ledger was paid, carries over, and has available."""
        raise NotImplementedError

    def spend(self, ledger: "Ledger", cost: Fraction) -> None:
        """Note a payment that the ledger makes out of what it has available."""

    def claim(self, ledger: "Ledger", amount: Fraction) -> Fraction:
        """Return how much an interrupted evaluation can have spent, at most `amount`, and make it available."""
        return min(amount, ledger.available)

    def keep(self, ledger: "Ledger", amount: Fraction) -> None:
        """Keep so much for the choice of this evaluation, and leave the rest to others."""

    def extend(self, ledger: "Ledger") -> None:
        """Add a part of what nobody else has chosen to spend, for retries."""

    def check(self, ledger: "Ledger") -> None:
        """Raise BudgetError if more was spent than was paid."""

    def balance(self, ledger: "Ledger") -> str:
        """Say what is available, and to whom, as the beginning of an error."""
        return f"evaluation {ledger.evaluations} has {ledger.available} cost units"

    def dump(self) -> dict[str, Any]:
        """Return what must survive a restart."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from the state that a ledger with such an income dumped."""


@dataclass(eq=False)
class RuleIncome(Income):
    """Pays γ at every evaluation, in whole units; what an evaluation leaves goes to the bank, as far as it has room."""

    rule: BudgetRule

    def open(self, ledger: "Ledger") -> Budget:
        rule = self.rule
        if ledger.evaluations > 1:
            ledger.carried = min(rule.bank, max(Fraction(0), ledger.available))
        ledger.paid = self.pay(ledger.evaluations)
        ledger.available = ledger.carried + ledger.paid
        remaining = None
        if rule.evaluations is not None:
            remaining = max(1, rule.evaluations - ledger.evaluations + 1)
        return Budget(float(ledger.available), float(rule.per_evaluation), float(rule.bank), remaining)

    def pay(self, evaluation: int) -> Fraction:
        """Return what an evaluation is paid; the first one has the number 1."""
        if self.rule.pays_evenly:
            return self.rule.per_evaluation
        return self.rule.paid(evaluation) - self.rule.paid(evaluation - 1)

    def check(self, ledger: "Ledger") -> None:
        """Raise BudgetError if more was spent than k·γ plus what the bank held at first."""
        limit = ledger.evaluations * self.rule.per_evaluation + self.rule.initial
        if not ledger.overdraft and ledger.spent > limit:
            paid = f"{ledger.evaluations} evaluations that paid {limit}"
            raise BudgetError(f"{ledger.spent} cost units were spent in {paid}")


@dataclass(eq=False)
class Ledger:
    """The account of one view: what it was paid, what it spent, what it carries over, and what is reserved.

    Without an `income` the rule pays. Overdrafts are for policies that are marked for it.

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
    paid_by: InitVar[Income | None] = None
    """the income; None: the rule"""
    evaluations: int = 0
    spent: Fraction = Fraction(0)
    income: Income = field(init=False)
    carried: Fraction = field(init=False)
    paid: Fraction = field(init=False, default=Fraction(0))
    """what this evaluation was paid"""
    available: Fraction = field(init=False, default=Fraction(0))
    """what may be spent now; reservations are not in it"""
    reservations: dict[Hashable, Fraction] = field(init=False, default_factory=dict)
    """amounts that only those may spend whose name they have"""
    now: int = field(init=False, default=0)
    """when the last evaluation began"""

    def __post_init__(self, paid_by: Income | None) -> None:
        self.carried = self.rule.initial
        self.income = RuleIncome(self.rule) if paid_by is None else paid_by

    def open(self, now: int = 0) -> Budget:
        """Pay in for the evaluation at `now`, and return what its policy may spend."""
        self.now = now
        self.evaluations += 1
        return self.income.open(self)

    def spend(self, amount: Amount) -> None:
        """Take money out; raise BudgetError if it is more than is available, unless overdrafts are allowed."""
        cost = exact(amount, "spending")
        if cost > self.available and not self.overdraft:
            raise BudgetError(f"{self.income.balance(self)} left, not {cost}")
        self.income.spend(self, cost)
        self.available -= cost
        self.spent += cost

    def reserve(self, name: Hashable, amount: Fraction) -> None:
        """Take so much out of what is available, for `name` alone to spend."""
        self.available -= amount
        self.reservations[name] = self.reservations.get(name, Fraction(0)) + amount

    def cancel(self, name: Hashable) -> Fraction:
        """End a reservation and return what is left of it; it is not available until it is added."""
        return self.reservations.pop(name, Fraction(0))

    def keep(self, amount: Amount) -> None:
        """Keep so much for the choice of this evaluation; a shared budget lets others have the rest."""
        self.income.keep(self, exact(amount, "what is kept"))

    def extend(self) -> None:
        """Add, for retries, a part of what no view of a shared budget has chosen to spend."""
        self.income.extend(self)

    def charge_interrupted(self, now: int, amount: Fraction) -> tuple[float, Fraction]:
        """Charge an evaluation that a crash interrupted for all that it may have spent, at most `amount`.

        Return what the evaluation had, and what is charged.
        """
        had = self.open(now).available
        spent = amount if self.overdraft else min(amount, self.income.claim(self, amount))
        self.spend(spent)
        return had, spent

    def dump(self) -> dict[str, Any]:
        """Return the account as JSON, with what its income needs."""
        amounts = {name: str(getattr(self, name)) for name in AMOUNTS}
        return {"evaluations": self.evaluations} | amounts | self.income.dump()

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from the state that an earlier run dumped."""
        self.evaluations = state["evaluations"]
        for name in AMOUNTS:
            setattr(self, name, Fraction(state[name]))
        self.income.load(state)

    @property
    def over_budget(self) -> bool:
        """True if more was spent than the rule ever paid."""
        return self.spent > self.rule.paid(self.evaluations) + self.rule.initial

    def check(self) -> None:
        """Raise BudgetError if the invariant is broken: spending never exceeds what was paid in."""
        self.income.check(self)


AMOUNTS = ("spent", "carried", "paid", "available")
"""Attributes of a ledger that survive a restart, as exact fractions."""


def rule_of(budget: "BudgetRule | Ledger | Amount") -> "BudgetRule | Ledger":
    """Return a rule or a ledger, made of a number of requests for every evaluation if it is one."""
    if isinstance(budget, BudgetRule | Ledger):
        return budget
    if isinstance(budget, int | float | Fraction) and not isinstance(budget, bool):
        return BudgetRule.of(budget)
    raise ConfigError(f"a budget is what an evaluation may spend, as BudgetRule.of(2) or 2, not {budget!r}")
