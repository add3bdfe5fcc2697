"""Answers of a query without SERVICE: its own dataset is enough."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.construct import ConstructTemplate, solutions_text
from freshkeeper.maintenance.engine.evaluator import Table
from freshkeeper.maintenance.engine.r2s import Answer, AnswerBag, Freshness
from freshkeeper.maintenance.engine.window_dataset import WindowDataset
from freshkeeper.maintenance.fetching.fetch_jobs import FetchJob
from freshkeeper.maintenance.query.aggregation_order import order_aggregates
from freshkeeper.maintenance.query.model import Form, Operator, Query
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph


@dataclass(eq=False)
class LocalQuery:
    """Evaluates the query as SPARQL over its dataset; CONSTRUCT by solutions where R2S compares them."""

    query: Query
    dataset: WindowDataset
    variables: tuple[str, ...] = ()
    errors: int = 0
    ordered_aggregation: bool = False
    """aggregate in the order in which the native evaluator aggregates"""
    _template: ConstructTemplate | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.ordered_aggregation:
            self._text = order_aggregates(rewrite_for_pyoxigraph(self.query.sparql))
        else:
            self._text = rewrite_for_pyoxigraph(self.query.sparql)
        if self.query.form is Form.CONSTRUCT and self.query.operator is not Operator.RSTREAM:
            solutions = solutions_text(self.query)
            self._template = ConstructTemplate.of(self.query) if solutions else None
            if solutions and self._template:
                self._text = rewrite_for_pyoxigraph(solutions)

    def prepare(self, _: int) -> Sequence[FetchJob]:
        """Return no fetch jobs: there is no SERVICE."""
        return ()

    def answers(self, now: int) -> AnswerBag:
        found = self.dataset.find(self._text, now)
        if isinstance(found, Table):
            self.variables = found.variables
            return AnswerBag(found.rows)
        return AnswerBag([found] if isinstance(found, bool) else found)

    def rebuild(self, _now: int, _done: int) -> Sequence[FetchJob]:
        """Return no fetch jobs: the dataset is the only state."""
        return ()

    def leave(self) -> None:
        """Do nothing: nothing is shared."""

    def emit(self, streamed: AnswerBag) -> AnswerBag:
        if self._template is None:
            return streamed
        return fill_template(self._template, self.variables, streamed)


def fill_template(template: ConstructTemplate, variables: Sequence[str], streamed: AnswerBag) -> AnswerBag:
    """Return the triples of some solutions, each once, with its best freshness."""
    triples: dict[Answer, Freshness] = {}
    for answer, freshness in streamed.pairs():
        for triple in template.fill(variables, answer if isinstance(answer, tuple) else ()):
            known = triples.get(triple)
            if known is None or known.probability < freshness.probability:
                triples[triple] = freshness
    if streamed.freshness is None:
        return AnswerBag(list(triples))
    return AnswerBag.of(triples.items())
