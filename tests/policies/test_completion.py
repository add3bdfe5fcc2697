"""Completing aggregates by probability: worked by hand, and against every subset of inputs."""

from itertools import combinations

import numpy as np
import pytest

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies import registry
from freshkeeper.policies.base import Budget, Case, Graph, Knowledge, Round
from freshkeeper.policies.completion import best_prefixes
from freshkeeper.policies.rounds_by_hand import from_parts


def aggregates(graph: Graph, fresh: list[float] | Floats, counts: list[int], cost: None = None) -> Round:
    """A round of one evaluation."""
    refreshed = np.ones((graph.srs, 1))
    kept = np.array(fresh, np.float64)[:, None]
    profile = np.array(counts, np.float64)[:, None]
    return from_parts(
        graph, profile, refreshed, kept, np.zeros((graph.srs, 1)), cost, Case.AGGREGATE, Knowledge.LEARNED
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_best_inputs_are_the_best_of_all_subsets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 7))
    fresh = rng.choice([0.0, 0.1, 0.5, 0.9, 0.99, 1.0], size)
    graph = Graph.from_edges(np.zeros(size, np.int64), np.arange(size), 1, size)
    left = float(rng.integers(1, size + 1))
    rates, sizes = best_prefixes(graph.sn_start, graph.sn_neighbours, fresh, np.ones(size), left, np.zeros(1, np.int64))

    def rate(subset: tuple[int, ...]) -> float:
        rest = [j for j in range(size) if j not in subset]
        return float((fresh[rest].prod() - fresh.prod()) / len(subset))

    every = [rate(subset) for k in range(1, int(left) + 1) for subset in combinations(range(size), k)]
    assert rates[0] == pytest.approx(max(0.0, *every))
    assert sizes[0] <= left


def test_what_is_nearly_complete_goes_before_what_is_far_from_it() -> None:
    """SN 0: refreshing SR 0 (.5) makes .5 + .45 of .45 certain; SN 1 has two inputs at .5, one alone gains .25."""
    graph = Graph.from_edges(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]), 2, 4)
    round = aggregates(graph, [0.5, 0.9, 0.5, 0.5], [1, 1])
    for name in ("sbm", "ibm", "bundle"):
        chosen = registry.make(name).select(round, Budget(1, 1), np.random.default_rng(0)).chosen
        assert chosen.tolist() == [0], name


def test_an_input_that_two_keys_share_is_taken_once_and_helps_both() -> None:
    graph = Graph.from_edges(np.array([0, 1, 2]), np.array([0, 0, 1]), 3, 2)
    round = aggregates(graph, [0.2, 0.1], [1, 1, 1])
    assert registry.make("bundle").select(round, Budget(2, 2), np.random.default_rng(0)).chosen.tolist() == [1, 0]


def test_several_beginnings_find_what_one_does_not() -> None:
    """SN 0 brings 3 for one request and leaves one of no use, SN 1 brings 5 for both."""
    round = aggregates(Graph.from_edges(np.array([0, 1, 1]), np.arange(3), 2, 3), np.zeros(3), [3, 5])
    one, two = (
        registry.make("bundle", {"starts": starts}).select(round, Budget(2, 2), np.random.default_rng(0)).chosen
        for starts in (1, 2)
    )
    assert 0 in one.tolist()
    assert two.tolist() == [1, 2]
