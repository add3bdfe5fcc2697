"""Edges that change over time: the edges of a lookup key are an entry of their own, refreshed at their own pace.

A lookup key that was fetched has one edge more, to a slot of kind EDGES. The policy weighs that slot like any other
entry and learns its changes separately; refreshing it expands the lookup key: its edges and all its entries in one
request.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np

from freshkeeper.maintenance.base.kinds import Kind
from freshkeeper.maintenance.cache.evaluation import Answers, Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.r2s import Freshness
from freshkeeper.maintenance.fetching.endpoint import Copy, Delivery, EntryId, Expanded, Key, Late, Order, Price
from freshkeeper.maintenance.fetching.fetch_jobs import Pending
from freshkeeper.maintenance.sources.pattern_source import PatternFetcher
from freshkeeper.policies.base import Case

NOT_PAID = Copy(error="not sent: the budget is spent")
"""Instead of a copy: the request was not sent."""


@dataclass(eq=False)
class EdgeRefreshingEndpoint:
    """An endpoint that refreshes edges as well as cached entries."""

    fetcher: PatternFetcher
    _renewed: list[tuple[Key, int, Expanded]] = field(default_factory=list)
    _under_way: set[Key] = field(default_factory=set)

    @property
    def price(self) -> Price:
        return self.fetcher.price

    @property
    def miss_price(self) -> Price:
        return self.fetcher.miss_price

    def capacity(self, now: int) -> float:
        return self.fetcher.capacity(now)

    def cost_at_most(self, order: Order) -> float:
        return self.fetcher.cost_at_most(order)

    def keys_in_backoff(self) -> Iterator[EntryId]:
        """Yield the keys in back-off; the edges of a lookup key are in back-off with it."""
        for kind, key in self.fetcher.keys_in_backoff():
            yield kind, key
            if kind is Kind.MISS:
                yield Kind.EDGES, key

    def reserve_capacity(self, cost: float) -> None:
        self.fetcher.reserve_capacity(cost)

    def carry_out(self, order: Order) -> Pending[Delivery]:
        """Run an order; refreshes of edges become expansions, and those the allowance does not cover are not sent."""
        missed = len(order.sns)
        sent = order.edges[: self._affordable(len(order.keys), missed, len(order.edges), order.allowance)]
        found = yield from self.fetcher.carry_out(replace(order, sns=[*order.sns, *sent], edges=()))
        renewed = dict(zip(sent, found.expanded[missed:], strict=True))
        expanded = list(map(self._with_edges, order.sns, found.expanded[:missed]))
        return replace(
            found,
            expanded=expanded,
            late=list(map(self._late, found.late)),
            edges=[self._copy(sn, renewed.get(sn), order.now) for sn in order.edges],
            sent=[*found.sent, *[0.0] * (len(order.edges) - len(sent))],
        )

    def rewire(self, manager: Manager) -> None:
        """Write the edges that were refreshed into the view, and remove edges that no longer exist."""
        view, gone = manager.view, []
        for sn, read_at, expanded in self._renewed:
            slot = view.sns.numbers.get(sn)
            if slot is None:
                continue
            before = manager.graph.by_sn.of(slot).tolist()
            keys = list(expanded.copies)
            slots = view.complete(sn, keys, edges=True)
            manager.receive(slots[: len(keys)], keys, list(expanded.copies.values()), read_at)
            gone += [(sn, sr) for sr in before if sr not in slots]
        for sn, sr in gone:
            view.disconnect(sn, sr)
        self._renewed.clear()

    def _affordable(self, plain: int, missed: int, edges: int, allowance: float) -> int:
        """Return how many edge refreshes the allowance covers besides the other requests."""
        price = self.price
        # 1e-9: sums of prices are floats.
        fits = (n for n in range(edges, -1, -1) if price.of(plain) + price.of(missed + n) <= allowance + 1e-9)
        return next(fits, 0)

    def _copy(self, sn: Key, expanded: Expanded | None, now: int) -> Copy:
        if expanded is None:
            return NOT_PAID
        if expanded.error is not None:
            self._under_way.add(sn)
            return Copy(error=expanded.error)
        self._under_way.discard(sn)
        self._renewed.append((sn, now, expanded))
        return Copy(self._value(sn))

    def _with_edges(self, sn: Key, expanded: Expanded) -> Expanded:
        self._under_way.discard(sn)
        if expanded.error is not None:
            return expanded
        return replace(expanded, edges=Copy(self._value(sn)))

    def _late(self, late: Late) -> Late:
        if not isinstance(late.outcome, Expanded):
            return late
        sn = late.key
        # A late answer for a key whose edges are not being refreshed is the answer to a miss.
        if sn not in self._under_way:
            return replace(late, outcome=self._with_edges(sn, late.outcome))
        self._under_way.discard(sn)
        if late.outcome.error is not None:
            return replace(late, kind=Kind.EDGES, outcome=Copy(error=late.outcome.error))
        self._renewed.append((sn, late.read_at, late.outcome))
        return replace(late, kind=Kind.EDGES, outcome=Copy(self._value(sn)))

    def _value(self, sn: Key) -> object:
        """Return the edges of a lookup key, with what they bind, in a canonical order to compare them."""
        edges = self.fetcher.source.edges.get(sn, {})
        return tuple(sorted(((key, tuple(sorted(rows, key=str))) for key, rows in edges.items()), key=str))


def edge_freshness(evaluation: Evaluation) -> dict[Key, Freshness]:
    """Return the freshness of the edges of each lookup key."""
    answers = evaluation.carried_answers
    if answers is None:
        return {}
    edges = (answers.kinds == Kind.EDGES).tolist()
    return {a.entry: Freshness(a.freshness, a.age) for a in compress(answers, edges)}


def without_edge_answers(evaluation: Evaluation, case: Case) -> Evaluation:
    """Return the evaluation without edges as answers of their own; each answer's freshness includes its edges."""
    answers = evaluation.carried_answers
    if answers is None or not len(answers):
        return evaluation
    edges = answers.kinds == Kind.EDGES
    width = int(answers.key_slots.max()) + 1
    fresh, read = np.ones(width), np.full(width, np.iinfo(np.int64).max)
    with_edges, sns = answers.key_slots[edges], answers.key_slots[~edges]
    fresh[with_edges], read[with_edges] = answers.freshness[edges], answers.refreshed[edges]
    kept = np.flatnonzero(~edges).tolist()
    if case is Case.AGGREGATE:
        own = answers.freshness[~edges]
    else:
        own = answers.freshness[~edges] * fresh[sns]
    whole = Answers(
        now=answers.now,
        key_slots=sns,
        entry_slots=answers.entry_slots[~edges],
        weight=answers.weight[~edges],
        refreshed=np.minimum(answers.refreshed[~edges], read[sns]),
        freshness=own,
        kinds=answers.kinds[~edges],
        keys=_chosen(answers.keys, kept),
        entries=_chosen(answers.entries, kept),
        values=_chosen(answers.values, kept),
    )
    # The journal must not count edges as results either.
    record = evaluation.record
    if case is not Case.AGGREGATE:
        results = record.results - float(answers.weight[edges].sum())
        record = replace(record, results=results, expected_fresh=float(whole.weight @ own))
    return replace(evaluation, record=record, carried_answers=whole)


def _chosen(column: list[object], numbers: Sequence[int]) -> list[object]:
    return [column[n] for n in numbers]
