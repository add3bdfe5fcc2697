"""The server process of a service, from its config to SIGTERM: requests and evaluations in flight are completed."""

import logging
import os
import signal
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.observe.metrics import Metrics
from freshkeeper.maintenance.observe.traces import TracedRequests, Traces
from freshkeeper.maintenance.serve.app import application
from freshkeeper.maintenance.serve.app_context import AppContext
from freshkeeper.maintenance.serve.connections import ConnectionLimits, LimitedProtocol
from freshkeeper.maintenance.serve.connectors.connectors import Connectors
from freshkeeper.maintenance.serve.look_up import LookUps
from freshkeeper.maintenance.serve.reloading import Reloading
from freshkeeper.maintenance.serve.row_caches import RowNumbers
from freshkeeper.maintenance.serve.security import LOOPBACK, Guard, check_private
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.service_numbers import ServiceNumbers
from freshkeeper.maintenance.serve.service_status import Status
from freshkeeper.maintenance.serve.starting import start
from freshkeeper.maintenance.serve.warm_up import warm_up_if_possible
from freshkeeper.maintenance.sources.sources import Source

STOP_TIMEOUT_S = 5
"""How long requests in flight may take when the service stops."""
MAX_STOP_S = 9.5
"""How long the service may take to stop; then the process ends: what was acknowledged is in the log."""
EXIT_CODE = 75
"""The exit code of a process that did not stop by itself: starting it again is right."""


class Server(uvicorn.Server):
    """Ends subscriptions before it waits for requests; a signal to stop is no failure."""

    has_deadline = False
    """whether the process ends when stopping takes too long"""

    def __init__(
        self, config: uvicorn.Config, ending: Callable[[], None], closing: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(config)
        self._ending, self._closing = ending, closing
        self.deadline = threading.Timer(MAX_STOP_S, _exit)
        self.deadline.daemon = True
        logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Complete requests, then close what they used on this loop."""
        await super().shutdown(sockets)
        await self._closing()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop gracefully on the first signal, at once on the second."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._ending()
        if not self.force_exit and self.has_deadline:
            self.deadline.start()


def opened(config: ServeConfig, guard: Guard) -> AppContext:
    """Start a service and return the context of its operations."""
    metrics, status, look_ups = Metrics(), Status(), LookUps()
    service = start(config, [metrics.observe, status.observe, look_ups.observe])
    service.answered, service.deleted = status.answered, status.forget
    metrics.registry.register(ServiceNumbers(service, status))
    rows = {name: one.opened(name, config.state) for name, one in config.rows.items()}
    metrics.registry.register(RowNumbers(rows))
    return AppContext(
        rows=rows,
        row_configs=config.rows,
        service=service,
        guard=guard,
        metrics=metrics,
        status=status,
        look_ups=look_ups,
        streams=config.streams,
        largest_body=config.largest_body,
        most_listeners=config.most_listeners,
    )


def web_server(app: Any, context: AppContext, limits: ConnectionLimits, **https: Any) -> Server:
    """Return a server of an application, which ends its subscriptions when it stops."""
    protocol = cast(Any, partial(LimitedProtocol, limits=limits))
    plain = uvicorn.Config(
        app, http=protocol, lifespan="off", access_log=False, log_config=None, server_header=False,
        timeout_graceful_shutdown=STOP_TIMEOUT_S, **https,
    )  # fmt: skip
    return Server(plain, context.end, context.close_rows)


def serve(
    config: ServeConfig, tell: Callable[[str], None], path: Path | None = None, said: Mapping[str, Any] | None = None
) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP reloads the config from its path."""
    host, port = _address(config.listen)
    guard = Guard.of(host, config.token, config.read_token)
    https, hung_up = _https(config), threading.Event()
    _on_hangup(hung_up.set)
    with ExitStack() as resources:
        bound = resources.enter_context(closing(bound_to(host, port)))
        traces = Traces(config.traces) if config.traces else None
        context = opened(config, guard)
        service = context.service
        if traces is not None:
            resources.callback(traces.close)
            traces.follow(service.queries.sources)
            service.trace(traces)
        connectors = Connectors.of(config, context, tell)
        limits = ConnectionLimits.within(config.most_connections, config.most_connections_per_address)
        try:
            warm_up_if_possible(tell)
            connectors.start()
            shown_host = f"[{host}]" if ":" in host else host
            address = f"{'https' if https else 'http'}://{shown_host}:{bound.getsockname()[1]}"
            tell(f"serving at {address} with {len(service.queries.all)} queries; stop it with Ctrl-C")
            app = application(context) if traces is None else TracedRequests(application(context), traces)
            server = web_server(app, context, limits, **https)
            server.has_deadline = True
            service.when_broken = lambda: server.handle_exit(0, None)
            if path is not None:
                more = partial(_follow_more, connectors, traces)
                reloading = Reloading(path, said or {}, config, context, host, log=tell, more=more, requested=hung_up)
                resources.callback(reloading.close)
            server.run(sockets=[bound])
            tell("stopping: what is being evaluated is finished, and its answers go out")
        finally:
            ended = connectors.close()
        if not ended:
            _exit()
        server.deadline.cancel()
        if service.broken is not None:
            raise service.broken
    tell("stopped: what was acknowledged is kept")


def _exit() -> None:
    """End the process at once."""
    LOGGER.error("the service does not stop in time: the process ends; what was acknowledged is kept")
    os._exit(EXIT_CODE)


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return whether a message of uvicorn is worth a line: a WebSocket that is refused with a reason is not."""
    return "without completing handshake" not in record.getMessage()


def _follow_more(
    connectors: Connectors,
    traces: Traces | None,
    config: ServeConfig,
    streams: Sequence[str],
    sources: Mapping[str, Source],
) -> None:
    """Read new streams that have an address, and trace requests to new sources."""
    for name in streams:
        if config.streams[name].reads:
            connectors.incoming.add(name, config.streams[name].reads)
    if traces is not None:
        traces.follow(sources)


def _on_hangup(reload: Callable[[], None]) -> None:
    """Call a function on SIGHUP, if this is the thread that can handle signals."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, lambda *_: reload())


def _https(config: ServeConfig) -> dict[str, Any]:
    """Return the options of uvicorn for TLS; none without a certificate."""
    if config.certificate is None or config.key is None:
        return {}
    check_private(config.key, "the private key")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(config.certificate, config.key)
    except OSError as error:
        why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f"{config.certificate} and {config.key} are no certificate with its key: {why}") from None
    return {"ssl_certfile": str(config.certificate), "ssl_keyfile": str(config.key)}


def _address(written: str) -> tuple[str, int]:
    host, _, port = written.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"listen: {written!r} is no address: give a port, as 8642, or HOST:PORT")
    return host.strip("[]") or LOOPBACK[0], int(port)


def bound_to(host: str, port: int) -> socket.socket:
    """Open a listening socket; ConfigError if the port is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise ConfigError(f"listen: {host}:{port} cannot be had: {os.strerror(error.errno or 0)}") from None
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited by connections: lines go out without delay
    return bound
