"""Rounds by hand: for worked examples, for trying a policy out, and for the contract every policy must pass."""

from collections.abc import Iterable, Sequence

import numpy as np

from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.policies.base import NEVER, Case, Graph, Knowledge, Round, Structure


def round_of(
    edges: Iterable[tuple[int, int]],
    counts: Sequence[Sequence[float] | float],
    life: Sequence[int],
    fresh: Iterable[int] = (),
    cost: Sequence[float] | None = None,
    case: Case = Case.BGP,
) -> Round:
    """Build a round of exact knowledge.

    `counts[i][m]` is c_i(m), or `counts[i]` c_i(0) where that is all; SR j changes next after `life[j]` evaluations
    (B_j), and then as often again; the SRs in `fresh` hold good copies, all others are stale.

    >>> from freshkeeper import round_of
    >>> round = round_of([(0, 0), (0, 1), (1, 1)], counts=[[1, 1], [2, 0]], life=[1, 2])
    >>> round.demand.tolist()
    [[1.0, 1.0], [3.0, 1.0]]
    """
    profile = np.array(counts, dtype=np.float64)
    profile = profile[:, None] if profile.ndim == 1 else profile
    sns, horizon = profile.shape
    pairs = np.array(sorted(set(edges)), dtype=np.int32).reshape(-1, 2)
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], sns, len(life))
    ahead = np.arange(horizon)
    lives = np.array(life, dtype=np.int64)[:, None]
    refreshed = (ahead < lives).astype(np.float64)
    held = np.isin(np.arange(len(life)), list(fresh))
    change = ((ahead > 0) & (ahead % np.maximum(lives, 1) == 0)).astype(np.float64)
    return from_parts(
        graph,
        profile,
        refreshed,
        refreshed * held[:, None],
        change=change,
        cost=cost,
        case=case,
        knowledge=Knowledge.EXACT,
    )


def from_parts(
    graph: Graph,
    profile: Floats,
    refreshed: Floats,
    kept: Floats,
    change: Floats,
    cost: Sequence[float] | None = None,
    case: Case = Case.BGP,
    knowledge: Knowledge = Knowledge.EXACT,
) -> Round:
    """Build a round from its matrices; the demand is Aᵀ·C."""
    rate = profile[:, 0] / profile.shape[1]
    return Round(
        demand=np.asarray(graph.transposed @ profile),
        fresh_if_refreshed=refreshed,
        fresh_if_kept=kept,
        cost=np.ones(graph.srs) if cost is None else np.array(cost, dtype=np.float64),
        last_refresh=np.where(kept[:, 0] > 0, 0, NEVER),
        case=case,
        knowledge=knowledge,
        span=profile.shape[1],
        foresee=lambda: change,
        build=lambda: Structure(graph, profile, rate),
        expected_arrivals=np.asarray(graph.transposed @ rate),
        keys=tuple(f"entry {sr}" for sr in range(graph.srs)),
        kinds=np.zeros(graph.srs, np.int8),
    )
