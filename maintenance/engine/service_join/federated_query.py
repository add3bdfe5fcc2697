"""Answers of a query with SERVICE patterns: their solutions replace the blocks, the rest is plain SPARQL."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.construct import ConstructTemplate
from freshkeeper.maintenance.engine.evaluator import Snapshot, Table
from freshkeeper.maintenance.engine.r2s import Answer, AnswerBag, Freshness, combine_freshness
from freshkeeper.maintenance.engine.service_join.answer_freshness import with_freshness
from freshkeeper.maintenance.engine.service_join.lineage import trace
from freshkeeper.maintenance.engine.service_join.service_rows import HIDDEN_PREFIX, ServiceRows, ServiceSolver
from freshkeeper.maintenance.engine.snapshot import WindowDataset, fill_template
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.query.row_order import order_aggregates
from freshkeeper.maintenance.query.service_patterns import outermost, services_in
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.source_text import SourceText
from freshkeeper.maintenance.query.syntax.tokens import tokenize


@dataclass(eq=False)
class FederatedQuery:
    """A query over its dataset and its SERVICE patterns, whose sources are queried concurrently."""

    query: Query
    services: Sequence[ServiceSolver]
    dataset: WindowDataset | None = None
    """None if only `names` is used"""
    variables: tuple[str, ...] = ()
    errors: int = 0
    service_rows: Sequence[ServiceRows] = ()
    """the solutions of the SERVICE patterns at the last evaluation"""
    ordered_aggregation: bool = False
    """aggregate in the order in which the native evaluator aggregates"""
    _template: ConstructTemplate | None = field(init=False)

    def __post_init__(self) -> None:
        """Rewrite the query once; each evaluation only inserts the solutions of the SERVICE patterns."""
        self._lineage = trace(self.query)
        self._template = ConstructTemplate.of(self.query)
        starts = (service.block.group.start + 1 for service in self.query.outer_services)
        # Number the blocks with a comment, because the rewrites below may reorder them.
        numbers = [Edit(start, start, f"#{n}\n") for n, start in enumerate(starts)]
        text = rewrite_for_pyoxigraph(self.query.rewrite(*self._lineage.edits, *numbers).text)
        text = order_aggregates(text) if self.ordered_aggregation else text
        self._tree = read_query(SourceText(tokenize(text), self.query.expression.prologue))

    def prepare(self, now: int) -> list[FetchJob]:
        return [service.prepare(now) for service in self.services]

    def answers(self, now: int) -> AnswerBag:
        self.service_rows = found = [service.rows(now) for service in self.services]
        self.errors = sum(service.errors for service in self.services)
        assert self.dataset is not None
        table = self.dataset.find(self._text(found), now)
        assert isinstance(table, Table)
        self.variables, answers = with_freshness(table, self._lineage, found)
        if self.query.form is Form.ASK:
            return AnswerBag.of([_verdict(answers.freshness or (), found)])
        return answers

    def names(self, variables: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """Return the visible variables in pyoxigraph's order, if the SERVICE patterns bind these variables."""
        table = Snapshot().find(self._text([ServiceRows(each, [], [], []) for each in variables]), {})
        assert isinstance(table, Table)
        return tuple(name for name in table.variables if not name.startswith(HIDDEN_PREFIX))

    def rebuild(self, now: int, done: int) -> list[FetchJob]:
        found = [service.rebuild(now, done) for service in self.services]
        return [asking for asking in found if asking is not None]

    def leave(self) -> None:
        for service in self.services:
            service.leave()

    def emit(self, streamed: AnswerBag) -> AnswerBag:
        if self._template is None:
            return streamed
        return fill_template(self._template, self.variables, streamed)

    def _text(self, found: Sequence[ServiceRows]) -> str:
        """Return the query with the solutions of its SERVICE patterns in place of the blocks."""
        blocks = [service.block for service in outermost(services_in(self._tree))]
        numbers = [int(block.group.text[2:].partition("\n")[0]) for block in blocks]
        return self._tree.edited([Edit(b.start, b.end, found[n].text(n)) for b, n in zip(blocks, numbers, strict=True)])


def _verdict(found: Sequence[Freshness], services: Sequence[ServiceRows]) -> tuple[Answer, Freshness]:
    """Return the answer of ASK: true is as fresh as the freshest solution, false as fresh as all that was read."""
    if found:
        return True, max(found, key=lambda freshness: freshness.probability)
    return False, combine_freshness(service.least for service in services)
