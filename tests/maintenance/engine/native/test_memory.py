"""Endless new terms: what is kept of them is what windows hold (benchmarks/fresh_names.py measures memory itself)."""

from collections import Counter
from collections.abc import Iterator
from io import BytesIO, RawIOBase
from typing import cast

import pytest
from pyoxigraph import NamedNode, Triple
from terms import rows_of, text_of

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings, PolicyName
from freshkeeper.maintenance.engine.service_join.service_answers import NativeServiceAnswers
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.streams.timed_lines import TimedLines

TEXT = """REGISTER ISTREAM <urn:o> AS SELECT ?s ?t FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S]
{ WINDOW <urn:w> { ?s <urn:p> ?o . ?t <urn:p> ?o FILTER(?s != ?t) } }"""
SECOND, SECONDS = 2_000, 100


class FreshNames(RawIOBase):
    """Every second two names for each object, never seen before."""

    def __init__(self) -> None:
        """From the first second on."""
        self._parts = self._lines()

    def read1(self, size: int = -1, /) -> bytes:
        """The next second."""
        del size
        return next(self._parts, b"")

    def _lines(self) -> Iterator[bytes]:
        for second in range(SECONDS):
            numbers = range(second * SECOND, (second + 1) * SECOND)
            yield b"".join(b"%d\t<urn:n%d> <urn:p> <urn:o%d> .\n" % (second * 1000, n, n // 2) for n in numbers)


@pytest.mark.slow
def test_ids_of_names_that_nothing_holds_any_more_are_given_to_others() -> None:
    ids = Dictionary()
    engine = Engine([build(parse(TEXT), evaluator=EvaluatorKind.NATIVE, dictionary=ids)])
    engine.listen("urn:s", TimedLines("fresh names", lambda: cast(BytesIO, FreshNames())))
    widths, answers = [], 0
    for result in engine.run():
        widths.append(ids.width)
        answers += len(result.answers)
        assert all(row is not None for row in result.answers[:3])  # decoded after whatever was freed
    assert answers == SECOND * SECONDS
    assert ids.sweeps >= 3
    assert max(widths) == max(widths[: SECONDS // 2]) < SECOND * SECONDS / 3


TOPICS, AT_ONCE = 6_000, 100
BLOG = """REGISTER RSTREAM <urn:o> AS SELECT ?t ?u ?n FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S]
{ WINDOW <urn:w> { ?p <urn:topic> ?t } SERVICE <urn:blog> { ?t <urn:by> ?u . ?u <urn:fans> ?n } }"""


@pytest.mark.slow
def test_edges_of_keys_that_a_full_view_has_let_go_are_forgotten() -> None:
    facts = (f"<urn:t{n}> <urn:by> <urn:u{n % 999}> ." for n in range(TOPICS))
    users = (f"<urn:u{n}> <urn:fans> {n % 7} ." for n in range(999))
    source = Source.embedded("\n".join([*facts, *users]), volatile=["urn:fans"])
    settings = MaintenanceSettings(PolicyName("lru"), BudgetRule.of(1_000), capacity=500)
    query = build(parse(BLOG), sources={"urn:blog": source}, settings=settings, evaluator=EvaluatorKind.NATIVE)
    posts = (
        (10 * n, Triple(NamedNode(f"urn:p{n}"), NamedNode("urn:topic"), NamedNode(f"urn:t{n}"))) for n in range(TOPICS)
    )
    for result in run(query, {"urn:s": posts}):
        found = Counter((text_of(row[0]), text_of(row[1]), int(text_of(row[2]))) for row in rows_of(result))
        last = result.t // 10
        expected = range(max(0, last - 2 * AT_ONCE + 1), min(last + 1, TOPICS))
        assert found == Counter((f"urn:t{n}", f"urn:u{n % 999}", n % 999 % 7) for n in expected)
    (service,) = cast(NativeServiceAnswers, query.answering).services
    assert max(service.columns.edges.start.size, service.columns.edges.rows.shape[1]) < TOPICS / 2
