"""The HTTP server of a run for monitoring: /metrics, /healthz and /readyz."""

import json
from collections.abc import Callable, Iterable
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from freshkeeper.maintenance.base.errors import ConfigError
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
        """Close the port and wait until the thread has ended."""
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
