"""The service over HTTP: register queries, push elements, listen to answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from freshkeeper.maintenance.observe.metrics import Metrics
from freshkeeper.maintenance.serve.listening import Listening
from freshkeeper.maintenance.serve.problems import HANDLERS, Problem
from freshkeeper.maintenance.serve.registrations import Registered
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.service import Service
from freshkeeper.maintenance.settings.validation import validated

LINES = ("application/n-quads", "application/n-triples", "text/plain")
"""What elements may be called: lines of milliseconds, a tab and a statement."""
EVENTS = "text/event-stream"


class NewQuery(BaseModel):
    """What registers a query."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="what it is called from now on")
    query: str = Field(description="its text")
    dialect: str = Field(default="", description="rspql, cqels, csparql or sparqlstream; empty: as it looks")


@dataclass(eq=False)
class Door:
    """What requests are answered with."""

    service: Service
    guard: Guard
    metrics: Metrics
    largest_body: int
    most_listeners: int
    listeners: set[Listening] = field(default_factory=set)

    def app(self) -> Starlette:
        """All addresses."""
        routes = [
            Route("/healthz", self.alive),
            Route("/readyz", self.ready),
            Route("/metrics", self.measured),
            Route("/queries", self.queries),
            Route("/queries", self.register, methods=["POST"]),
            Route("/queries/{name}", self.query),
            Route("/queries/{name}", self.delete, methods=["DELETE"]),
            Route("/queries/{name}/pause", self.pause, methods=["POST"]),
            Route("/queries/{name}/resume", self.resume, methods=["POST"]),
            Route("/queries/{name}/answers", self.answers),
            Route("/streams", self.streams),
            Route("/streams/{name:path}", self.push, methods=["POST"]),
        ]
        return Starlette(routes=routes, exception_handlers=HANDLERS)

    async def alive(self, request: Request) -> Response:
        """Whether the thread that evaluates is there."""
        del request
        up = self.service.alive
        return JSONResponse({"alive": up}, 200 if up else 503)

    async def ready(self, request: Request) -> Response:
        """Whether it takes elements, and answers."""
        del request
        failed = dict(self.service.failures)
        up = self.service.alive
        return JSONResponse({"ready": up, "failed": failed}, 200 if up else 503)

    async def measured(self, request: Request) -> Response:
        """For Prometheus."""
        self.guard.check(request, writes=False)
        return Response(generate_latest(self.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def queries(self, request: Request) -> Response:
        """All that are registered."""
        self.guard.check(request, writes=False)
        return JSONResponse({"queries": [self._told(one) for one in list(self.service.queries.all.values())]})

    async def query(self, request: Request) -> Response:
        """One of them."""
        self.guard.check(request, writes=False)
        return JSONResponse(self._told(self.service.queries.named(request.path_params["name"])))

    async def register(self, request: Request) -> Response:
        """One more, as {"name": ..., "query": ...}, or its text with ?name=..."""
        self.guard.check(request, writes=True)
        body = await self._body(request)
        alone = _kind(request) != "application/json"
        given = {"query": _text(body), **request.query_params} if alone else _json(body)
        new = validated(NewQuery, given)
        one = await asyncio.to_thread(self.service.register, new.name, new.query, new.dialect)
        return JSONResponse(self._told(one), 201, {"Location": f"/queries/{one.name}"})

    async def delete(self, request: Request) -> Response:
        """A query with its views."""
        return await self._done(request, self.service.delete)

    async def pause(self, request: Request) -> Response:
        """It sees no elements for a while."""
        return await self._done(request, self.service.pause)

    async def resume(self, request: Request) -> Response:
        """It goes on."""
        return await self._done(request, self.service.resume)

    async def streams(self, request: Request) -> Response:
        """What may be pushed, and how far time is."""
        self.guard.check(request, writes=False)
        service = self.service
        told = {"streams": list(service.streams), "watermark": service.watermark, "late": service.late}
        return JSONResponse(told | {"waiting_bytes": service.waiting, "listeners": len(self.listeners)})

    async def push(self, request: Request) -> Response:
        """Elements of a stream; acknowledged when they are kept."""
        self.guard.check(request, writes=True)
        if (kind := _kind(request)) not in LINES:
            raise Problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"{kind or 'no Content-Type'} is not taken: send lines of milliseconds, a tab and a statement as "
                "application/n-quads",
            )
        producer, number = _producer(request)
        body = await self._body(request)
        count = await asyncio.to_thread(self.service.push, request.path_params["name"], body, producer, number)
        return JSONResponse({"elements": count}, 202)

    async def answers(self, request: Request) -> Response:
        """What a query answers from now on, or after an instant, as NDJSON or as server-sent events."""
        self.guard.check(request, writes=False)
        one = self.service.queries.named(request.path_params["name"])
        if len(self.listeners) >= self.most_listeners:
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, f"{self.most_listeners} listen already", {"Retry-After": "5"})
        listening = Listening(self.service.queries.answers, one.name, _after(request))
        events = EVENTS in request.headers.get("accept", "")
        body = self._events(listening) if events else self._lines(listening)
        kept = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(body, media_type=EVENTS if events else "application/x-ndjson", headers=kept)

    def end(self) -> None:
        """Everybody who listens is told that there is no more."""
        for listening in list(self.listeners):
            listening.close()

    async def _events(self, listening: Listening) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        async for line in self._heard(listening):
            yield b": still here\n\n" if line is None else b"id: %d\ndata: %b\n\n" % (line[0], line[1].rstrip())
        if listening.dropped:
            yield b"event: dropped\ndata: you were too slow; ask again with Last-Event-ID\n\n"

    async def _lines(self, listening: Listening) -> AsyncIterator[bytes]:
        async for line in self._heard(listening):
            yield b"\n" if line is None else line[1]

    async def _heard(self, listening: Listening) -> AsyncIterator[tuple[int, bytes] | None]:
        self.listeners.add(listening)
        try:
            async for line in listening.lines():
                yield line
        finally:
            self.listeners.discard(listening)

    async def _done(self, request: Request, what: Any) -> Response:
        self.guard.check(request, writes=True)
        await asyncio.to_thread(what, request.path_params["name"])
        return Response(status_code=204)

    async def _body(self, request: Request) -> bytes:
        parts, size = [], 0
        try:
            async for part in request.stream():
                size += len(part)
                if size > self.largest_body:
                    raise Problem(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        f"a request has at most {self.largest_body:,} bytes: send it in parts",
                    )
                parts.append(part)
        except ClientDisconnect:
            raise Problem(HTTPStatus.BAD_REQUEST, "the request broke off") from None
        return b"".join(parts)

    def _told(self, one: Registered) -> dict[str, Any]:
        service, running = self.service, self.service.queries.running.get(one.name)
        failure = service.failures.get(one.name)
        state = "failed" if failure else "running" if running is not None else "paused"
        told: dict[str, Any] = {"name": one.name, "state": state, "query": one.text}
        if running is not None:
            told |= {
                "evaluator": "snapshot" if running.dictionary is None else "native",
                "streams": list(running.streams),
                "answered": service.queries.progress(one.name).answered,
            }
        return told | ({"failure": failure} if failure else {})


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _producer(request: Request) -> tuple[str, int]:
    """Who sends, and the number of what is sent: NAME/NUMBER."""
    written = request.headers.get("idempotency-key", "")
    producer, _, number = written.rpartition("/")
    if written and not (producer and number.isascii() and number.isdigit() and len(number) < 19):
        raise Problem(HTTPStatus.BAD_REQUEST, f"Idempotency-Key: {written!r} is no NAME/NUMBER, as loader-1/42")
    return producer, int(number or 0)


def _after(request: Request) -> int | None:
    written = request.headers.get("last-event-id") or request.query_params.get("after")
    if written is None:
        return None
    try:
        return int(written)
    except ValueError:
        raise Problem(HTTPStatus.BAD_REQUEST, f"after: {written!r} is no instant in milliseconds") from None


def _json(body: bytes) -> Any:
    try:
        return json.loads(_text(body))
    except (ValueError, RecursionError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"this is no JSON: {error}") from None


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"this is no UTF-8: {error}") from None
