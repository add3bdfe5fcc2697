"""Views that share a budget spend it where a request brings most."""

from typing import Any

import numpy as np
import pytest

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.evaluate_together import evaluate_together
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.policies.base import Case
from freshkeeper.policies.registry import make

KEYS = range(20)


def manager(
    shared: SharedBudget,
    name: str,
    policy: str = "plan",
    case: Case = Case.BGP,
    source: InMemory | None = None,
    **shares: Any,
) -> Manager:
    source = source or InMemory({n: [n] for n in KEYS}, dict.fromkeys(KEYS, 0))
    return Manager(WindowSpec(4000, 1000), source, make(policy), shared.member(name, **shares), Learned(), case)


def asked(now: int, times: int) -> list[tuple[int, int]]:
    """Every key so many times."""
    return [(now, n) for n in KEYS for _ in range(times)]


def spent(managers: list[Manager], times: list[int], evaluations: int = 5) -> list[list[float]]:
    """What each spends at each evaluation, when its keys are asked for so many times."""
    rows = []
    for k in range(1, evaluations + 1):
        now = 1000 * k
        found = evaluate_together(managers, now, [asked(now, count) for count in times])
        rows.append([evaluation.record.spent for evaluation in found])
    return rows


@pytest.mark.parametrize("policy", ["sbm", "ibm", "gain", "plan"])
def test_money_goes_where_more_is_asked_for(policy: str) -> None:
    shared = SharedBudget(BudgetRule.of(6), 1000)
    assert spent([manager(shared, "busy", policy), manager(shared, "quiet", policy)], [5, 1])[0] == [6, 0]


def test_aggregates_too() -> None:
    shared = SharedBudget(BudgetRule.of(6), 1000)
    managers = [manager(shared, name, "bundle", Case.AGGREGATE) for name in ("busy", "quiet")]
    assert spent(managers, [5, 1])[0] == [6, 0]


def test_what_brings_the_same_to_both_is_parted_evenly() -> None:
    shared = SharedBudget(BudgetRule.of(6), 1000)
    assert spent([manager(shared, "one"), manager(shared, "other")], [1, 1]) == [[3, 3]] * 5


def test_a_minimum_is_one_s_own_and_a_weight_is_how_much_an_answer_counts() -> None:
    shared = SharedBudget(BudgetRule.of(6), 1000)
    assert spent([manager(shared, "busy"), manager(shared, "quiet", minimum=1 / 3)], [5, 1])[0] == [4, 2]
    shared = SharedBudget(BudgetRule.of(6), 1000)
    assert spent([manager(shared, "busy"), manager(shared, "quiet", weight=9)], [5, 1])[0] == [0, 6]


def test_a_policy_that_cannot_say_what_a_request_brings_has_what_its_weight_says() -> None:
    shared = SharedBudget(BudgetRule.of(6), 1000)
    managers = [manager(shared, "busy"), manager(shared, "quiet"), manager(shared, "old", "lru")]
    assert spent(managers, [5, 1, 1])[0] == [4, 0, 2], "the two that can say it part what would be theirs"


def test_where_evaluated_alone_everybody_has_what_the_weights_say() -> None:
    shared = SharedBudget(BudgetRule.of(6), 1000)
    managers = [manager(shared, "busy"), manager(shared, "quiet")]
    assert [one.evaluate(1000, asked(1000, n)).record.spent for one, n in zip(managers, [5, 1], strict=True)] == [3, 3]


def test_what_a_key_costs_is_heeded() -> None:
    shared = SharedBudget(BudgetRule.of(6), 1000)
    dear = InMemory({n: [n] for n in KEYS}, dict.fromkeys(KEYS, 0), Price(per_request=3))
    managers = [manager(shared, "dear", source=dear), manager(shared, "cheap")]
    assert spent(managers, [2, 1])[0] == [0, 6], "two answers for three units, or one for each"


def test_a_bid_changes_nothing_but_the_money() -> None:
    shared = SharedBudget(BudgetRule.of(100), 1000)
    alone = manager(SharedBudget(BudgetRule.of(100), 1000), "alone", "random")
    both = manager(shared, "both", "random"), manager(shared, "other", "random")
    for k in range(1, 4):
        one = alone.evaluate(1000 * k, asked(1000 * k, 1))
        two, _ = evaluate_together(both, 1000 * k, [asked(1000 * k, 1), []])
        assert np.array_equal(one.refreshes.srs, two.refreshes.srs)
