"""The example of Figure 1 in 002, by hand: three SNs, three SRs, six edges."""

import numpy as np
import pytest

from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Round
from freshkeeper.policies.rounds_by_hand import round_of

EDGES = [(0, 0), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]
WINDOW = [1, 2, 1]
"""Ω^W: the mapping of SN 0 once, of SN 1 twice, of SN 2 once."""


def choice(name: str, round: Round, budget: int, **settings: bool) -> list[int]:
    policy = registry.make(name, settings)
    found: list[int] = policy.select(round, Budget(budget, budget), np.random.default_rng(0)).chosen.tolist()
    return found


def test_degrees_are_those_of_the_figure() -> None:
    graph = round_of(EDGES, [1, 1, 1], [1, 1, 1]).graph
    assert np.diff(graph.sr_start).tolist() == [3, 1, 2]
    assert np.diff(graph.sn_start).tolist() == [1, 2, 3]


def test_demand_counts_window_mappings_over_edges() -> None:
    assert round_of(EDGES, WINDOW, [1, 1, 1]).demand[:, 0].tolist() == [4, 1, 3]


@pytest.mark.parametrize(("budget", "chosen"), [(1, [0]), (2, [0, 2]), (3, [0, 2, 1])])
def test_sbm_takes_the_srs_that_most_answers_need(budget: int, chosen: list[int]) -> None:
    assert choice("sbm", round_of(EDGES, WINDOW, [1, 1, 1]), budget) == chosen


def test_ibm_prefers_a_lasting_sr_over_a_popular_one() -> None:
    # SR 0 has 4 answers now but changes at once; SR 2 has 3 answers now, 3 at the next evaluation, and lasts.
    round = round_of(EDGES, [[1, 1], [2, 2], [1, 1]], [1, 2, 2])
    assert round.demand.tolist() == [[4, 4], [1, 1], [3, 3]]
    assert choice("ibm", round, 1) == [2]
    assert choice("sbm", round, 1) == [0]


@pytest.mark.parametrize(("budget", "chosen"), [(1, [0]), (2, [0, 2]), (3, [0, 2, 1])])
def test_an_aggregate_is_completed_cheapest_first(budget: int, chosen: list[int]) -> None:
    # SN 0 misses one input; once SR 0 is taken SN 1 misses one, then SN 2 misses one.
    assert choice("sbm", round_of(EDGES, WINDOW, [1, 1, 1], case=Case.AGGREGATE), budget) == chosen


def test_an_input_that_is_fresh_already_is_not_missing() -> None:
    round = round_of(EDGES, WINDOW, [1, 1, 1], fresh=[0], case=Case.AGGREGATE)
    assert choice("sbm", round, 1) == [2]
    assert choice("oracle", round, 1) == [2]


def test_ibm_breaks_equal_degrees_by_the_longest_life() -> None:
    # Two SNs with one input each; SR 1 lasts longer.
    round = round_of([(0, 0), (1, 1)], [[1, 1, 1], [1, 1, 1]], [1, 3], case=Case.AGGREGATE)
    assert choice("ibm", round, 1) == [1]


def test_formula_17_counts_fresh_inputs_with_their_remaining_life() -> None:
    # Both SNs miss one input that would last 3; SN 0's other input is fresh, but only for 1 evaluation more.
    edges = [(0, 0), (0, 1), (1, 2)]
    round = round_of(edges, [[1, 1, 1], [1, 1, 1]], [3, 1, 3], fresh=[1], case=Case.AGGREGATE)
    assert choice("ibm", round, 1) == [2]


def test_weighted_sbm_prefers_the_sn_with_more_mappings_per_missing_input() -> None:
    round = round_of([(0, 0), (1, 1), (1, 2)], [1, 5], [1, 1, 1], case=Case.AGGREGATE)
    assert choice("sbm", round, 2)[0] == 0
    assert sorted(choice("sbm", round, 2, weighted=True)) == [1, 2]


def test_the_greedy_is_not_optimal_where_the_oracle_is() -> None:
    # The cheapest SN is worth 1; the dearer one is worth 5 and takes the whole budget.
    round = round_of([(0, 0), (1, 1), (1, 2)], [1, 5], [1, 1, 1], case=Case.AGGREGATE)
    assert sorted(choice("oracle", round, 2)) == [1, 2]
    assert sorted(choice("bundle", round, 2)) == [1, 2]
