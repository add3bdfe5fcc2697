"""A shared budget by value: against every other way to part it, and against the exact program of all sources."""

from itertools import product

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.cache.budget.bids import Bid, allocate
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Graph, Knowledge, Round
from freshkeeper.policies.contract_rounds import example
from freshkeeper.policies.ibm import impact
from freshkeeper.policies.rounds_by_hand import from_parts


def bid(answers: list[int], cost: list[float] | None = None) -> Bid:
    return Bid(np.array(answers, float), np.ones(len(answers)) if cost is None else np.array(cost, float))


@pytest.mark.parametrize(
    ("answers", "cost", "brings"),
    [
        pytest.param([5, 3, 1], [1, 1, 1], [5, 3, 1], id="a unit each"),
        pytest.param([4, 3, 2, 1], [0.5] * 4, [7, 3], id="two keys to a request"),
        pytest.param([9, 6], [1, 3], [9, 2, 2, 2], id="what is dear takes several units"),
        pytest.param([1, 4], [1, 1], [1, 1], id="a later one is not had before an earlier one"),
        pytest.param([8, 1], [0, 1], [1], id="what costs nothing needs no money"),
        pytest.param([], [], [], id="nothing"),
    ],
)
def test_what_each_unit_of_money_brings(answers: list[int], cost: list[float], brings: list[int]) -> None:
    assert bid(answers, cost).by_unit(1.0, most=9).tolist() == brings
    assert bid(answers, cost).by_unit(1.0, most=1).tolist() == brings[:1]


falling = st.lists(st.integers(0, 9), max_size=5).map(lambda values: sorted(values, reverse=True))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.integers(0, 8), st.lists(falling, min_size=1, max_size=3), st.lists(st.integers(1, 3), min_size=3, max_size=3)
)
def test_no_other_way_to_part_it_brings_more(units: int, wishes: list[list[int]], weights: list[int]) -> None:
    weights = weights[: len(wishes)]
    given_to = allocate(units, [bid(wish) for wish in wishes], 1.0, weights, [0] * len(wishes))
    assert sum(given_to) == min(units, sum(map(len, wishes)))

    def brought(counts: list[int] | tuple[int, ...]) -> int:
        return sum(weight * sum(wish[:count]) for wish, weight, count in zip(wishes, weights, counts, strict=True))

    every = product(*(range(len(wish) + 1) for wish in wishes))
    assert brought(given_to) == max(brought(counts) for counts in every if sum(counts) <= units)


def test_of_what_brings_the_same_everybody_has_one_before_anybody_has_two() -> None:
    alike = [bid([2, 2, 2, 2])] * 3
    assert allocate(6, alike, 1.0, [1, 1, 1], [0, 0, 0]) == [2, 2, 2]
    assert allocate(2, alike, 1.0, [1, 1, 1], [0, 0, 0]) == [1, 1, 0]


def test_a_part_that_is_one_s_own_is_there_as_far_as_it_is_asked_for() -> None:
    rich, poor = bid([9] * 8), bid([1, 1])
    assert allocate(8, [rich, poor], 1.0, [1, 1], [0, 3]) == [6, 2]
    assert allocate(8, [rich, poor], 1.0, [1, 1], [0, 1]) == [7, 1]


def test_an_answer_that_counts_twice_is_worth_two() -> None:
    assert allocate(2, [bid([3, 3]), bid([2, 2])], 1.0, [1, 2], [0, 0]) == [0, 2]


def test_answers_that_do_not_count_get_what_others_leave() -> None:
    assert allocate(3, [bid([1]), bid([9, 9])], 1.0, [1, 0], [0, 0]) == [1, 2]


def union(rounds: list[Round]) -> Round:
    """All sources as one, for the exact program."""
    sns, srs = (np.cumsum([0, *sizes]) for sizes in ([r.graph.sns for r in rounds], [r.srs for r in rounds]))
    rows = [
        np.repeat(np.arange(r.graph.sns), np.diff(r.graph.sn_start)) + shift
        for r, shift in zip(rounds, sns, strict=False)
    ]
    columns = [r.graph.sn_neighbours + shift for r, shift in zip(rounds, srs, strict=False)]
    graph = Graph.from_edges(np.concatenate(rows), np.concatenate(columns), int(sns[-1]), int(srs[-1]))
    width = max(r.horizon for r in rounds)

    def stacked(name: str) -> Floats:
        padded = [np.pad(getattr(r, name), ((0, 0), (0, width - r.horizon))) for r in rounds]
        return np.concatenate(padded)

    cost = np.concatenate([r.cost for r in rounds]).tolist()
    return from_parts(graph, stacked("profile"), stacked("fresh_if_refreshed"), stacked("fresh_if_kept"),
                      stacked("change"), cost, Case.BGP, Knowledge.EXACT)  # fmt: skip


@pytest.mark.parametrize("sources", [2, 3])
def test_several_sources_against_the_exact_program_of_all_of_them(sources: int) -> None:
    """PuLP with HiGHS says what one budget for all of them can bring."""
    ibm, reached = registry.make("ibm"), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rounds = [example(rng, Case.BGP, Knowledge.EXACT) for _ in range(sources)]
        money, whole = float(rng.integers(1, 8)), union(rounds)
        best = registry.make("oracle", {"ahead": True}).select(whole, Budget(money, money), rng).chosen
        wanted = [ibm.select(round, Budget(money, money), rng) for round in rounds]
        bids = [Bid(one.scores, round.cost[one.chosen]) for one, round in zip(wanted, rounds, strict=True)]
        parts = [share / 2 for share in allocate(int(2 * money), bids, 0.5, [1] * sources, [0] * sources)]
        assert sum(parts) <= money
        chosen = [ibm.select(round, Budget(part, part), rng).chosen for round, part in zip(rounds, parts, strict=True)]
        worth = sum(float(impact(round)[those].sum()) for round, those in zip(rounds, chosen, strict=True))
        optimum = float(impact(whole)[best].sum())
        reached.append(worth / optimum if optimum else 1.0)
    assert np.mean(reached) > 0.98
    assert min(reached) > 0.7
