"""What a monitoring system asks a running query for, in Prometheus' text format: counters that only grow, and gauges.

`answers_expected_fresh / answers` over any span is the estimated freshness; `audited_answers{verdict="fresh"}` over the
checked ones is the measured one, and needs no trust in the estimate.
"""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.cache.budget.target_income import TargetIncome
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.target_news import daily
from freshkeeper.maintenance.fetching.fetch_errors import kind_of
from freshkeeper.maintenance.observe.metrics_server import Links, MetricsServer
from freshkeeper.maintenance.observe.stream_numbers import StreamNumbers

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LOOPBACK = "127.0.0.1"
REGULAR_EVERY, REGULAR_SHOWN = 20, 20
"""After so many evaluations it is told which entries change by a clock, and of so many with which period."""


@dataclass(eq=False)
class Metrics:
    """One registry for all sources of a run; `observe` takes every evaluation."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    _seen: dict[str, int] = field(default_factory=dict)
    """evaluations of each source"""
    _server: MetricsServer | None = None

    def __post_init__(self) -> None:
        self.evaluations = self._counter("evaluations", "evaluations done")
        self.answers = self._counter("answers", "answers given, those of entries that the view lacks included")
        self.expected = self._counter("answers_expected_fresh", "answers that were fresh as far as is known")
        self.missed = self._counter("answers_missing", "answers not given because nothing was fetched for them yet")
        self.marked = self._counter("answers_marked", "answers given without what was not fetched for them yet")
        self.audited = self._counter("audited_answers", "answers fetched again to check them", "verdict")
        self.requests = self._counter("requests", "requests sent, retries included")
        self.spent = self._counter("spent", "cost units spent")
        self.refreshes = self._counter("refreshes", "copies fetched again", "outcome")
        self.errors = self._counter("errors", "entries that could not be fetched", "kind")
        self.lookups = self._gauge("lookups", "rows asked for, by whether they were there", "outcome")
        self.measured = self._gauge("measured_fresh_ratio", "share of audited answers that were fresh")
        self.low = self._gauge("measured_fresh_ratio_low", "lower end of its 95 % interval")
        self.high = self._gauge("measured_fresh_ratio_high", "upper end of its 95 % interval")
        self.misses = self._gauge("misses", "entries that the windows need and the view lacks")
        self.pay = self._gauge("budget_per_evaluation", "cost units that the next evaluation is paid towards a target")
        self.target = self._gauge("target_fresh_ratio", "the share of answers that is to be fresh")
        self.believed = self._gauge("believed_fresh_ratio", "what the controller of a target believes it is")
        self.daily = self._gauge("spent_per_day", "cost units a day that a target costs at the pace so far")
        self.budget_left = self._gauge("budget_left", "cost units that the last evaluation left")
        self.entries = self._gauge("view_entries", "entries that the view holds")
        self.regular = self._gauge("regular_entries", "entries that are believed to change by a clock")
        self.period = Gauge(
            "regular_period_seconds", "the period of the entries that are surest to change by a clock",
            ("source", "entry"), "freshkeeper", registry=self.registry,
        )  # fmt: skip
        self.candidates = self._gauge("candidates", "entries that the windows need")
        self.last = self._gauge("last_evaluation_seconds", "event time of the last evaluation, since 1970")
        self.decide = self._histogram("decide_seconds", "time to choose what to fetch")
        self.fetch = self._histogram("fetch_seconds", "time to fetch it")

    def observe(self, source: str, manager: Manager, evaluation: Evaluation) -> None:
        """One evaluation of one view."""
        record, refreshes = evaluation.record, evaluation.refreshes
        self.evaluations.labels(source).inc()
        self.answers.labels(source).inc(record.results)
        self.expected.labels(source).inc(record.expected_fresh)
        self.missed.labels(source).inc(record.missed)
        self.marked.labels(source).inc(record.marked)
        self.requests.labels(source).inc(refreshes.requests)
        self.spent.labels(source).inc(record.spent)
        for changed, error in zip(refreshes.changed.tolist(), refreshes.errors, strict=True):
            outcome = "failed" if error is not None else "changed" if changed else "unchanged"
            self.refreshes.labels(source, outcome).inc()
            if error is not None:
                self.errors.labels(source, kind_of(error)).inc()
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
        """How many rows an enricher was asked for so far."""
        self.lookups.labels(source, "hit").set(hits)
        self.lookups.labels(source, "miss").set(misses)

    def serve(self, port: int, address: str = LOOPBACK, links: Links = dict) -> int:
        """Answer at http://ADDRESS:PORT/metrics until `close`; port 0 is any free one. Returns the port.

        `links` says how the streams are connected.
        """
        self._server = MetricsServer(self.registry, links, port, address)
        self.registry.register(StreamNumbers(links))
        return self._server.port

    def close(self) -> None:
        """Give the port back, if there is one; counting goes on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _clocks(self, source: str, manager: Manager) -> None:
        """Which entries are believed to be regular, once in a while: it changes slowly and costs a look at all."""
        self._seen[source] = self._seen.get(source, 0) + 1
        if self._seen[source] % REGULAR_EVERY:
            return
        entries = manager.regular()
        self.regular.labels(source).set(len(entries))
        self.period.remove_by_labels({"source": source})
        for entry in entries[:REGULAR_SHOWN]:
            self.period.labels(source, str(entry.key)).set(entry.period_ms / 1000)

    def _control(self, source: str, manager: Manager) -> None:
        """Where a target is kept: what it is, what is believed, and what it costs."""
        if not isinstance(manager.ledger.income, TargetIncome):
            return
        control, day = manager.ledger.income.controller, daily(manager)
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
            verdict = "unknown" if audit.fresh is None else "fresh" if audit.fresh else "stale"
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
    """`:9100`, `9100` or `0.0.0.0:9100`; without a host only this machine can ask."""
    host, _, port = written.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{option} {written}: give a port, as :9100, or HOST:PORT")
    return host or LOOPBACK, int(port)
