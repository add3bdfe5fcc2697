"""Continuous queries over a SPARQL server: the same answers as over a source in this process, in time when it fails."""

import time

import pytest
from pyoxigraph import NamedNode, Quad, RdfFormat, parse
from servers import BLOG, MakeProxy, Oxigraph
from terms import rows_of

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.query.parser import parse as read_query
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.sources.source_config import config_of
from freshkeeper.maintenance.sources.sources import EmbeddedSource, Source, source_of
from freshkeeper.maintenance.sources.transport import Transport
from freshkeeper.maintenance.streams.batch import Elements
from freshkeeper.policies.registry import make

E = "http://example.org/"
STEP, MARGIN = 300, 0.5
"""Milliseconds: the step of the query; and seconds: what the machine may add."""
TOPICS = ["jazz", "rock", "jazz", "none"]
WINDOW = "FROM NAMED WINDOW :w ON :s [RANGE %dms STEP %dms]"
SPLIT = "SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n }"
WHOLE = "SERVICE :blog { ?u :followers ?n }"


def answers(
    source: Source, service: str, fetch: str, budget: int = 100, step: int = STEP, speed: int = 1
) -> list[tuple[list[str], float]]:
    """Per evaluation the answers, and the seconds that it took."""
    text = (
        f"PREFIX : <{E}> SELECT * {WINDOW % (2 * step, step)} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {service} }}"
    )
    settings = MaintenanceSettings(lambda _: make("lru"), BudgetRule.of(budget), fetch=Fetch(fetch), speed=speed)
    query = build(read_query(text), sources={f"{E}blog": source}, settings=settings)
    posts = [
        (n * step, Quad(NamedNode(f"{E}post{n}"), NamedNode(f"{E}topic"), NamedNode(E + topic)))
        for n, topic in enumerate(TOPICS, 1)
    ]
    found, before = [], time.monotonic()
    for result in run(query, {f"{E}s": Elements(posts)}):
        names = result.variables
        found.append(
            (sorted(str(dict(zip(names, row, strict=True))) for row in rows_of(result)), time.monotonic() - before)
        )
        before = time.monotonic()
    source.transport.close()
    return found


def remote(url: str, **more: object) -> Source:
    return source_of(config_of({"sparql": url, "volatile": f"{E}followers", **more}, "test"))


def inside() -> Source:
    data = [Quad(*quad) for quad in parse(BLOG, format=RdfFormat.TURTLE)]
    return Source(Transport.in_process(EmbeddedSource(data)), (f"{E}followers",))


@pytest.mark.parametrize(
    ("service", "fetch"), [(SPLIT, "view"), (SPLIT, "always"), (SPLIT, "once"), (WHOLE, "always"), (WHOLE, "once")]
)
def test_answers_are_those_of_the_same_data_in_this_process(service: str, fetch: str, oxigraph: Oxigraph) -> None:
    over_http = [found for found, _ in answers(remote(oxigraph.url), service, fetch)]
    assert any(over_http)
    assert over_http == [found for found, _ in answers(inside(), service, fetch)]


@pytest.mark.parametrize("fault", ["stall", "broken", "html"])
@pytest.mark.parametrize(("service", "fetch"), [(SPLIT, "view"), (SPLIT, "always"), (WHOLE, "always")])
def test_a_source_that_fails_delays_no_evaluation_beyond_its_step(
    service: str, fetch: str, fault: str, proxied: MakeProxy
) -> None:
    proxy = proxied(fault)
    found = answers(remote(proxy.url, retries=0, timeout="2s", concurrency=4), service, fetch)
    assert len(found) == 4
    assert max(taken for _, taken in found) < STEP / 1000 + MARGIN, "the request itself may take six steps"


def test_a_replay_that_is_faster_than_the_clock_waits_less(proxied: MakeProxy) -> None:
    source = remote(proxied("stall").url, retries=0, timeout="5s", concurrency=8)
    found = answers(source, SPLIT, "view", step=2000, speed=20)
    assert max(taken for _, taken in found) < 2 / 20 + MARGIN


def test_a_source_that_fails_in_silence_leaves_the_rest_of_the_answer(proxied: MakeProxy) -> None:
    proxy = proxied("broken")
    silent = WHOLE.replace("SERVICE", "SERVICE SILENT")
    found = [found for found, _ in answers(remote(proxy.url, retries=0), silent, "always")]
    assert all(found)


def test_a_server_that_is_down_leaves_the_query_running() -> None:
    server = Oxigraph(BLOG)
    server.stop()
    assert [found for found, _ in answers(remote(server.url, retries=0), SPLIT, "view")] == [[], [], [], []]
