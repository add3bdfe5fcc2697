"""What Prometheus is told of streams over a network: whether they are connected, and what was missed."""

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from freshkeeper.maintenance.streams.live.feed import LinkStatus


class StreamNumbers(Collector):
    """As they are when it asks."""

    def __init__(self, links: Callable[[], dict[str, LinkStatus]]) -> None:
        self._links = links

    def collect(self) -> Iterator[Metric]:
        """Gauges and counters of every connection, as it is when Prometheus asks."""
        up = GaugeMetricFamily("freshkeeper_stream_connected", "whether a stream is connected", labels=["stream"])
        again = CounterMetricFamily("freshkeeper_stream_reconnects", "how often it came back", labels=["stream"])
        gaps = CounterMetricFamily("freshkeeper_stream_gaps", "how often something was missed", labels=["stream"])
        for name, link in self._links().items():
            up.add_metric([name], link.connected)
            again.add_metric([name], link.reconnects)
            gaps.add_metric([name], link.gaps)
        yield from (up, again, gaps)
