"""Metrics of enrichers for Prometheus, with the standard library alone; enrichers of one process share a port."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, ClassVar, Protocol

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.statistics import Stats

LOGGER = logging.getLogger("freshkeeper")
COUNTERS = {
    "hits": "reads of rows that were in the cache",
    "misses": "reads of keys that were not in the cache",
    "waited": "hits that waited for a fetch",
    "requests": "requests to the source, failed ones included",
    "spent": "cost units that requests cost",
    "refreshed": "rows that were fetched again",
    "changed": "rows that had changed when they were fetched again",
    "unchanged": "requests that the source answered with not modified",
    "failed": "keys that could not be fetched",
    "evicted": "rows that had to make room",
    "audited": "reads whose row was checked at the source",
}
GAUGES = {
    "rows": "rows in the cache",
    "in_flight": "keys that are being fetched",
    "available": "cost units that may be spent now",
    "price": "right reads that a request has to bring at the moment",
    "expected_freshness": "share of reads believed to have been right",
    "measured_freshness": "share of audited reads that was right",
}


class HasStats(Protocol):
    """An enricher, as far as metrics are concerned."""

    name: str

    def stats(self) -> Stats:
        """Return its numbers."""
        ...


def exposition(enrichers: list[HasStats]) -> Iterator[str]:
    """Yield the lines of the text format of Prometheus."""
    found = [(enricher.name.replace("\\", r"\\").replace('"', r"\""), enricher.stats()) for enricher in enrichers]
    for kind, names in (("counter", COUNTERS), ("gauge", GAUGES)):
        suffix = "_total" if kind == "counter" else ""
        for name, meaning in names.items():
            yield f"# HELP freshkeeper_enricher_{name}{suffix} {meaning}"
            yield f"# TYPE freshkeeper_enricher_{name}{suffix} {kind}"
            for label, stats in found:
                value = getattr(stats, name)
                if value is not None:
                    yield f'freshkeeper_enricher_{name}{suffix}{{name="{label}"}} {value}'


@dataclass(eq=False)
class MetricsPort:
    """A port at which the metrics of some enrichers are served."""

    address: str
    server: ThreadingHTTPServer
    enrichers: list[HasStats] = field(default_factory=list)
    open_ports: "ClassVar[dict[str, MetricsPort]]"
    lock: ClassVar[Lock] = Lock()

    @classmethod
    def open(cls, address: str, enricher: HasStats) -> "MetricsPort":
        """Serve an enricher's metrics at "HOST:PORT" or ":PORT", beside those of others at the same address."""
        host, _, port = address.rpartition(":")
        if not port.isdigit():
            raise ConfigError(f'metrics={address!r}: write ":9100" or "127.0.0.1:9100"')
        with cls.lock:
            host = host or "127.0.0.1"
            there = cls.open_ports.get(f"{host}:{int(port)}")
            if there is None:
                there = cls._listen(host, int(port))
            there.enrichers.append(enricher)
            return there

    @property
    def port(self) -> int:
        """The port number, also where any free one was asked for."""
        return int(self.server.server_address[1])

    def close(self, enricher: HasStats) -> None:
        """Serve an enricher no longer; with the last one the port is closed."""
        with self.lock:
            if enricher in self.enrichers:
                self.enrichers.remove(enricher)
            if self.enrichers:
                return
            self.open_ports.pop(self.address, None)
        self.server.shutdown()
        self.server.server_close()

    @classmethod
    def _listen(cls, host: str, port: int) -> "MetricsPort":
        try:
            server = ThreadingHTTPServer((host, port), _Handler)
        except OSError as error:
            raise ConfigError(f"metrics cannot be served at {host}:{port}: {error.strerror}") from None
        made = cls(f"{host}:{server.server_address[1]}", server)
        server.metrics_port = made  # type: ignore[attr-defined]
        server.daemon_threads = True
        Thread(target=server.serve_forever, name="freshkeeper-metrics", daemon=True).start()
        cls.open_ports[made.address] = made
        return made


MetricsPort.open_ports = {}


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "ask /metrics")
            return
        port: Any = self.server
        body = ("\n".join(exposition(list(port.metrics_port.enrichers))) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Log requests for metrics at the lowest level."""
        LOGGER.debug(format, *values)
