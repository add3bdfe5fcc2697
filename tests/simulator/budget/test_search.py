"""The search for the least budget: right for every curve that rises, and with few tries."""

import math
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshkeeper.simulator.budget.budget_searches import BudgetSearches
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.search import least_budget
from freshkeeper.simulator.experiment.point import Point


def found(
    fresh: Callable[..., Any | float], target: float, guess: float, most: int
) -> tuple[float | None, list[float]]:
    """Run a search against a curve; gives what it found and what it tried."""
    search, tried = least_budget(target, guess, most), []
    budget = next(search)
    try:
        while True:
            tried.append(budget)
            budget = search.send(fresh(budget))
    except StopIteration as end:
        return end.value, tried


def saturating(budget: float) -> float:
    return 1 - math.exp(-budget / 8)


def test_a_smooth_curve_takes_a_handful_of_tries() -> None:
    least, tried = found(saturating, 0.95, 12, 100)
    assert least == 24
    assert saturating(23) < 0.95 <= saturating(24)
    assert len(tried) <= 6


def test_below_ten_requests_tenths_are_searched() -> None:
    least, tried = found(lambda budget: 1 - math.exp(-budget), 0.8, 3, 50)
    assert least == 1.7
    assert 1.6 in tried


@given(
    needed=st.integers(11, 400), guess=st.floats(0.1, 500), steps=st.floats(0.05, 5), target=st.floats(0.05, 0.99),
)  # fmt: skip
def test_what_is_found_is_enough_and_one_less_is_not(needed: int, guess: float, steps: float, target: float) -> None:
    def fresh(budget: float) -> float:
        return min(1.0, target * (budget / needed) ** steps) if budget < needed else max(target, 0.999)

    least, tried = found(fresh, target, guess, 400)
    assert least == needed
    assert len(tried) < 40


@pytest.mark.parametrize("guess", [0.2, 5, 500])
def test_what_is_never_fresh_enough_is_said_after_the_most_was_tried(guess: float) -> None:
    least, tried = found(lambda budget: 0.5, 0.9, guess, 20)
    assert least is None
    assert tried[-1] == 20


def test_what_needs_nothing_is_found_at_the_least_that_can_be_paid() -> None:
    assert found(lambda budget: 1.0, 0.9, 4, 20)[0] == 0.1


def test_what_was_tried_is_not_tried_again_whatever_the_number_of_seeds(ask: Callable[..., Question]) -> None:
    told: list[Point] = []

    def twice() -> Generator[float, float, float | None]:
        shares = [(yield 2.0), (yield 2.0), (yield 3.0), (yield 2.0)]
        assert shares[0] == shares[1] == shares[3]
        return 2.0

    tries = BudgetSearches(ask(policies="lru", seeds=3, evaluations=10), 1, told.append)
    assert tries.search({"lru": twice()}, 1) == {"lru": 2.0}
    assert [point.knob for point in told] == [2.0, 3.0]
