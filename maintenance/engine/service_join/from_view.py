"""SERVICE from the view: a query stages its window mappings, the view is evaluated, and both are joined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.evaluator import Evaluator, Function, Row
from freshkeeper.maintenance.engine.r2s import CERTAIN, Freshness, combine
from freshkeeper.maintenance.engine.service_join.service_view import Feed, ServiceView
from freshkeeper.maintenance.engine.service_join.values import ServiceRows, nameless
from freshkeeper.maintenance.engine.service_join.window_mappings import Mappings, WindowPart
from freshkeeper.policies import base
from freshkeeper.policies.base import Case


@dataclass(eq=False)
class FromView:
    """One SERVICE pattern of one query with its view, which other queries may have too."""

    part: WindowPart
    view: ServiceView
    variables: tuple[str, ...]
    """those of the view's rows, as this query calls them"""
    marks: bool = False
    """whether what was never fetched is a solution that binds nothing of the source's"""
    errors: int = 0
    _mappings: Mappings = field(default_factory=lambda: Mappings([]))

    def __post_init__(self) -> None:
        """The view knows its users by number."""
        self._user = self.view.user()

    def prepare(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> ServiceView:
        """Tell the view what is in the windows now."""
        self._mappings = self.part.read(evaluator, functions)
        self.view.stage(self._user, now, self._mappings.joined)
        return self.view

    def stage(self, feed: Feed) -> None:
        """The same for a query that keeps its mappings itself."""
        self.view.stage_columns(self._user, feed)

    def rebuild(
        self, now: int, done: int, evaluator: Evaluator, functions: Mapping[str, Function]
    ) -> ServiceView | None:
        """An evaluation that an earlier run answered: the last one of query and view tell what is in its window."""
        if now not in (done, self.view.store.last):
            return None
        self.prepare(now, evaluator, functions)
        return self.view if now == self.view.store.last else None

    def leave(self) -> None:
        """The view is the others' alone."""
        self.view.leave(self._user)

    def rows(self, now: int) -> ServiceRows:
        """Join the mappings with what the view has."""
        del now
        self.errors = self.view.evaluation.record.errors
        mappings, endpoint = self._mappings, self.view.endpoint
        rows: list[Row] = []
        copies: list[int] = []
        numbers: dict[object, int] = {}
        parts: list[list[Freshness]] = []
        complete: dict[Row, list[Freshness]] = {mapping.sn: [] for mapping in mappings.joined}
        for answer in self.view.answers(complete):
            fresh = Freshness(answer.freshness, answer.age)
            number = numbers.setdefault(self._owner(answer.key, answer.entry), len(numbers))
            if number == len(parts):
                parts.append([])
            parts[number].append(fresh)
            assert isinstance(answer.key, tuple)
            complete.setdefault(answer.key, []).append(fresh)
            found = endpoint.rows(answer.key, answer.entry, answer.value)
            rows += found
            copies += [number] * len(found)
        freshness = [_same(each) for each in parts]
        whole = {sn: self._complete(sn, each) for sn, each in complete.items()}
        freshness += [
            whole[sn] for sn, each in complete.items() if not each
        ]  # no row is made of them, and a sum may be
        misses = self.view.manager.view.misses if self.marks else {}
        if missed := [sn for sn in complete if sn in misses and not nameless(sn)]:
            rows += map(self._marked, missed)
            copies += [len(freshness)] * len(missed)
            freshness.append(Freshness(0.0))
        whole |= mappings.lacking
        return ServiceRows(self.variables, rows, copies, freshness, self.part.sn, whole)

    def _marked(self, sn: Row) -> Row:
        """A solution of an SN that the view lacks: it alone is bound."""
        known = dict(zip(self.part.sn, sn, strict=True))
        return tuple(known.get(name) for name in self.variables)

    def _owner(self, sn: object, sr: object) -> object:
        """What is fresh together: the inputs of an aggregate, or the edges of an SR."""
        if self.view.manager.case is Case.AGGREGATE:
            return sn
        return sr if self.view.edges is None else (sn, sr)

    def _complete(self, sn: Row, parts: Sequence[Freshness]) -> Freshness:
        """How sure it is that an SN has the solutions that the view has; 0 where a copy was never read."""
        manager = self.view.manager
        slot = manager.view.sns.numbers.get(sn)
        if slot is None or (manager.view.last_refresh[manager.graph.by_sn.of(slot)] == base.NEVER).any():
            return Freshness(0.0)
        if not parts:
            return self.view.sure.get(sn, CERTAIN)
        return _same(parts) if manager.case is Case.AGGREGATE else combine(parts)


def _same(parts: Sequence[Freshness]) -> Freshness:
    """Of copies that are fresh together: their probability, and the age of the oldest."""
    return Freshness(min(part.probability for part in parts), max(part.age or 0 for part in parts))
