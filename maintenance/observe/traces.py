"""Traces for OpenTelemetry: a span for each evaluation and each request, sent by OTLP over HTTP; the extra `telemetry`.

Spans of one instant are one trace, whose id is a hash of the instant: evaluations overlap, and requests may end after
them. The requests of an instant are children of its first evaluation. Requests to a service are traces of their own, or
part of the caller's, given by `traceparent`.
"""

import hashlib
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError, naming_extra
from freshkeeper.maintenance.sources.sources import Source

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

MAX_OPEN_EVALUATIONS = 10_000
"""Evaluations that are running, or may still have requests; older ones are dropped."""
EXPORT_TIMEOUT_S = 5
"""Seconds for the collector to accept spans."""


class Traces:
    """An exporter of spans to one collector, until it is closed."""

    def __init__(self, address: str, name: str = "freshkeeper") -> None:
        with naming_extra("traces"):
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        if not address.startswith(("http://", "https://")):
            raise ConfigError(f"traces: {mask_secrets(address)!r} is no collector: write http://host:4318")
        exporter = OTLPSpanExporter(f"{address.rstrip('/')}/v1/traces", timeout=EXPORT_TIMEOUT_S)
        self._ids = threading.local()
        ids = RandomIdGenerator()
        vars(ids)["generate_trace_id"] = self._trace_id
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": name}), shutdown_on_exit=False, id_generator=ids
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Tracer = self._provider.get_tracer("freshkeeper")
        self._salt = str(time.time_ns())
        self._begun: dict[tuple[str, int], Any] = {}
        self._first: dict[int, Context] = {}
        self._lock = threading.Lock()

    def begun(self, query: str, t: int) -> None:
        from opentelemetry.trace import set_span_in_context

        attributes: dict[str, Any] = {"freshkeeper.query": query, "freshkeeper.instant": t}
        with self._lock:
            span = self._tracer.start_span(f"evaluate {query}".rstrip(), self._context_of(t), attributes=attributes)
            self._begun[query, t] = span
            self._first.setdefault(t, set_span_in_context(span))
            # the oldest entries come first
            if len(self._begun) > MAX_OPEN_EVALUATIONS:
                self._begun.pop(next(iter(self._begun)))
            if len(self._first) > MAX_OPEN_EVALUATIONS:
                self._first.pop(next(iter(self._first)))

    def ended(self, query: str, t: int, failed: bool) -> None:
        """End the span of an evaluation, marked as an error if it failed."""
        from opentelemetry.trace import StatusCode

        with self._lock:
            span = self._begun.pop((query, t), None)
        if span is not None:
            if failed:
                span.set_status(StatusCode.ERROR, "the query has failed")
            span.end()

    def follow(self, sources: Mapping[str, Source]) -> None:
        for name, source in sources.items():
            dispatcher = source.transport.dispatcher
            if dispatcher is not None:
                dispatcher.traced = partial(self._requested, mask_secrets(name))

    def close(self) -> None:
        self._provider.shutdown()

    def _requested(self, source: str, t: int, began: int, keys: int, failure: str) -> None:
        from opentelemetry.trace import SpanKind, StatusCode

        attributes: dict[str, Any] = {"freshkeeper.source": source, "freshkeeper.instant": t, "freshkeeper.keys": keys}
        with self._lock:
            parent = self._first.get(t) or self._context_of(t)
        span = self._tracer.start_span(
            f"request {source}", parent, SpanKind.CLIENT, attributes=attributes, start_time=began
        )
        if failure:
            span.set_status(StatusCode.ERROR, failure)
        span.end()

    def _context_of(self, t: int) -> "Context":
        """Return a context for the next span of this thread, in the trace of an instant."""
        from opentelemetry.context import Context

        digest = hashlib.blake2b(f"{self._salt} {t}".encode(), digest_size=16).digest()
        self._ids.__dict__["next"] = int.from_bytes(digest, "big")  # `_trace_id` takes it
        return Context()

    def _trace_id(self) -> int:
        prepared: int | None = self._ids.__dict__.pop("next", None)
        if prepared is None:
            return random.getrandbits(128)
        return prepared


@dataclass(frozen=True, eq=False)
class TracedRequests:
    """An ASGI application whose requests are spans."""

    app: Any
    traces: Traces
    kinds: tuple[str, ...] = field(default=("http", "websocket"))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request within a span."""
        if scope["type"] not in self.kinds:
            await self.app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parent = TraceContextTextMapPropagator().extract(headers)
        method = scope.get("method", "WEBSOCKET")
        path = scope["path"]
        name = f"{method} {path.split('/')[1]}"
        attributes = {"http.request.method": method, "url.path": path}
        start_span = self.traces._tracer.start_as_current_span
        with start_span(name, parent, SpanKind.SERVER, attributes=attributes) as span:

            async def send_and_note(message: Any) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            await self.app(scope, receive, send_and_note)
