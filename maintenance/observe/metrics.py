"""Metrics in Prometheus' text format: counters and gauges of a running query.

`answers_expected_fresh / answers` over any span is the estimated freshness; `audited_answers{verdict="fresh"}` over the
audited ones is the measured one, and does not rely on the estimate.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.target_income import TargetIncome
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.target_news import daily
from freshkeeper.maintenance.fetching.fetch_errors import kind_of
from freshkeeper.maintenance.streams.live.feed import LinkStatus

Links = Callable[[], dict[str, LinkStatus]]
Started = Callable[[str, list[tuple[str, str]]], object]
PATHS = ("/metrics", "/healthz", "/readyz")


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *values: object) -> None:
        """Suppress the access log."""


class MetricsServer:
    """A server in a thread of its own, until it is closed."""

    def __init__(self, registry: CollectorRegistry, links: Links, port: int, address: str) -> None:
        self._registry = registry
        self._links = links
        try:
            self._server: WSGIServer = make_server(address, port, self._answer, handler_class=_Quiet)
        except OSError as error:
            raise ConfigError(f"metrics cannot be served at {address}:{port}: {error.strerror}") from None
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is open, also if any free one was requested."""
        return int(self._server.server_port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: dict[str, object], start: Started) -> Iterable[bytes]:
        status, kind, body = self._response(str(request["PATH_INFO"]), str(request["REQUEST_METHOD"]))
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        if request["REQUEST_METHOD"] == "HEAD":
            return [b""]
        return [body]

    def _response(self, path: str, method: str) -> tuple[str, str, bytes]:
        plain = "text/plain; charset=utf-8"
        if path not in PATHS:
            return "404 Not Found", plain, f"not found; the paths are {', '.join(PATHS)}\n".encode()
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", plain, b"use GET\n"
        if path == "/metrics":
            return "200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry)
        away = {name: one.failure or "not connected yet" for name, one in self._links().items() if not one.connected}
        if path == "/healthz" or not away:
            return "200 OK", "application/json", json.dumps({path[1:-1]: True}).encode()
        return "503 Service Unavailable", "application/json", json.dumps({"ready": False, "away": away}).encode()


SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LOOPBACK = "127.0.0.1"
REGULAR_EVERY = 20
REGULAR_SHOWN = 20
"""Evaluations between two updates of the entries that change by a clock, and how many have their period shown."""


@dataclass(eq=False)
class Metrics:
    """A registry of metrics for all sources of a run; `observe` takes every evaluation."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    _seen: dict[str, int] = field(default_factory=dict)
    """evaluations of each source"""
    _server: MetricsServer | None = None

    def __post_init__(self) -> None:
        self.evaluations = self._counter("evaluations", "evaluations done")
        self.answers = self._counter("answers", "answers, including those of entries missing from the view")
        self.expected = self._counter("answers_expected_fresh", "expected number of fresh answers")
        self.missed = self._counter("answers_missing", "answers left out because an entry was not fetched yet")
        self.marked = self._counter("answers_marked", "answers without the values of an entry not fetched yet")
        self.audited = self._counter("audited_answers", "answers fetched again to check them", "verdict")
        self.requests = self._counter("requests", "requests sent, retries included")
        self.spent = self._counter("spent", "cost units spent")
        self.refreshes = self._counter("refreshes", "copies fetched again", "outcome")
        self.errors = self._counter("errors", "entries that could not be fetched", "kind")
        self.lookups = self._gauge("lookups", "rows requested, by cache hit or miss", "outcome")
        self.measured = self._gauge("measured_fresh_ratio", "share of audited answers that were fresh")
        self.low = self._gauge("measured_fresh_ratio_low", "lower end of its 95 % interval")
        self.high = self._gauge("measured_fresh_ratio_high", "upper end of its 95 % interval")
        self.misses = self._gauge("misses", "entries that the windows need and the view lacks")
        self.pay = self._gauge("budget_per_evaluation", "cost units granted to the next evaluation by a target")
        self.target = self._gauge("target_fresh_ratio", "share of answers that should be fresh")
        self.believed = self._gauge("believed_fresh_ratio", "share of fresh answers, as estimated for a target")
        self.daily = self._gauge("spent_per_day", "cost units per day that a target takes at the rate so far")
        self.budget_left = self._gauge("budget_left", "cost units left by the last evaluation")
        self.entries = self._gauge("view_entries", "entries in the view")
        self.regular = self._gauge("regular_entries", "entries believed to change by a clock")
        self.period = Gauge(
            "regular_period_seconds",
            "period of the entries most likely to change by a clock",
            ("source", "entry"),
            "freshkeeper",
            registry=self.registry,
        )
        self.failed_rounds = self._counter("failed_rounds", "evaluations whose policy failed: they refreshed nothing")
        self.of_policy = self._gauge("policy", "numbers that a policy tells of itself", "name")
        self.candidates = self._gauge("candidates", "entries that the windows need")
        self.last = self._gauge("last_evaluation_seconds", "event time of the last evaluation, since 1970")
        self.decide = self._histogram("decide_seconds", "time to choose what to fetch")
        self.fetch = self._histogram("fetch_seconds", "time to fetch it")

    def observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        record = evaluation.record
        refreshes = evaluation.refreshes
        self.evaluations.labels(source).inc()
        self.answers.labels(source).inc(record.results)
        self.expected.labels(source).inc(record.expected_fresh)
        self.missed.labels(source).inc(record.missed)
        self.marked.labels(source).inc(record.marked)
        self.requests.labels(source).inc(refreshes.requests)
        self.spent.labels(source).inc(record.spent)
        for changed, error in zip(refreshes.changed.tolist(), refreshes.errors, strict=True):
            outcome = "changed" if changed else "unchanged"
            if error is not None:
                outcome = "failed"
                self.errors.labels(source, kind_of(error)).inc()
            self.refreshes.labels(source, outcome).inc()
        self.failed_rounds.labels(source).inc(bool(manager.runner.error))
        for name, value in evaluation.policy_metrics.items():
            self.of_policy.labels(source, name).set(value)
        self.misses.labels(source).set(len(manager.view.misses))
        self.budget_left.labels(source).set(record.carried)
        self.entries.labels(source).set(len(manager.view.srs) - len(manager.view.misses))
        self.candidates.labels(source).set(record.candidates)
        self.last.labels(source).set(record.t_ms / 1000)
        self.decide.labels(source).observe(record.decide_us / 1e6)
        self.fetch.labels(source).observe(record.fetch_ms / 1e3)
        self._clocks(source, manager)
        self._control(source, manager)
        self._audits(source, manager, evaluation)

    def looked_up(self, source: str, hits: int, misses: int) -> None:
        """Set the numbers of rows requested from an enricher so far."""
        self.lookups.labels(source, "hit").set(hits)
        self.lookups.labels(source, "miss").set(misses)

    def serve(self, port: int, address: str = LOOPBACK, links: Links = dict) -> int:
        """Serve http://ADDRESS:PORT/metrics until `close`, and return the port; port 0 chooses a free one.

        `links` returns the connections of streams.
        """
        self._server = MetricsServer(self.registry, links, port, address)
        self.registry.register(StreamMetrics(links))
        return self._server.port

    def close(self) -> None:
        """Close the port, if there is one; counting continues."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _clocks(self, source: str, manager: Manager) -> None:
        """Update the entries believed to be regular; only now and then, because all entries are examined."""
        self._seen[source] = self._seen.get(source, 0) + 1
        if self._seen[source] % REGULAR_EVERY:
            return
        entries = manager.regular()
        self.regular.labels(source).set(len(entries))
        self.period.remove_by_labels({"source": source})
        for entry in entries[:REGULAR_SHOWN]:
            self.period.labels(source, str(entry.key)).set(entry.period_ms / 1000)

    def _control(self, source: str, manager: Manager) -> None:
        """Set the gauges of a freshness target, if there is one."""
        if not isinstance(manager.ledger.income, TargetIncome):
            return
        control = manager.ledger.income.controller
        day = daily(manager)
        self.target.labels(source).set(control.target)
        self.pay.labels(source).set(float(control.pay))
        if control.freshness is not None:
            self.believed.labels(source).set(control.freshness)
        if day is not None:
            self.daily.labels(source).set(day)

    def _audits(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        if manager.auditor is None:
            return
        for audit in evaluation.audits:
            verdict = "fresh" if audit.fresh else "stale"
            if audit.fresh is None:
                verdict = "unknown"
            self.audited.labels(source, verdict).inc()
        measured = manager.auditor.measured
        if measured.share is not None:
            self.measured.labels(source).set(measured.share)
            low, high = measured.interval
            self.low.labels(source).set(low)
            self.high.labels(source).set(high)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(name, help, ("source", *labels), "freshkeeper", registry=self.registry)

    def _gauge(self, name: str, help: str, *labels: str) -> Gauge:
        return Gauge(name, help, ("source", *labels), "freshkeeper", registry=self.registry)

    def _histogram(self, name: str, help: str) -> Histogram:
        return Histogram(name, help, ("source",), "freshkeeper", registry=self.registry, buckets=SECONDS)


def address_of(written: str, option: str = "--metrics") -> tuple[str, int]:
    """Return host and port of `:9100`, `9100` or `0.0.0.0:9100`; the default host accepts only local connections."""
    host, _, port = written.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{option} {written}: give a port, as :9100, or HOST:PORT")
    return host or LOOPBACK, int(port)


class StreamMetrics(Collector):
    """A collector that reads the state of connections when Prometheus scrapes."""

    def __init__(self, links: Callable[[], dict[str, LinkStatus]]) -> None:
        self._links = links

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("freshkeeper_stream_connected", "whether a stream is connected", labels=["stream"])
        again = CounterMetricFamily("freshkeeper_stream_reconnects", "reconnections", labels=["stream"])
        gaps = CounterMetricFamily("freshkeeper_stream_gaps", "gaps, where data may be missing", labels=["stream"])
        for name, link in self._links().items():
            up.add_metric([name], link.connected)
            again.add_metric([name], link.reconnects)
            gaps.add_metric([name], link.gaps)
        yield from (up, again, gaps)
