"""Prometheus metrics of outputs: whether answers reach them."""

from collections.abc import Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from freshkeeper.maintenance.serve.connectors.outgoing import Outgoing


class OutputNumbers(Collector):
    """Collects the metrics of all outputs when Prometheus asks."""

    def __init__(self, outgoing: Sequence[Outgoing]) -> None:
        self._outgoing = outgoing

    def collect(self) -> Iterator[Metric]:
        """Yield gauges and counters of every output."""
        works = GaugeMetricFamily("freshkeeper_output_up", "whether an output takes answers", labels=["output"])
        sent = CounterMetricFamily("freshkeeper_output_answers", "evaluations that it has taken", labels=["output"])
        failed = CounterMetricFamily("freshkeeper_output_failures", "tries in vain", labels=["output"])
        dead = CounterMetricFamily("freshkeeper_output_dead_letters", "answers that nobody took", labels=["output"])
        for one in self._outgoing:
            works.add_metric([one.name], not one.sender.failure)
            sent.add_metric([one.name], one.sender.sent)
            failed.add_metric([one.name], one.sender.failures)
            dead.add_metric([one.name], one.dead_letters)
        yield from (works, sent, failed, dead)
