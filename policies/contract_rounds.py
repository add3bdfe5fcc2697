"""The rounds of the contract: single ones, and sequences of evaluations as a cache has them, the same every time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ints
from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.policies.base import (
    NEVER,
    Budget,
    Case,
    Graph,
    Knowledge,
    Results,
    Round,
    Scope,
    Selection,
    Structure,
)
from freshkeeper.policies.rounds_by_hand import from_parts

STEP = 1_000
"""Milliseconds between evaluations."""
SPAN = 4
"""Evaluations in a window."""
PRICES = (0.5, 1.0, 2.0, 5.0, 20.0)

Numbering = Callable[[int], int]
"""The seed of the order in which the round of an evaluation numbers its entries."""


@dataclass(frozen=True)
class Scene:
    """A sequence of evaluations: copies, misses and edges come and go, demand and prices change.

    A round depends on what was fetched before, as in a cache, and on nothing else.
    """

    seed: int
    case: Case
    knowledge: Knowledge
    scope: Scope
    entries: int = 24
    horizon: int = SPAN
    evaluations: int = 6

    @cached_property
    def kinds(self) -> Ints:
        """The kind of each entry: of ten, one is a miss and one the edges of a lookup key."""
        kinds = np.zeros(self.entries, np.int8)
        kinds[3::10], kinds[7::10] = Kind.MISS, Kind.EDGES
        return kinds.astype(np.int64)

    @cached_property
    def keys(self) -> list[str]:
        """The keys as `run` has them: terms in N-Triples; misses and edges have that of their lookup key."""
        names = {Kind.COPY: "<http://example.org/entry/{}>", Kind.MISS: '<http://example.org/key/{}> "{}"@en'}
        return [
            names[Kind.COPY if kind == Kind.COPY else Kind.MISS].format(n // 10 if kind else n, n % 7)
            for n, kind in enumerate(self.kinds.tolist())
        ]

    @cached_property
    def _adjacency(self) -> Bools:
        """SN × entry."""
        rng = np.random.default_rng([self.seed, 1])
        sns = max(2, self.entries // 3)
        return rng.random((sns, self.entries)) < 3 / sns

    def start(self) -> Ints:
        """Return when each copy was fetched before the first evaluation; misses were not."""
        ages = np.random.default_rng([self.seed, 2]).integers(1, 9, self.entries) * STEP
        return np.where(self.kinds == Kind.MISS, NEVER, -ages)

    def budget(self, k: int) -> Budget:
        """Return the budget of an evaluation: none, some, or more than enough, with a bank or without."""
        available = (12.0, 9.0, 0.0, 25.0, 2.5, 1000.0)[(k + self.seed) % 6]
        return Budget(available, 5.0, bank=(0.0, 10.0)[self.seed % 2], remaining=(None, self.evaluations - k)[k % 2])

    def round(self, k: int, fetched_at: Ints, numbering: Numbering) -> tuple[Ints, Round]:
        """Return the entries of a round by their number in it, and the round."""
        rng = np.random.default_rng([self.seed, 3, k])
        shares = (0.9, 1.0, 0.4, 0.7, 0.1, 0.0)
        present = rng.random(self.entries) < shares[k % 6]
        # A miss that was fetched is one no more.
        present &= (self.kinds != Kind.MISS) | (fetched_at == NEVER)
        adjacency, horizon = self._adjacency, self.horizon
        sns = len(adjacency)
        arriving = rng.integers(0, 3, (sns, horizon)) * (rng.random(sns) < 0.6)[:, None]
        profile = np.ascontiguousarray(np.cumsum(arriving, axis=1)[:, ::-1]).astype(np.float64)
        rate: Floats = rng.random(sns)
        if self.knowledge is Knowledge.EXACT:
            change = (rng.random((self.entries, horizon)) < 0.3).astype(np.float64)
            kept_now = (rng.random(self.entries) < 0.4).astype(np.float64)
        else:
            stays = np.random.default_rng([self.seed, 4]).uniform(0.3, 0.99, self.entries)
            change = np.tile(1 - stays[:, None], (1, horizon))
            kept_now = stays ** np.minimum((k * STEP - np.maximum(fetched_at, -STEP)) / STEP, 50)
        change[:, 0] = 0.0
        refreshed = np.cumprod(1.0 - change, axis=1)
        kept = refreshed * np.where(fetched_at == NEVER, 0.0, kept_now)[:, None]
        cost = rng.choice(PRICES, self.entries) if (k + self.seed) % 3 else np.ones(self.entries)
        if self.scope is Scope.ALL:
            entries = np.arange(self.entries)
        else:
            entries = np.random.default_rng([self.seed, 5, numbering(k)]).permutation(self.entries)
            entries = entries[present[entries]]
        sn, sr = np.nonzero(adjacency[:, entries] & present[entries])
        graph = Graph.from_edges(sn.astype(np.int32), sr.astype(np.int32), sns, entries.size)
        arrivals: Floats | None = None
        if self.scope is Scope.EXPECTED:
            arrivals = np.asarray(graph.transposed @ rate)
        columns = np.asfortranarray(graph.transposed @ profile)
        return entries, Round(
            demand=columns,
            fresh_if_refreshed=np.asfortranarray(refreshed[entries]),
            fresh_if_kept=np.asfortranarray(kept[entries]),
            cost=cost[entries],
            last_refresh=fetched_at[entries],
            build=lambda: Structure(graph, profile, rate),
            foresee=lambda: change[entries],
            expected_arrivals=arrivals,
            case=self.case,
            knowledge=self.knowledge,
            now=k * STEP,
            span=SPAN,
            keys=tuple(self.keys[entry] for entry in entries.tolist()),
            kinds=self.kinds[entries].astype(np.int8),
        )

    def results(self, k: int, entries: Ints, selection: Selection) -> Results:
        """Return what came of a choice: most entries are fetched, and half of them have changed."""
        srs = entries[selection.chosen].astype(np.int32)
        rng = np.random.default_rng([self.seed, 6, k])
        fetched, changed = rng.random(self.entries) < 0.9, rng.random(self.entries) < 0.5
        return Results(
            srs=srs,
            fetched=fetched[srs],
            changed=(changed & fetched)[srs],
            now=k * STEP,
            keys=tuple(self.keys[entry] for entry in srs.tolist()),
            kinds=self.kinds[srs].astype(np.int8),
        )


def alike(rng: np.random.Generator, case: Case, knowledge: Knowledge) -> Round:
    """Entries of one rate and one demand, each of an SN of its own, whose copies are of different ages."""
    srs, horizon = int(rng.integers(3, 9)), int(rng.integers(1, 6))
    age = rng.permutation(np.arange(1, srs + 1)) * int(rng.integers(1, 5))
    stays = rng.uniform(0.5, 0.99)
    refreshed = np.tile(stays ** np.arange(horizon), (srs, 1))
    fresh = (age < np.median(age)).astype(np.float64) if knowledge is Knowledge.EXACT else stays**age
    profile = np.tile(np.sort(rng.integers(1, 5, horizon))[::-1].astype(np.float64), (srs, 1))
    change = np.full((srs, horizon), 1.0 - stays)
    change[:, 0] = 0.0
    if knowledge is Knowledge.EXACT:
        refreshed, change = np.ones((srs, horizon)), np.zeros((srs, horizon))
    graph = Graph.from_edges(np.arange(srs), np.arange(srs), srs, srs)
    made = from_parts(
        graph, profile, refreshed, refreshed * fresh[:, None], change=change, case=case, knowledge=knowledge
    )
    return replace(made, last_refresh=1000 - age, now=1000)


def examples(case: Case, knowledge: Knowledge, count: int = 60) -> Iterator[Round]:
    """Yield `count` rounds of one case and one knowledge level, the same ones every time."""
    for seed in range(count):
        yield example(np.random.default_rng([seed, 11]), case, knowledge)


def example(rng: np.random.Generator, case: Case, knowledge: Knowledge) -> Round:
    """Return one round of a random size."""
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
    cost = rng.choice(PRICES, srs).tolist() if rng.random() < 0.3 else None
    return from_parts(graph, profile, refreshed, kept, change=change, cost=cost, case=case, knowledge=knowledge)
