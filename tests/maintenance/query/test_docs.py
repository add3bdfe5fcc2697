"""Every example of docs/query-language.md is a query, and every error it shows is the one that is raised."""

import re
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Triple

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.query.parser import DIALECTS, detect_dialect, parse
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.tokens import tokenize
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.sources.sources import EmbeddedSource, Source
from freshkeeper.maintenance.sources.transport import Transport
from freshkeeper.maintenance.streams.batch import Elements
from freshkeeper.policies.registry import make

TEXT = (Path(__file__).parents[3] / "docs" / "query-language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(rf"^```({'|'.join(DIALECTS)})\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
WRONG = re.findall(r"^```rspql-wrong\n(.*?)^```\n\n```text\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("dialect", "text"), BLOCKS, ids=[f"{d}-{n}" for n, (d, _) in enumerate(BLOCKS, 1)])
def test_an_example_is_a_query_of_its_dialect(dialect: str, text: str) -> None:
    assert parse(text, dialect)
    assert detect_dialect(tokenize(text)) is DIALECTS[dialect]


@pytest.mark.parametrize(("dialect", "text"), BLOCKS, ids=[f"{d}-{n}" for n, (d, _) in enumerate(BLOCKS, 1)])
def test_an_example_runs(dialect: str, text: str) -> None:
    query = parse(text, dialect)
    node = NamedNode("http://example.org/p")
    start = max((window.t0 or 0 for window in query.windows), default=0)
    elements = [(start + at, Triple(node, node, node)) for at in (0, 3_600_000)]
    streams = {window.stream: Elements(elements) for window in query.windows}
    graphs = dict.fromkeys((*query.dataset.default_graphs, *query.dataset.named_graphs), ())
    sources = {str(service.endpoint): Source(Transport.in_process(EmbeddedSource([]))) for service in query.services}
    settings = MaintenanceSettings(lambda _: make("lru"), BudgetRule.of(1), fetch=Fetch.ALWAYS)
    assert list(run(build(query, graphs, sources=sources, settings=settings), streams))


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_an_error_is_the_one_that_is_shown(text: str, message: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert f"{caught.value}\n" == message


def test_there_are_examples_of_every_dialect() -> None:
    assert {dialect for dialect, _ in BLOCKS} == {*DIALECTS}
    assert len(WRONG) == 2
