"""Where a policy claims an optimum, it is the optimum: against the integer program, and that against brute force."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from freshkeeper.maintenance.base.arrays import Ids
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Round
from freshkeeper.policies.ibm import impact


def chosen(name: str, round: Round, budget: int, **settings: object) -> Ids:
    return registry.make(name, settings).select(round, Budget(budget, budget), np.random.default_rng(0)).chosen


def objective(round: Round, refreshed: Ids | tuple[int, ...]) -> float:
    """Formulas (5) and (10), what is already fresh included, by plain counting."""
    fresh = round.fresh_if_kept[:, 0] > 0
    fresh[list(refreshed)] = True
    total = 0.0
    for sn, count in enumerate(round.profile[:, 0]):
        inputs = round.graph.inputs(sn)
        total += count * (
            fresh[inputs].sum() if round.case is Case.BGP else float(inputs.size > 0 and fresh[inputs].all())
        )
    return total


def brute_force(round: Round, budget: int) -> float:
    srs = range(round.srs)
    size = min(budget, round.srs)
    return max(objective(round, pick) for pick in combinations(srs, size))


@pytest.mark.parametrize("case", list(Case))
def test_oracle_equals_brute_force(small_round: Callable[..., Round], case: Case) -> None:
    for seed in range(150):
        round, budget = small_round(seed, case), seed % 5
        assert objective(round, chosen("oracle", round, budget)) == brute_force(round, budget), f"seed {seed}"


@pytest.mark.slow
def test_sbm_and_ibm_reach_the_integer_program_in_case_1(small_round: Callable[..., Round]) -> None:
    for seed in range(1000):
        round, budget = small_round(seed, sns=4, srs=5), 1 + seed % 3
        value = round.demand[:, 0]
        assert value[chosen("sbm", round, budget)].sum() == value[chosen("oracle", round, budget)].sum(), f"seed {seed}"
        value = impact(round)
        optimum = value[chosen("oracle", round, budget, ahead=True)].sum()
        assert value[chosen("ibm", round, budget)].sum() == optimum, f"seed {seed}"


def test_gain_is_ibm_where_expectation_is_off_and_knowledge_exact(small_round: Callable[..., Round]) -> None:
    for seed in range(200):
        round = small_round(seed)
        picks = [registry.make(name, {"expect": False} if name == "gain" else {}) for name in ("gain", "ibm")]
        first, second = (p.select(round, Budget(3, 3), np.random.default_rng(seed)).chosen.tolist() for p in picks)
        assert impact(round)[first].sum() == impact(round)[second].sum()


def test_no_greedy_beats_the_oracle_in_case_2(small_round: Callable[..., Round]) -> None:
    for seed in range(100):
        round = small_round(seed, Case.AGGREGATE)
        best = objective(round, chosen("oracle", round, 3))
        for name in ("sbm", "ibm", "bundle", "random"):
            assert objective(round, chosen(name, round, 3)) <= best


def test_an_oracle_with_prices_stays_within_them_and_is_the_best(small_round: Callable[..., Round]) -> None:
    for seed in range(40):
        round = small_round(seed)
        cost = np.random.default_rng(seed).choice([1.0, 2.0, 3.0], round.srs)
        round = replace(round, cost=cost)
        pick = chosen("oracle", round, 4)
        affordable = (
            objective(round, some)
            for size in range(5)
            for some in combinations(range(round.srs), size)
            if cost[list(some)].sum() <= 4
        )
        assert cost[pick].sum() <= 4
        assert objective(round, pick) == max(affordable)
