"""What Prometheus is told of doors: whether streams are connected, and whether answers reach their outputs."""

from collections.abc import Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from freshkeeper.maintenance.serve.doors.incoming import Incoming
from freshkeeper.maintenance.serve.doors.outgoing import Outgoing


class DoorNumbers(Collector):
    """As they are when it asks."""

    def __init__(self, incoming: Incoming, outgoing: Sequence[Outgoing]) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def collect(self) -> Iterator[Metric]:
        """Streams, then outputs."""
        up = GaugeMetricFamily("freshkeeper_stream_connected", "whether a stream is connected", labels=["stream"])
        again = CounterMetricFamily("freshkeeper_stream_reconnects", "how often it came back", labels=["stream"])
        gaps = CounterMetricFamily("freshkeeper_stream_gaps", "how often something was missed", labels=["stream"])
        for name, link in self._incoming.links.items():
            up.add_metric([name], link.connected)
            again.add_metric([name], link.reconnects)
            gaps.add_metric([name], link.gaps)
        yield from (up, again, gaps)
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
