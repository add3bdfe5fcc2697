"""Prometheus metrics of a service beside those of its views: the numbers of `Status`."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from freshkeeper.maintenance.serve.service import QueryService
from freshkeeper.maintenance.serve.service_status import Status

STATES = ("running", "paused", "failed")
BREAKER = {"closed": 0, "probing": 1, "open": 2}


class ServiceNumbers(Collector):
    """Collects the metrics of a service when Prometheus asks."""

    def __init__(self, service: QueryService, status: Status) -> None:
        self._service, self._status = service, status

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics with their current values."""
        status = self._status.as_json(self._service)
        states = GaugeMetricFamily("freshkeeper_queries", "registered queries by state", labels=["state"])
        for state in STATES:
            states.add_metric([state], sum(one["state"] == state for one in status["queries"]))
        yield states
        lag = GaugeMetricFamily(
            "freshkeeper_lag_seconds", "how far the answers of a query are behind its streams", labels=["query"]
        )
        for one in status["queries"]:
            if one["lag_ms"] is not None:
                lag.add_metric([one["name"]], one["lag_ms"] / 1000)
        yield lag
        elements = CounterMetricFamily("freshkeeper_elements", "elements taken", labels=["stream"])
        late = CounterMetricFamily("freshkeeper_late_elements", "elements that came too late", labels=["stream"])
        for one in status["streams"]:
            elements.add_metric([one["name"]], one["elements"])
            late.add_metric([one["name"]], one["late"])
        yield from (elements, late)
        breaker = GaugeMetricFamily(
            "freshkeeper_breaker",
            "0: requests go through, 1: one tries, 2: the source is left alone",
            labels=["source"],
        )
        for one in status["sources"]:
            if one["breaker"] is not None:
                breaker.add_metric([one["name"]], BREAKER[one["breaker"]["state"]])
        yield breaker
        yield GaugeMetricFamily(
            "freshkeeper_waiting_bytes", "what was pushed and is not evaluated yet", value=status["waiting_bytes"]
        )
