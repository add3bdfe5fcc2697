"""Where prices differ: what is chosen against the exact program and against the best of all subsets."""

from itertools import combinations

import numpy as np
import pytest

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Graph, Knowledge, Round
from freshkeeper.policies.choose import best
from freshkeeper.policies.ibm import impact
from freshkeeper.policies.rounds_by_hand import from_parts

SOURCES = [
    pytest.param((1.0, 20.0), id="a key costs 1 or 20"),
    pytest.param((1 / 200, 1.0), id="one source takes 200 keys to a request, the other one"),
    pytest.param((1.0, 2.0, 3.0), id="three sources"),
]


def costing(rng: np.random.Generator, prices: tuple[float, ...], entries: int = 30) -> Round:
    """A round of exact knowledge in which half of the copies are stale and entries are of sources of these prices."""
    keys, horizon = 20, 4
    pairs = np.argwhere(rng.random((keys, entries)) < 0.2)
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], keys, entries)
    profile = np.cumsum(rng.integers(0, 3, (keys, horizon)), axis=1)[:, ::-1].astype(np.float64)
    life = rng.integers(1, horizon + 1, entries)[:, None]
    stays = (np.arange(horizon) < life).astype(np.float64)
    kept = stays * (rng.random(entries) < 0.5)[:, None]
    change = (np.arange(horizon) == life).astype(np.float64)
    cost = rng.choice(prices, entries).tolist()
    return from_parts(graph, profile, stays, kept, change, cost, Case.BGP, Knowledge.EXACT)


@pytest.mark.parametrize("prices", SOURCES)
@pytest.mark.parametrize("name", ["ibm", "plan"])
def test_money_goes_where_a_request_brings_most(name: str, prices: tuple[float, ...]) -> None:
    """The integer program of one evaluation (`oracle`, PuLP with HiGHS) says what is possible."""
    policy = registry.make(name, {"expect": False, "windows": 1} if name == "plan" else {})
    shares = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        round = costing(rng, prices)
        money = float(rng.uniform(max(prices), round.cost.sum() / 2))
        worth = impact(round)
        ours, exact = (
            one.select(round, Budget(money, money), np.random.default_rng(0)).chosen
            for one in (policy, registry.make("oracle", {"ahead": True}))
        )
        assert round.cost[ours].sum() <= money + 1e-6
        shares.append(worth[ours].sum() / worth[exact].sum())
    assert min(shares) > 0.9
    assert np.mean(shares) > 0.98


def optimum(scores: Floats, cost: Floats, available: float) -> float:
    """The knapsack's, by enumeration."""
    numbers = range(scores.size)
    subsets = (list(some) for size in range(scores.size + 1) for some in combinations(numbers, size))
    return float(max(scores[some].sum() for some in subsets if cost[some].sum() <= available))


@pytest.mark.parametrize("prices", [(1.0, 20.0), (1.0, 2.0, 3.0), (0.5, 7.0)])
def test_what_is_chosen_is_nearly_the_best_of_all_subsets(prices: tuple[float, ...]) -> None:
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        cost = rng.choice(prices, 9)
        scores = rng.exponential(1.0, 9) * cost ** rng.uniform(0, 1.5)
        available = float(rng.uniform(1, cost.sum()))
        chosen = best(scores, np.ones(9, bool), cost, available, rng).chosen
        assert cost[chosen].sum() <= available + 1e-6
        highest = optimum(scores, cost, available)
        shares.append(scores[chosen].sum() / highest if highest else 1.0)
    assert min(shares) > 0.9
    assert np.mean(shares) > 0.99


def test_a_cheap_one_does_not_keep_out_a_dear_one_that_is_worth_far_more() -> None:
    scores, cost = np.array([1.1, 20.0]), np.array([1.0, 20.0])
    assert best(scores, np.ones(2, bool), cost, 20.0, np.random.default_rng(0)).chosen.tolist() == [1]


def test_a_batch_is_filled_by_what_brings_most() -> None:
    """250 keys at a two-hundredth each: one request holds the best 200."""
    scores = np.arange(250.0)
    chosen = best(scores, np.ones(250, bool), np.full(250, 1 / 200), 1.0, np.random.default_rng(0)).chosen
    assert sorted(chosen.tolist()) == list(range(50, 250))
