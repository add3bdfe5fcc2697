"""The answers of a query with SERVICE patterns: their solutions take the place of the blocks, the rest is SPARQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.engine.construct import Template
from freshkeeper.maintenance.engine.evaluator import Evaluator, Function, Snapshot, Table
from freshkeeper.maintenance.engine.local_query import fill
from freshkeeper.maintenance.engine.r2s import Answer, Answers, Freshness, combine
from freshkeeper.maintenance.engine.service_join.answer_freshness import with_freshness
from freshkeeper.maintenance.engine.service_join.lineage import trace
from freshkeeper.maintenance.engine.service_join.service_solutions import Service
from freshkeeper.maintenance.engine.service_join.values import HIDDEN, ServiceRows
from freshkeeper.maintenance.fetching.asking import Asking
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.one_order import in_one_order
from freshkeeper.maintenance.query.service_patterns import outermost, services_in
from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.query.syntax.reading import read_query
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tokens import tokenize
from freshkeeper.maintenance.query.syntax.tree import Source


@dataclass(eq=False)
class FederatedQuery:
    """A query over its dataset and its SERVICE patterns, which are asked at the same time."""

    query: Query
    services: Sequence[Service]
    variables: tuple[str, ...] = ()
    errors: int = 0
    found: Sequence[ServiceRows] = ()
    """what the services answered last"""
    one_order: bool = False
    """whether its aggregates are made in the order in which the native evaluator makes them"""
    _template: Template | None = field(init=False)

    def __post_init__(self) -> None:
        """What becomes of the query's head, and of what it constructs."""
        self._lineage = trace(self.query)
        self._template = Template.of(self.query)
        starts = (service.block.group.start + 1 for service in self.query.outer_services)
        numbers = [Edit(start, start, f"#{n}\n") for n, start in enumerate(starts)]
        text = sound(self.query.rewrite(*self._lineage.edits, *numbers).text)
        text = in_one_order(text) if self.one_order else text
        self._tree = read_query(Source(tokenize(text), self.query.expression.prologue))

    def prepare(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> list[Asking]:
        """What the services need of their sources."""
        return [service.prepare(now, evaluator, functions) for service in self.services]

    def answers(self, now: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> Answers:
        """All of this instant, each with the freshness of the copies that it is made of."""
        self.found = found = [service.rows(now) for service in self.services]
        self.errors = sum(service.errors for service in self.services)
        table = evaluator.find(self._text(found), functions)
        assert isinstance(table, Table)
        self.variables, answers = with_freshness(table, self._lineage, found)
        if self.query.form is Form.ASK:
            return Answers.of([_verdict(answers.freshness or (), found)])
        return answers

    def names(self, variables: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """What it shows, in the order of the SPARQL library, where its services give these variables."""
        table = Snapshot().find(self._text([ServiceRows(each, [], [], []) for each in variables]), {})
        assert isinstance(table, Table)
        return tuple(name for name in table.variables if not name.startswith(HIDDEN))

    def rebuild(self, now: int, done: int, evaluator: Evaluator, functions: Mapping[str, Function]) -> list[Asking]:
        """An instant that an earlier run answered."""
        found = [service.rebuild(now, done, evaluator, functions) for service in self.services]
        return [asking for asking in found if asking is not None]

    def leave(self) -> None:
        """Views that others have as well need nothing for this one any more."""
        for service in self.services:
            service.leave()

    def emit(self, streamed: Answers) -> Answers:
        """Triples, in place of the solutions of CONSTRUCT."""
        return streamed if self._template is None else fill(self._template, self.variables, streamed)

    def _text(self, found: Sequence[ServiceRows]) -> str:
        """The text that is evaluated; what SPARQL's library needs may have changed the order of the blocks."""
        blocks = [service.block for service in outermost(services_in(self._tree))]
        numbers = [int(block.group.text[2:].partition("\n")[0]) for block in blocks]
        return self._tree.edited([Edit(b.start, b.end, found[n].text(n)) for b, n in zip(blocks, numbers, strict=True)])


def _verdict(found: Sequence[Freshness], services: Sequence[ServiceRows]) -> tuple[Answer, Freshness]:
    """Yes is as sure as the surest solution; no is as sure as all that was looked at."""
    if found:
        return True, max(found, key=lambda freshness: freshness.probability)
    return False, combine(service.least for service in services)
