"""What every policy must keep to, as checks that its author can run: `check(policy, round, budget)`.

The test suite runs them on generated rounds for every registered policy; `freshkeeper policies --check` for a new one.
"""

from collections.abc import Callable
from copy import deepcopy

import numpy as np

from freshkeeper.policies.base import Budget, Policy, Round, Selection
from freshkeeper.policies.choose import SLACK
from freshkeeper.policies.errors import PolicyError

SEED = 7


def check(policy: Policy, round: Round, budget: Budget) -> Selection:
    """Run every check on one round; the first that fails is an error that says what is wrong.

    The policy itself is left as it was: what has state chooses on copies.

    >>> from freshkeeper import Budget, check_policy, policy, round_of
    >>> round = round_of([(0, 0), (0, 1), (1, 1)], counts=[[1], [2]], life=[1, 1])
    >>> check_policy(policy("gain"), round, Budget(1, 1)).chosen.tolist()
    [1]
    """
    before = fingerprint(round)
    selection = deepcopy(policy).select(round, budget, np.random.default_rng(SEED))
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("chose an entry twice", lambda: np.unique(selection.chosen).size != selection.chosen.size),
        ("chose an entry that the round does not have", lambda: _strangers(selection, round)),
        ("spent more than the budget", lambda: policy.honest and _cost(selection, round) > budget.available + SLACK),
        ("did not give one score per choice", lambda: len(selection.scores) != len(selection.chosen)),
        ("chose what is certainly fresh", lambda: bool((round.fresh_if_kept[selection.chosen, 0] >= 1).any())),
        ("changed the round that it was given", lambda: fingerprint(round) != before),
        ("chose differently for the same seed", lambda: _wavers(policy, selection, round, budget)),
    )
    for name, broken in checks:
        if broken():
            raise PolicyError(f"the policy {policy.name!r} {name}: chose {selection.chosen.tolist()}")
    return selection


def fingerprint(round: Round) -> tuple[bytes, ...]:
    """The content of a round's arrays, to tell whether anybody wrote to them."""
    graph, rate = round.graph, round.structure.arrival_rate
    arrays = (
        round.profile, round.demand, round.fresh_if_refreshed, round.fresh_if_kept, round.cost, round.last_refresh,
        round.change, round.expected_arrivals, rate, graph.sn_start, graph.sn_neighbours, graph.sr_start,
        graph.sr_neighbours,
    )  # fmt: skip
    return tuple(array.tobytes() for array in arrays if array is not None)


def _strangers(selection: Selection, round: Round) -> bool:
    return bool(((selection.chosen < 0) | (selection.chosen >= round.srs)).any())


def _cost(selection: Selection, round: Round) -> float:
    return float(round.cost[selection.chosen].sum())


def _wavers(policy: Policy, selection: Selection, round: Round, budget: Budget) -> bool:
    again = deepcopy(policy).select(round, budget, np.random.default_rng(SEED))
    return not np.array_equal(again.chosen, selection.chosen)
