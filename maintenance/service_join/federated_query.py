"""The answers of a query with SERVICE patterns: their solutions take the place of the blocks, the rest is SPARQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.query.federation.service_patterns import find_services
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.rsp.construct import Template
from freshkeeper.maintenance.rsp.evaluator import Evaluator, Function, Table
from freshkeeper.maintenance.rsp.local_query import fill
from freshkeeper.maintenance.rsp.r2s import Answer, Answers, Freshness, combine
from freshkeeper.maintenance.service_join.answer_freshness import settle
from freshkeeper.maintenance.service_join.lineage import trace
from freshkeeper.maintenance.service_join.service_solutions import Service
from freshkeeper.maintenance.service_join.values import ServiceRows


@dataclass(eq=False)
class FederatedQuery:
    """A query over its dataset and its SERVICE patterns, which are asked in the order of the text."""

    query: Query
    functions: Mapping[str, Function]
    services: Sequence[Service]
    variables: tuple[str, ...] = ()
    errors: int = 0
    _template: Template | None = field(init=False)

    def __post_init__(self) -> None:
        """Cut the text where the SERVICE blocks stand."""
        self._traced = trace(self.query)
        self._template = Template.of(self.query)
        text, at, self._pieces = sound(self._traced.sparql), 0, list[str]()
        for service in find_services(text, self.query.expression.prologue):
            if service.span[0] >= at:
                self._pieces.append(text[at : service.span[0]])
                at = service.span[1]
        self._pieces.append(text[at:])

    def answers(self, now: int, evaluator: Evaluator) -> Answers:
        """All of this instant, each with the freshness of the copies that it is made of."""
        found = [service.rows(now, evaluator, self.functions) for service in self.services]
        self.errors = sum(service.errors for service in self.services)
        table = evaluator.find(self._text(found), self.functions)
        assert isinstance(table, Table)
        self.variables, answers = settle(table, self._traced, found)
        if self.query.form is Form.ASK:
            return Answers.of([_verdict(answers.freshness or (), found)])
        return answers

    def rebuild(self, now: int, evaluator: Evaluator) -> None:
        """An instant that an earlier run answered."""
        for service in self.services:
            service.rebuild(now, evaluator, self.functions)

    def emit(self, streamed: Answers) -> Answers:
        """Triples, in place of the solutions of CONSTRUCT."""
        return streamed if self._template is None else fill(self._template, self.variables, streamed)

    def _text(self, found: Sequence[ServiceRows]) -> str:
        parts = [self._pieces[0]]
        for number, (rows, piece) in enumerate(zip(found, self._pieces[1:], strict=True)):
            parts += [rows.text(number), piece]
        return "".join(parts)


def _verdict(found: Sequence[Freshness], services: Sequence[ServiceRows]) -> tuple[Answer, Freshness]:
    """Yes is as sure as the surest solution; no is as sure as all that was looked at."""
    if found:
        return True, max(found, key=lambda freshness: freshness.probability)
    return False, combine(service.least for service in services)
