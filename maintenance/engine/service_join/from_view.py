"""SERVICE from the view: a query reports its window mappings, the view is evaluated, and both are joined."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.evaluator import TermRow
from freshkeeper.maintenance.engine.r2s import CERTAIN, Freshness, combine_freshness
from freshkeeper.maintenance.engine.service_join.service_rows import ServiceRows, has_blank_node
from freshkeeper.maintenance.engine.service_join.service_view import DemandFeed, ServiceView
from freshkeeper.maintenance.engine.service_join.window_mappings import WindowMappings, WindowPart
from freshkeeper.policies import base
from freshkeeper.policies.base import Case


@dataclass(eq=False)
class CachedService:
    """A SERVICE pattern of one query, answered from a view that other queries may share."""

    part: WindowPart
    view: ServiceView
    variables: tuple[str, ...]
    """the variables of the view's rows, under the names of this query"""
    marks: bool = False
    """give a lookup key that was never fetched a solution that binds nothing of the source"""
    errors: int = 0
    _mappings: WindowMappings = field(default_factory=lambda: WindowMappings([]))

    def __post_init__(self) -> None:
        """Register as a user of the view."""
        self._user = self.view.user()

    def prepare(self, now: int) -> ServiceView:
        """Report the present window mappings to the view."""
        self._mappings = self.part.read(now)
        self.view.set_demand(self._user, now, self._mappings.joined)
        return self.view

    def set_demand(self, feed: DemandFeed) -> None:
        """Let the view pull the demand of a query that keeps its own mappings."""
        self.view.set_demand_feed(self._user, feed)

    def rebuild(self, now: int, done: int) -> ServiceView | None:
        """Report the mappings of an evaluation that an earlier run answered, if it was the last of query or view."""
        if now not in (done, self.view.store.last):
            return None
        self.prepare(now)
        return self.view if now == self.view.store.last else None

    def leave(self) -> None:
        self.view.leave(self._user)

    def rows(self, now: int) -> ServiceRows:
        del now
        self.errors = self.view.evaluation.record.errors
        mappings, source = self._mappings, self.view.source
        rows: list[TermRow] = []
        copies: list[int] = []
        numbers: dict[object, int] = {}
        parts: list[list[Freshness]] = []
        complete: dict[TermRow, list[Freshness]] = {mapping.sn: [] for mapping in mappings.joined}
        for answer in self.view.answers(complete):
            fresh = Freshness(answer.freshness, answer.age)
            number = numbers.setdefault(self._owner(answer.key, answer.entry), len(numbers))
            if number == len(parts):
                parts.append([])
            parts[number].append(fresh)
            assert isinstance(answer.key, tuple)
            complete.setdefault(answer.key, []).append(fresh)
            found = source.rows(answer.key, answer.entry, answer.value)
            rows += found
            copies += [number] * len(found)
        # Number of a copy → its freshness. Copies without rows come last: no row is made of them, but a sum may be.
        freshness = [_same(each) for each in parts]
        whole = {sn: self._complete(sn, each) for sn, each in complete.items()}
        freshness += [whole[sn] for sn, each in complete.items() if not each]
        misses = self.view.manager.view.misses if self.marks else {}
        if missed := [sn for sn in complete if sn in misses and not has_blank_node(sn)]:
            rows += map(self._marked, missed)
            copies += [len(freshness)] * len(missed)
            freshness.append(Freshness(0.0))
        whole |= mappings.lacking
        return ServiceRows(self.variables, rows, copies=copies, freshness=freshness, sn=self.part.sn, complete=whole)

    def _marked(self, sn: TermRow) -> TermRow:
        """Return the solution of a lookup key that the view lacks: only the key is bound."""
        known = dict(zip(self.part.sn, sn, strict=True))
        return tuple(known.get(name) for name in self.variables)

    def _owner(self, sn: object, sr: object) -> object:
        """Return the identity of what is fresh together: all inputs of an aggregate, or the edges of an entry."""
        if self.view.manager.case is Case.AGGREGATE:
            return sn
        return sr if self.view.edges is None else (sn, sr)

    def _complete(self, sn: TermRow, parts: Sequence[Freshness]) -> Freshness:
        """Return how certain it is that a lookup key has exactly the solutions in the view; 0 if any was never read."""
        manager = self.view.manager
        slot = manager.view.sns.numbers.get(sn)
        if slot is None or (manager.view.last_refresh[manager.graph.by_sn.of(slot)] == base.NEVER).any():
            return Freshness(0.0)
        if not parts:
            return self.view.edge_freshness.get(sn, CERTAIN)
        if manager.case is Case.AGGREGATE:
            return _same(parts)
        return combine_freshness(parts)


def _same(parts: Sequence[Freshness]) -> Freshness:
    """Return the freshness of entries that are fresh together: the lowest probability, the highest age."""
    oldest = max(part.age or 0 for part in parts)
    return Freshness(min(part.probability for part in parts), oldest)
