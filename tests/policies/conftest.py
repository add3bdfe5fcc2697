"""Rounds that hypothesis makes, for everything that must hold whatever the round."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st

from freshkeeper.policies.base import Case, Graph, Knowledge, Round
from freshkeeper.policies.rounds_by_hand import from_parts


@st.composite
def rounds(draw: st.DrawFn, case: Case, knowledge: Knowledge) -> Round:
    """Empty windows, isolated SRs, equal scores, H = 1, and probabilities of exactly 0 and 1 among them."""
    sns, srs, horizon = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    edges = draw(st.sets(st.tuples(st.integers(0, sns - 1), st.integers(0, srs - 1)), max_size=14))
    pairs = np.array(sorted(edges), dtype=np.int32).reshape(-1, 2)
    arriving = draw(
        st.lists(st.lists(st.integers(0, 3), min_size=horizon, max_size=horizon), min_size=sns, max_size=sns)
    )
    profile = np.cumsum(np.array(arriving, dtype=np.float64)[:, ::-1], axis=1)[:, ::-1]
    if draw(st.booleans()) and draw(st.booleans()):
        profile[:] = 0
    chance = st.sampled_from([0.0, 1.0]) if knowledge is Knowledge.EXACT else st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
    change = np.array([[draw(chance) for _ in range(horizon)] for _ in range(srs)])
    change[:, 0] = 0
    refreshed = np.cumprod(1 - change, axis=1)
    kept = refreshed * np.array([draw(chance) for _ in range(srs)])[:, None]
    cost = draw(st.one_of(st.none(), st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=srs, max_size=srs)))
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], sns, srs)
    return from_parts(graph, np.ascontiguousarray(profile), refreshed, kept, change, cost, case, knowledge)


@pytest.fixture(scope="session")
def make_rounds() -> Callable[[Case, Knowledge], st.SearchStrategy[Round]]:
    """The strategy, as a function of case and knowledge."""
    return rounds


@pytest.fixture(scope="session")
def small_round() -> Callable[..., Round]:
    """A seeded random round of exact knowledge, small enough for integer programs."""

    def make(
        seed: int, case: Case = Case.BGP, sns: int = 5, srs: int = 7, horizon: int = 3, density: float = 0.4
    ) -> Round:
        rng = np.random.default_rng(seed)
        pairs = np.argwhere(rng.random((sns, srs)) < density).astype(np.int32)
        graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], sns, srs)
        profile = np.cumsum(rng.integers(0, 3, (sns, horizon)), axis=1)[:, ::-1].astype(np.float64)
        life = rng.integers(1, horizon + 2, srs)[:, None]
        refreshed = (np.arange(horizon) < life).astype(np.float64)
        kept = refreshed * (rng.random(srs) < 0.3)[:, None]
        change = (np.arange(horizon) == life).astype(np.float64)
        return from_parts(graph, np.ascontiguousarray(profile), refreshed, kept, change, case=case)

    return make
