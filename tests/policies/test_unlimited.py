"""The ceiling without a budget."""

import numpy as np
import pytest

from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case
from freshkeeper.policies.rounds_by_hand import round_of


@pytest.mark.parametrize("case", list(Case))
def test_every_stale_candidate_is_refreshed_whatever_the_budget(case: Case) -> None:
    # SN 1 is not in the window, so SR 3 is no candidate; SR 1 is fresh.
    round = round_of([(0, 0), (0, 1), (2, 2), (1, 3)], [1, 0, 4], [1, 1, 1, 1], fresh=[1], case=case)
    selection = registry.make("unlimited").select(round, Budget(0, 1), np.random.default_rng(1))
    assert selection.chosen.tolist() == [2, 0]
    assert selection.scores.tolist() == [4, 1]


def test_it_is_marked_as_a_bound_that_breaks_the_budget() -> None:
    policy = registry.make("unlimited")
    assert policy.is_bound
    assert not policy.keeps_budget
    assert policy.cases == set(Case)


def test_nothing_stale_is_nothing_chosen() -> None:
    round = round_of([(0, 0)], [1], [1], fresh=[0])
    assert registry.make("unlimited").select(round, Budget(9, 9), np.random.default_rng(1)).chosen.size == 0
