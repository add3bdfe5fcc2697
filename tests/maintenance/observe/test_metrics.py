"""What a monitoring system is told adds up to what happened."""

import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from urllib.request import urlopen

import httpx
import pytest

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.evaluation import Record
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.fetching.endpoint import Copy, Fetched, Key
from freshkeeper.maintenance.fetching.fetch_errors import kind_of
from freshkeeper.maintenance.observe import logs
from freshkeeper.maintenance.observe.metrics import Metrics, address_of
from freshkeeper.maintenance.sources.memory import InMemory
from freshkeeper.maintenance.streams.live.feed import LinkStatus
from freshkeeper.policies.registry import make


class Flaky(InMemory):
    """Fails for some keys."""

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        fetched = super().fetch(keys, now)
        copies = [
            Copy(error="timeout: no answer within 1 s") if int(str(key)) % 7 == 0 else copy
            for key, copy in zip(keys, fetched.copies, strict=True)
        ]
        return Fetched(copies, fetched.spent, fetched.requests)


def run(*observers: Callable[..., object]) -> tuple[Flaky, Manager, list[Record]]:
    source = Flaky({n: [n, n + 1] for n in range(20)}, dict.fromkeys(range(21), 0))
    manager = Manager(WindowSpec(3000, 1000), source, make("lru"), BudgetRule.of(6), Learned(), audit=0.2)
    records = []
    for k in range(1, 41):
        evaluation = manager.evaluate(1000 * k, [(1000 * k, (3 * k + n) % 20) for n in range(8)])
        records.append(evaluation.record)
        for observe in observers:
            observe("http://example.org/blog", manager, evaluation)
    return source, manager, records


@pytest.fixture
def served() -> Iterator[tuple[Metrics, int]]:
    metrics = Metrics()
    port = metrics.serve(0)
    yield metrics, port
    metrics.close()


def scraped(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_the_numbers_are_those_of_the_ledger_and_the_source(served: tuple[Metrics, int]) -> None:
    metrics, port = served
    source, manager, records = run(metrics.observe)
    told = scraped(port)
    own = '{source="http://example.org/blog"}'
    assert told[f"freshkeeper_evaluations_total{own}"] == 40
    assert told[f"freshkeeper_requests_total{own}"] == source.requests
    assert told[f"freshkeeper_spent_total{own}"] == manager.ledger.spent == sum(record.spent for record in records)
    assert told[f"freshkeeper_answers_total{own}"] == pytest.approx(sum(record.results for record in records))
    assert told[f"freshkeeper_answers_expected_fresh_total{own}"] == pytest.approx(
        sum(record.expected_fresh for record in records)
    )
    failed = sum(record.errors for record in records)
    assert told['freshkeeper_errors_total{kind="timeout",source="http://example.org/blog"}'] == failed > 0
    checked = [v for name, v in told.items() if name.startswith("freshkeeper_audited_answers_total")]
    assert manager.auditor is not None
    assert sum(checked) == manager.auditor.measured.checked + manager.auditor.measured.unknown
    assert told[f"freshkeeper_measured_fresh_ratio{own}"] == manager.auditor.measured.share
    assert told[f"freshkeeper_misses{own}"] == len(manager.view.misses)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/metrics", 200), ("/healthz", 200), ("/readyz", 200), ("/", 404), ("/metrics/", 404), ("/favicon.ico", 404)],
)
def test_only_what_is_there_answers(served: tuple[Metrics, int], path: str, status: int) -> None:
    with httpx.Client() as client:
        assert client.get(f"http://127.0.0.1:{served[1]}{path}").status_code == status
        assert client.post(f"http://127.0.0.1:{served[1]}{path}").status_code == (405 if status == 200 else 404)


def test_a_run_is_not_ready_while_a_stream_is_away() -> None:
    links = {"urn:s": LinkStatus(connected=True), "urn:r": LinkStatus(failure="refused", gaps=2)}
    metrics = Metrics()
    port = metrics.serve(0, links=lambda: links)
    try:
        told = scraped(port)
        assert told['freshkeeper_stream_connected{stream="urn:s"}'] == 1
        assert told['freshkeeper_stream_gaps_total{stream="urn:r"}'] == 2
        away = httpx.get(f"http://127.0.0.1:{port}/readyz")
        assert (away.status_code, away.json()) == (503, {"ready": False, "away": {"urn:r": "refused"}})
    finally:
        metrics.close()


def test_a_port_that_is_taken_is_said(served: tuple[Metrics, int]) -> None:
    _, port = served
    with pytest.raises(ConfigError, match=f"metrics cannot be served at 127.0.0.1:{port}"):
        Metrics().serve(port)


@pytest.mark.parametrize(
    ("written", "address"),
    [(":9100", ("127.0.0.1", 9100)), ("9100", ("127.0.0.1", 9100)), ("0.0.0.0:80", ("0.0.0.0", 80))],
)
def test_an_address_is_a_port_with_or_without_a_host(written: str, address: tuple[str, int]) -> None:
    assert address_of(written) == address


@pytest.mark.parametrize("written", ["", "metrics", "host:", ":70000"])
def test_what_is_no_port_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="give a port"):
        address_of(written)


@pytest.fixture
def log_as_before() -> Iterator[None]:
    """What a log sets of the loggers ends with the test: commands tell mistakes on standard error again."""
    ours, root = logs.LOGGER, logging.getLogger()
    handlers, propagate, level, others = ours.handlers, ours.propagate, ours.level, root.handlers
    yield
    ours.handlers, ours.propagate, root.handlers = handlers, propagate, others
    ours.setLevel(level)


@pytest.mark.usefixtures("log_as_before")
def test_logs_are_json_with_every_failure_by_kind() -> None:
    stream = io.StringIO()
    logs.start("debug", stream)
    _, _, records = run(logs.observe)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert sum(line["event"] == "evaluation" for line in lines) == 40
    failed = [line for line in lines if line["event"] == "fetch failed"]
    assert {line["kind"] for line in failed} == {"timeout"}
    assert sum(line["count"] for line in failed) == sum(record.errors for record in records)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ConfigError, match="debug, info, warning or error"):
        logs.start("loud")


def test_errors_of_no_known_kind_are_other() -> None:
    assert kind_of("something: odd") == "other"
    assert kind_of("limited: 429, retry after 3 s") == "limited"
