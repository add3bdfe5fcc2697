"""Budgets: paid out exactly, banked as far as there is room, never overspent."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.maintenance.base.errors import BudgetError, ConfigError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger


def test_a_fractional_budget_is_paid_out_in_whole_units() -> None:
    ledger = Ledger(BudgetRule.of(2.5))
    assert [ledger.open().available for _ in range(4)] == [2, 3, 2, 3]


def test_a_total_is_divided_without_losing_the_remainder() -> None:
    ledger = Ledger(BudgetRule.of(Fraction(10, 3)))
    assert sum(ledger.open().available for _ in range(3)) == 10


def test_without_a_bank_nothing_carries_over() -> None:
    ledger = Ledger(BudgetRule.of(3))
    ledger.open()
    assert ledger.open().available == 3


def test_the_bank_keeps_what_it_has_room_for() -> None:
    ledger = Ledger(BudgetRule.of(3, bank=4))
    assert [ledger.open().available for _ in range(4)] == [3, 6, 7, 7]
    assert ledger.open().lost_if_unspent == 3


def test_tenths_are_tenths() -> None:
    ledger = Ledger(BudgetRule.of(1, unit=0.1))
    ledger.open()
    for _ in range(10):
        ledger.spend(0.1)
    assert ledger.available == 0


def test_overspending_is_refused_and_changes_nothing() -> None:
    ledger = Ledger(BudgetRule.of(2))
    ledger.open()
    with pytest.raises(BudgetError, match="has 2 cost units left, not 3"):
        ledger.spend(3)
    assert ledger.available == 2
    assert ledger.spent == 0


def test_an_overdraft_is_allowed_and_known() -> None:
    ledger = Ledger(BudgetRule.of(2), overdraft=True)
    ledger.open()
    ledger.spend(5)
    assert ledger.over_budget
    assert ledger.open().available == 2


@pytest.mark.parametrize("wrong", [-1, -0.5, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigError, match="budget per evaluation must be zero or more"):
        BudgetRule.of(wrong)


def test_a_bank_cannot_hold_more_than_its_capacity() -> None:
    with pytest.raises(ConfigError, match="holds 2 at most"):
        BudgetRule.of(1, bank=2, initial=3)


amounts = st.fractions(min_value=0, max_value=20, max_denominator=7)


@given(amounts, amounts, st.lists(st.fractions(min_value=0, max_value=1, max_denominator=9), max_size=30))
def test_spending_never_runs_ahead_of_payment(gamma: Fraction, bank: Fraction, shares: list[Fraction]) -> None:
    ledger = Ledger(BudgetRule.of(gamma, bank))
    for share in shares:
        budget = ledger.open()
        ledger.spend(share * ledger.available)
        ledger.check()
        assert 0 <= budget.available <= gamma + 1 + bank
        assert ledger.spent <= ledger.evaluations * gamma
