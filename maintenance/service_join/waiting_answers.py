"""Answers that wait: a window mapping that left its windows before its SERVICE part was fetched is answered later.

It stays in the demand of the view, as long as it waits. In the evaluation in which its copies have come, it is joined
with them as it was when it left, and its answers stand among those of that evaluation. What has waited for too many
evaluations is let go, and counted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyoxigraph import Literal

from freshkeeper.maintenance.query.model import Operator, Query
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.query.syntax.source_map import Weaver
from freshkeeper.maintenance.query.syntax.tree import Bind, Filter
from freshkeeper.maintenance.rsp.evaluator import Evaluator, Function, Row, Table
from freshkeeper.maintenance.rsp.r2s import Answers
from freshkeeper.maintenance.service_join.answer_freshness import with_freshness
from freshkeeper.maintenance.service_join.federated_query import FederatedQuery
from freshkeeper.maintenance.service_join.from_view import FromView
from freshkeeper.maintenance.service_join.lineage import aggregated
from freshkeeper.maintenance.service_join.missing_answers import why_dropped
from freshkeeper.maintenance.service_join.service_view import ServiceView
from freshkeeper.maintenance.service_join.values import ServiceRows, written
from freshkeeper.maintenance.service_join.window_mappings import WindowMapping

WAITING = Literal("waiting")
"""Marks the mappings that are in no window any more."""
PATIENCE = 10
"""So many evaluations a mapping waits after those whose windows hold it."""


def why_not_waiting(query: Query, service: ServicePattern, sn: tuple[str, ...]) -> str | None:
    """Why answers of a query cannot come later; None where they can."""
    context = query.context(service)
    if len(query.outer_services) > 1:
        return "it has several SERVICE patterns, which would have to come together"
    if query.operator is not Operator.RSTREAM:
        return f"{query.operator} compares one evaluation with the next, and what waits belongs to an earlier one"
    if aggregated(query):
        return "its groups are of one evaluation, and what waits belongs to an earlier one"
    taking = {piece.place for piece in context.pieces}
    others = [e for n, e in enumerate(query.group) if n not in taking and n != context.levels[0].at]
    if len(context.levels) > 1 or not all(isinstance(element, Filter | Bind) for element in others):
        return "its SERVICE does not stand beside what the windows bind, in one group with it"
    return why_dropped(query, service, sn)


@dataclass(eq=False)
class WaitingView(FromView):
    """A SERVICE pattern from the view, and the mappings that left the windows without its part."""

    waiting: dict[Row, tuple[WindowMapping, int]] = field(default_factory=dict)
    """by what they bind, with the evaluations for which they may still wait"""
    lost: int = 0
    """mappings that waited in vain"""
    _open: dict[Row, WindowMapping] = field(default_factory=dict)
    """mappings in the windows that lack the part"""

    def prepare(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> ServiceView:
        """What waits counts as in the windows."""
        self._mappings = self.part.read(evaluator, functions)
        here = {mapping.identity for mapping in self._mappings.joined}
        self.waiting |= {row: (one, PATIENCE) for row, one in self._open.items() if row not in here}
        late = [WindowMapping((WAITING, *row), one.sn, now + 1) for row, (one, _) in self.waiting.items()]
        self._staged = [*self._mappings.joined, *late]
        self.view.stage(self._user, now, self._staged)
        return self.view

    def came(self) -> list[Row]:
        """After the evaluation: which of the mappings that wait can be answered; the others wait on, not for ever."""
        misses = self.view.manager.view.misses
        self._open = {one.identity: one for one in self._mappings.joined if one.sn in misses}
        found = [row for row, (one, _) in self.waiting.items() if one.sn not in misses]
        left = {row: (one, n - 1) for row, (one, n) in self.waiting.items() if one.sn in misses}
        self.waiting = {row: (one, n) for row, (one, n) in left.items() if n > 0}
        self.lost += len(left) - len(self.waiting)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of what waits."""
        return self._mappings.variables

    @property
    def unanswered(self) -> int:
        """Mappings that have no answer yet, or were given up."""
        return len(self._open) + len(self.waiting) + self.lost


@dataclass(eq=False)
class WaitingQuery(FederatedQuery):
    """A query of which answers may come in later evaluations than those whose windows hold what they are made of."""

    late: int = 0
    """window mappings that were answered after they had left the windows"""

    def __post_init__(self) -> None:
        """The query without what the windows bind, which is filled in."""
        super().__post_init__()
        (service,) = self.query.outer_services
        context = self.query.context(service)
        taking = {piece.place for piece in context.pieces}
        rest = [e for n, e in enumerate(self.query.group) if n not in taking and n != context.levels[0].at]
        self._rest = " ".join(element.text for element in rest)
        head = Weaver(self.query.expression.head)
        head.copy(0, len(head.source), list(self._lineage.edits))
        self._head = self.query.expression.prologue.text + head.done().text

    def answers(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Answers:
        """Those of the windows, and then those that have waited."""
        found = super().answers(now, evaluator, functions)
        (view,) = self.services
        assert isinstance(view, WaitingView)
        rows = view.came()
        if not rows:
            return found
        self.late += len(rows)
        table = evaluator.find(self._of(view.names, rows, self.found[0]), functions)
        assert isinstance(table, Table)
        names, more = with_freshness(table, self._lineage, self.found)
        places = [names.index(name) for name in self.variables]
        both = [*found.pairs(), *((_chosen(answer, places), fresh) for answer, fresh in more.pairs())]
        return Answers.of(both)

    def news(self) -> Iterator[str]:
        """What a person should know at the end."""
        (view,) = self.services
        assert isinstance(view, WaitingView)
        if self.late:
            yield f"{self.late:,} events were answered after they had left their windows, when what they need had come"
        if lost := view.unanswered:
            yield (
                f"{lost:,} events were not answered: what they need did not come in {PATIENCE} evaluations, or before "
                "the streams ended; a larger --budget or --bank fetches it sooner"
            )

    def _of(self, variables: Sequence[str], rows: Iterable[Row], service: ServiceRows) -> str:
        """The text over what the windows bound, in the place of the windows."""
        names = " ".join(f"?{name}" for name in variables)
        values = " ".join(f"({' '.join(_terms(row[: len(variables)]))})" for row in rows)
        where = f"{{ VALUES ({names}) {{ {values} }} {service.text(0)} {self._rest} }}"
        return sound(f"{self._head}\nWHERE {where}\n{self.query.expression.tail}")


def _terms(row: Row) -> Iterator[str]:
    return ("UNDEF" if term is None else written(term) for term in row)


def _chosen(answer: object, places: Sequence[int]) -> Row:
    assert isinstance(answer, tuple)
    return tuple(answer[n] for n in places)
