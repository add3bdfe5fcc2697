"""SERVICE from the view: the manager keeps it fresh for the mappings that are in the windows."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.evaluation import Decision, Evaluation
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.rsp.evaluator import Evaluator, Function, Row
from freshkeeper.maintenance.rsp.r2s import CERTAIN, Freshness, combine
from freshkeeper.maintenance.rsp.window_content import NEVER
from freshkeeper.maintenance.service.pattern_endpoint import PatternEndpoint
from freshkeeper.maintenance.service_join.edge_refreshes import KeepingEdges, over_srs, sure_edges
from freshkeeper.maintenance.service_join.values import ServiceRows
from freshkeeper.maintenance.service_join.window_mappings import Mappings, WindowMapping, WindowPart
from freshkeeper.maintenance.state.view_store import NoStore, ViewStore
from freshkeeper.policies import base
from freshkeeper.policies.arrays import Ints
from freshkeeper.policies.base import Case


@dataclass(eq=False)
class FromView:
    """One SERVICE pattern with its view."""

    part: WindowPart
    endpoint: PatternEndpoint
    manager: Manager
    edges: KeepingEdges | None = None
    """what keeps edges up to date, where that is wanted"""
    observe: Callable[[Evaluation], None] = field(default=lambda _: None)
    store: ViewStore = field(default_factory=NoStore)
    errors: int = 0
    _fed: dict[Row, int] = field(default_factory=dict)
    _last: tuple[int, Evaluation] | None = None
    _edges: dict[Hashable, Freshness] = field(default_factory=dict)
    """how sure the edges of each SN are, where they are refreshed"""

    def rows(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> ServiceRows:
        """Move the window, refresh within the budget, join with what the view has then."""
        mappings = self.part.read(evaluator, functions)
        if self._last is None or self._last[0] < now:
            self._last = now, self._evaluate(now, mappings.joined)
        else:  # a window of elements closes again within the instant: the view is as it is
            self._last = now, self._over_srs(self.manager.revisit(now, *self._arrivals(now, mappings.joined)))
        self.errors = self._last[1].record.errors
        return self._joined(self._last[1], mappings)

    def rebuild(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> None:
        """An evaluation that an earlier run answered: the last one of the view tells what is in its window."""
        if now == self.store.last:
            self._evaluate(now, self.part.read(evaluator, functions).joined)

    def _evaluate(self, now: int, mappings: Sequence[WindowMapping]) -> Evaluation:
        at, slots, identity = self._arrivals(now, mappings)
        store, doubt = self.store, self.store.doubt
        if store.last is not None and now <= store.last:
            return self._over_srs(self.manager.revisit(now, at, slots, identity))
        if doubt is not None and now == doubt.t:
            evaluation = self.manager.revisit(now, at, slots, identity, doubt.available, doubt.spent)
        else:
            evaluation = self._refresh(self.manager.decide(now, at, slots, identity))
        evaluation = self._over_srs(evaluation)
        with store.commit(evaluation, slots):
            self.observe(evaluation)
        return evaluation

    def _refresh(self, decision: Decision) -> Evaluation:
        self.store.intend(decision)
        refreshes = self.manager.fetch(decision)
        if self.edges is not None:
            self.edges.rewire(self.manager)
        return self.manager.conclude(decision, refreshes)

    def _over_srs(self, evaluation: Evaluation) -> Evaluation:
        if self.edges is None:
            return evaluation
        self._edges = sure_edges(evaluation)
        return over_srs(evaluation, self.manager.case)

    def _arrivals(self, now: int, mappings: Sequence[WindowMapping]) -> tuple[Ints, Ints, list[Hashable]]:
        """What is new in the windows, as times, SN slots and identities."""
        manager = self.manager
        manager.content.remove(self._fed.keys() - {m.identity for m in mappings})
        span = manager.window.range
        until = [min(now, max(m.expiry - span, now - span + 1)) + span for m in mappings]
        new = [(m, end) for m, end in zip(mappings, until, strict=True) if self._fed.get(m.identity, NEVER) < end]
        self._fed = {m.identity: end for m, end in zip(mappings, until, strict=True)}
        slots = manager.view.sn_slots([m.sn for m, _ in new])
        self.endpoint.forget(manager.view.sns.numbers)
        at = np.array([end - span for _, end in new], dtype=np.int64)
        return at, slots, [m.identity for m, _ in new]

    def _joined(self, evaluation: Evaluation, mappings: Mappings) -> ServiceRows:
        """One copy per SR, or per edge where edges are refreshed; of an aggregate, one per SN."""
        rows: list[Row] = []
        copies: list[int] = []
        numbers: dict[object, int] = {}
        parts: list[list[Freshness]] = []
        complete: dict[Row, list[Freshness]] = {mapping.sn: [] for mapping in mappings.joined}
        for answer in evaluation.answers or ():
            fresh = Freshness(answer.freshness, answer.age)
            number = numbers.setdefault(self._owner(answer.key, answer.entry), len(numbers))
            if number == len(parts):
                parts.append([])
            parts[number].append(fresh)
            assert isinstance(answer.key, tuple)
            complete.setdefault(answer.key, []).append(fresh)
            found = self.endpoint.rows(answer.key, answer.entry, answer.value)
            rows += found
            copies += [number] * len(found)
        freshness = [_same(each) for each in parts]
        whole = {sn: self._complete(sn, each) for sn, each in complete.items()}
        freshness += [
            whole[sn] for sn, each in complete.items() if not each
        ]  # no row is made of them, and a sum may be
        whole |= mappings.lacking
        return ServiceRows(self.endpoint.variables, rows, copies, freshness, self.part.sn, whole)

    def _owner(self, sn: object, sr: object) -> object:
        """What is fresh together: the inputs of an aggregate, or the edges of an SR."""
        if self.manager.case is Case.AGGREGATE:
            return sn
        return sr if self.edges is None else (sn, sr)

    def _complete(self, sn: Row, parts: Sequence[Freshness]) -> Freshness:
        """How sure it is that an SN has the solutions that the view has; 0 where a copy was never read."""
        view = self.manager.view
        slot = view.sns.numbers.get(sn)
        if slot is None or (view.last_refresh[self.manager.graph.by_sn.of(slot)] == base.NEVER).any():
            return Freshness(0.0)
        if not parts:
            return self._edges.get(sn, CERTAIN)
        return _same(parts) if self.manager.case is Case.AGGREGATE else combine(parts)


def _same(parts: Sequence[Freshness]) -> Freshness:
    """Of copies that are fresh together: their probability, and the age of the oldest."""
    return Freshness(min(part.probability for part in parts), max(part.age or 0 for part in parts))
