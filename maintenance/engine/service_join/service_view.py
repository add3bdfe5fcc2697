"""The view of one SERVICE pattern, shared by all queries that have it; their joint demand drives its refreshes."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.times import DISTANT_PAST
from freshkeeper.maintenance.cache.evaluation import Answer, Decision, Evaluation, PreparedRound
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.engine.evaluator import TermRow
from freshkeeper.maintenance.engine.r2s import Freshness
from freshkeeper.maintenance.engine.service_join.edge_refreshes import (
    EdgeRefreshingEndpoint,
    edge_freshness,
    without_edge_answers,
)
from freshkeeper.maintenance.engine.service_join.service_rows import has_blank_node
from freshkeeper.maintenance.engine.service_join.window_mappings import WindowMapping
from freshkeeper.maintenance.fetching.endpoint import EntryId
from freshkeeper.maintenance.fetching.fetch_jobs import Pending
from freshkeeper.maintenance.sources.pattern_source import PatternFetcher, PatternSource
from freshkeeper.maintenance.state.view_store import NoStore, ViewStore

if TYPE_CHECKING:
    from freshkeeper.maintenance.engine.service_join.view_columns import ViewColumns

DemandFeed: TypeAlias = Callable[[int], tuple[Ints, Ints]]
"""returns the times and lookup-key slots that are new at an evaluation"""


@dataclass(eq=False)
class ServiceView:
    """Evaluated once at every instant at which one of its queries is due, with the demand of all of them.

    A query reports its window mappings before. Queries that are not due keep those of their last evaluation.
    """

    fetcher: PatternFetcher
    manager: Manager
    edges: EdgeRefreshingEndpoint | None = None
    """refreshes edges, if that is enabled"""
    observe: Callable[[Evaluation], None] = field(default=lambda _: None)
    store: ViewStore = field(default_factory=NoStore)
    marks: bool = False
    """all its queries give answers whose entry was never fetched"""
    users: int = 0
    """how many SERVICE patterns it answers"""
    failure: Exception | None = None
    failed: int = 0
    """number of failed fetches so far"""
    edge_freshness: dict[Hashable, Freshness] = field(default_factory=dict)
    """the freshness of the edges of each lookup key, if edges are refreshed"""
    _now: int | None = None
    _evaluation: Evaluation | None = None
    _prepared: tuple[PreparedRound, Ints] | None = None
    _decided: tuple[Decision, Ints] | None = None
    _prioritised: deque[EntryId] = field(default_factory=deque)
    _demand: dict[int, tuple[int, Sequence[WindowMapping]]] = field(default_factory=dict)
    _reported: dict[int, dict[Hashable, int]] = field(default_factory=dict)
    _answers: list[Answer] | None = None
    _places: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    _feeds: dict[int, DemandFeed] = field(default_factory=dict)
    columns: "ViewColumns | None" = None
    """its entries as ids, if native queries use it"""

    @property
    def source(self) -> PatternSource:
        """The SERVICE pattern, with the edges that were fetched."""
        return self.fetcher.source

    def user(self) -> int:
        """Register one more query; return its number."""
        self.users += 1
        return self.users - 1

    def set_demand(self, user: int, now: int, mappings: Sequence[WindowMapping]) -> None:
        """Set the window mappings of a query at `now`."""
        self._demand[user] = now, mappings

    def set_demand_feed(self, user: int, feed: DemandFeed) -> None:
        """Set the feed of a query that keeps its mappings itself; the view pulls from it when it is evaluated."""
        self._feeds[user] = feed

    def leave(self, user: int) -> None:
        """Remove the demand of a query that has ended."""
        self._demand.pop(user, None)
        self._feeds.pop(user, None)
        self.manager.content.remove(self._reported.pop(user, {}).keys())

    @property
    def now(self) -> int | None:
        """The time of the last evaluation that was prepared."""
        return self._now

    @property
    def evaluation(self) -> Evaluation:
        """The last evaluation; raises the error if it failed."""
        if self.failure is not None:
            raise self.failure
        assert self._evaluation is not None
        return self._evaluation

    def prepare_round(self, now: int) -> None:
        """Take in new demand and bid for a share of the budget; an evaluation that is already over reuses the view."""
        store, doubt, again = self.store, self.store.doubt, self._now is not None and self._now >= now
        # On a grid all users are due together, so the demand of this instant is known already.
        if again and self.manager.window.grid:
            return
        at, slots, identity = self._arrivals(now)
        arrived = np.concatenate([slots, self._pull_demand(now)])
        self._now = now
        if again or (store.last is not None and now <= store.last):
            self._keep(self.manager.revisit(now, at, slots, identity))
        # The last run was killed during this evaluation: its requests may have been sent, so they count as spent.
        elif doubt is not None and now == doubt.t:
            self._keep(self.manager.revisit(now, at, slots, identity, had=doubt.available, spent=doubt.spent))
            self._commit(arrived)
        else:
            prospect = self.manager.prepare_round_slots(now, at, slots, identity)
            self.manager.bid(prospect)
            self._prepared = prospect, arrived

    def decide(self, now: int) -> None:
        """Choose what to refresh, unless this evaluation is already over."""
        del now
        if self._prepared is None:
            return
        (prospect, arrived), self._prepared = self._prepared, None
        decision = self.manager.choose(prospect, self._first())
        self.manager.reserve(decision)
        self._decided = decision, arrived

    def prioritise(self, asked: EntryId) -> None:
        """Request that an entry is refreshed first at the next evaluation; safe from any thread."""
        self._prioritised.append(asked)

    def _first(self) -> list[int]:
        """Return the slots of entries that were requested by `want` and are in the view."""
        slots: dict[int, None] = {}
        while self._prioritised:
            kind, key = self._prioritised.popleft()
            if (slot := self.manager.view.srs.by_kind[kind].get(key)) is not None:
                slots[slot] = None
        return list(slots)

    def run(self, now: int) -> Pending[None]:
        """Refresh within the budget."""
        del now
        if self._decided is None:
            return
        (decision, slots), self._decided = self._decided, None
        self.manager.ledger.extend()
        # Write the decision before any request is sent, so that a kill cannot spend the money twice.
        self.store.intend(decision)
        refreshes = yield from self.manager.fetching(decision)
        if self.edges is not None:
            self.edges.rewire(self.manager)
        self._keep(self.manager.conclude(decision, refreshes))
        self._commit(slots)

    def answers(self, sns: Iterable[Hashable]) -> Iterator[Answer]:
        """Return the answers of these lookup keys."""
        if self._answers is None:
            found = self.manager.answers_of(self.evaluation)
            self._answers = list(found)
            if self.users > 1:
                self._places = _places(found.keys, found.key_slots)
            else:
                self._places = {}
        if self.users == 1:
            return iter(self._answers)
        spans = sorted(self._places[sn] for sn in sns if sn in self._places)
        return (answer for start, stop in spans for answer in self._answers[start:stop])

    def _keep(self, evaluation: Evaluation) -> None:
        if self.edges is not None:
            self.edge_freshness = edge_freshness(evaluation)
            evaluation = without_edge_answers(evaluation, self.manager.case)
        if self.marks:
            evaluation = evaluation.with_marks(self._marked())
        self._evaluation, self._answers, self._places = evaluation, None, {}

    def _marked(self) -> int:
        """Return how many window mappings have a lookup key that was never fetched but can be."""
        misses, graph = self.manager.view.misses, self.manager.graph
        slots = [slot for sn, slot in misses.items() if isinstance(sn, tuple) and not has_blank_node(sn)]
        return int(graph.tallies.total[: graph.srs][slots].sum())

    def _commit(self, slots: Ints) -> None:
        evaluation = self.evaluation
        self.failed += evaluation.record.errors
        with self.store.commit(evaluation, slots):
            self.observe(evaluation)

    def _arrivals(self, now: int) -> tuple[Ints, Ints, list[Hashable]]:
        """Return the new window mappings as arrival times, lookup-key slots and identities."""
        manager, span = self.manager, self.manager.window.range
        new: list[tuple[int, TermRow, Hashable]] = []
        for user, (staged, mappings) in self._demand.items():
            fed, until = self._reported.get(user, {}), dict[Hashable, int]()
            for mapping in mappings:
                if staged == now or mapping.expiry > now:
                    identity = (user, mapping.identity)
                    # The manager's window is as long as the longest query's: shift the arrival so that the mapping
                    # leaves it when it leaves its own window, but never place it in the future.
                    end = min(now, max(mapping.expiry - span, now - span + 1)) + span
                    until[identity] = end
                    if fed.get(identity, DISTANT_PAST) < end:
                        new.append((end - span, mapping.sn, identity))
            manager.content.remove(fed.keys() - until.keys())
            self._reported[user] = until
        self._demand.clear()
        numbers = manager.view.sns.numbers
        manager.view.sn_slots(sorted({sn for _, sn, _ in new if sn not in numbers}, key=str))
        slots = manager.view.sn_slots([sn for _, sn, _ in new])
        self.source.forget(numbers)
        times = np.array([at for at, _, _ in new], np.int64)
        return times, slots, [identity for _, _, identity in new]

    def _pull_demand(self, now: int) -> Ints:
        """Pull the new mappings of native queries; return the slots of their lookup keys."""
        found = [np.empty(0, np.int64)]
        for feed in self._feeds.values():
            at, slots = feed(now)
            self.manager.content.insert(at, slots)
            found.append(slots)
        self._feeds.clear()
        return np.concatenate(found)


def _places(keys: Sequence[Hashable], slots: Ints) -> dict[Hashable, tuple[int, int]]:
    """Return where the answers of each lookup key begin and end; answers are ordered by lookup key."""
    starts = np.flatnonzero(np.diff(slots, prepend=-1)).tolist()
    return {keys[start]: (start, stop) for start, stop in zip(starts, [*starts[1:], len(keys)], strict=False)}
