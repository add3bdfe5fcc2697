"""The index of `plan` where staleness is not known: worked cases, every schedule enumerated, and what it leaves out."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import ArrayLike

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Graph, Knowledge, Round
from freshkeeper.policies.now_or_later import CLOSE, GRID, NowOrLater, indices_of
from freshkeeper.policies.rounds_by_hand import from_parts

EVERY = np.arange(8)
"""A grid on which nothing is left out, so that it can be enumerated."""


def index(demand: ArrayLike, refreshed: ArrayLike, kept: ArrayLike, grid: Ints = GRID) -> float:
    needed, new, old = (np.array([row], np.float64) for row in (demand, refreshed, kept))
    return float(indices_of(needed, new, old, np.zeros(1), grid)[0])


def advantage(demand: Floats, refreshed: Floats, kept: Floats, price: float) -> float:
    """What the best of all schedules with a refresh now has over the best of those without."""

    def worth(schedule: tuple[bool, ...]) -> float:
        total, since = 0.0, None
        for i, refresh in enumerate(schedule):
            since = i if refresh else since
            total += demand[i] * (kept[i] if since is None else refreshed[i - since]) - price * refresh
        return total

    best = {True: -np.inf, False: -np.inf}
    for schedule in product([True, False], repeat=len(demand)):
        best[schedule[0]] = max(best[schedule[0]], worth(schedule))
    return best[True] - best[False]


@pytest.mark.parametrize("seed", range(25))
def test_at_its_index_now_and_later_come_out_even_among_all_schedules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demand = rng.integers(0, 5, EVERY[-1]).astype(float)
    demand[0] += 1
    stays, age = rng.uniform(0.3, 0.99), rng.integers(1, 6)
    refreshed = stays ** np.arange(EVERY[-1])
    kept = refreshed * stays**age
    found = index(demand, refreshed, kept, EVERY)
    gain = demand @ (refreshed - kept)
    assert abs(advantage(demand, refreshed, kept, found)) <= 2 * CLOSE * gain
    assert advantage(demand, refreshed, kept, 0.9 * found) >= 0 > advantage(demand, refreshed, kept, 1.1 * gain)


def test_where_demand_is_about_to_leave_it_is_the_gain() -> None:
    assert index([6, 0, 0], [1, 0.5, 0.25], [0.25, 0.125, 0.0625]) == pytest.approx(6 * 0.75, rel=1e-3)


@pytest.mark.parametrize("age", [2, 4, 10])
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_where_demand_stays_it_is_whittles(age: int, rate: float) -> None:
    """Refreshing every `a` evaluations and every a + 1 come out even at Σ_{i<a} q^i − a·q^a."""
    stays = np.exp(-rate)
    refreshed = stays ** np.arange(12)
    found = index(np.full(12, 3.0), refreshed, refreshed * stays**age, np.arange(65))
    even = [3 * ((1 - stays**a) / (1 - stays) - a * stays**a) for a in (age, age + 1)]
    assert 0.95 * even[0] <= found <= even[1]


def test_a_young_copy_is_worth_less_than_it_gains_and_an_old_one_about_as_much() -> None:
    refreshed = 0.8 ** np.arange(12)
    demand = np.full(12, 2.0)
    gains = 2.0 * (1 - 0.8 ** np.array([1, 30])) / (1 - 0.8)
    young, old = (index(demand, refreshed, refreshed * 0.8**age) for age in (1, 30))
    assert young < 0.5 * gains[0]
    assert old > 0.9 * gains[1]


def scene(seed: int, srs: int = 200, horizon: int = 12, costs: tuple[float, ...] = (1.0,)) -> Round:
    rng = np.random.default_rng(seed)
    stays, age = rng.uniform(0.5, 0.99, srs)[:, None], rng.exponential(10, srs)[:, None]
    refreshed = stays ** np.arange(horizon)
    profile = np.cumsum(rng.integers(0, 4, (srs, horizon)), axis=1)[:, ::-1].astype(float)
    graph = Graph.from_edges(np.arange(srs), np.arange(srs), srs, srs)
    change = np.repeat(1 - stays, horizon, axis=1)
    change[:, 0] = 0
    cost = rng.choice(costs, srs).tolist()
    kept = refreshed * stays**age
    return from_parts(graph, profile, refreshed, kept, change, cost, Case.BGP, Knowledge.LEARNED)


@pytest.mark.parametrize("costs", [(1.0,), (1.0, 20.0)])
@pytest.mark.parametrize("available", [1, 7, 40, 1000])
def test_what_is_left_out_is_not_among_the_best(available: int, costs: tuple[float, ...]) -> None:
    for seed in range(5):
        round = scene(seed, costs=costs)
        choice = NowOrLater(round, round.demand)
        gain = choice.gain()
        wanted = gain > 0
        some, every = choice.indices(gain, wanted, available), choice.indices(gain, wanted, 1e9)
        found = some > 0
        assert np.allclose(some[found], every[found], atol=CLOSE * gain.max())
        order = np.argsort(-every / round.cost)
        paid = np.cumsum(round.cost[order]) <= available
        assert (some[order[paid]] > 0).all()


def test_the_gain_reaches_to_the_end_of_the_reckoning() -> None:
    round = scene(3)
    ahead = np.arange(GRID[-1])
    stays = round.fresh_if_refreshed[:, 1]
    demand = np.concatenate([round.demand, np.repeat(round.demand[:, -1:], GRID[-1] - 12, axis=1)], axis=1)
    whole = (demand * stays[:, None] ** ahead).sum(axis=1) * (1 - round.fresh_if_kept[:, 0])
    assert np.allclose(NowOrLater(round, round.demand).gain(), whole)


def test_money_goes_where_a_unit_of_it_brings_most() -> None:
    round = scene(4, costs=(1.0, 20.0))
    chosen = registry.make("plan").select(round, Budget(40, 40), np.random.default_rng(0)).chosen
    choice = NowOrLater(round, round.expected_demand)
    rate = choice.indices(choice.gain(), round.candidates, 1e9) / round.cost
    left_out = np.setdiff1d(np.flatnonzero(rate > rate[chosen].min()), chosen)
    assert round.cost[chosen].sum() <= 40
    assert (round.cost[left_out] > 40 - round.cost[chosen].sum()).all()
