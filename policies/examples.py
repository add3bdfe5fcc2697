"""Seeded random rounds of every kind, to try a policy on: empty windows, isolated SRs, equal scores, H = 1."""

from collections.abc import Iterator

import numpy as np

from freshkeeper.policies.arrays import Floats
from freshkeeper.policies.base import Case, Graph, Knowledge, Round
from freshkeeper.policies.rounds_by_hand import from_parts


def examples(case: Case, knowledge: Knowledge, count: int = 60) -> Iterator[Round]:
    """So many rounds of one case and one knowledge level, the same ones every time."""
    for seed in range(count):
        yield example(np.random.default_rng([seed, 11]), case, knowledge)


def example(rng: np.random.Generator, case: Case, knowledge: Knowledge) -> Round:
    """One round of a random size."""
    sns, srs, horizon = (int(rng.integers(1, most)) for most in (8, 10, 5))
    pairs = np.argwhere(rng.random((sns, srs)) < rng.random()).astype(np.int32)
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], sns, srs)
    arriving = rng.integers(0, int(rng.integers(1, 4)), (sns, horizon)).astype(np.float64)
    profile = np.ascontiguousarray(np.cumsum(arriving, axis=1)[:, ::-1])
    chances = [0.0, 1.0] if knowledge is Knowledge.EXACT else [0.0, 0.1, 0.5, 0.9, 1.0]
    change: Floats = rng.choice(np.array(chances), (srs, horizon)).astype(np.float64)
    change[:, 0] = 0.0
    refreshed: Floats = np.cumprod(1.0 - change, axis=1, dtype=np.float64)
    kept = refreshed * rng.choice(chances, srs)[:, None]
    cost = rng.choice([0.5, 1.0, 2.0], srs).tolist() if rng.random() < 0.3 else None
    return from_parts(graph, profile, refreshed, kept, change, cost, case, knowledge)
