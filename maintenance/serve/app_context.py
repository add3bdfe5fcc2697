"""The context of all operations: the service, access rights, metrics, subscriptions."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from freshkeeper.maintenance.observe.metrics import Metrics
from freshkeeper.maintenance.serve.look_up import LookUps
from freshkeeper.maintenance.serve.problems import Problem
from freshkeeper.maintenance.serve.row_caches import RowCache, RowsConfig
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.serve_config import StreamConfig
from freshkeeper.maintenance.serve.service import QueryService
from freshkeeper.maintenance.serve.service_status import Status
from freshkeeper.maintenance.serve.status_feed import StatusFeed
from freshkeeper.maintenance.serve.subscription import Subscription

BODY_TIMEOUT_S = 60.0
"""How long the body of a request may take to arrive."""
STREAMING_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass(eq=False, kw_only=True)
class AppContext:
    """The service and everything that requests need beside it."""

    service: QueryService
    guard: Guard
    metrics: Metrics
    status: Status
    look_ups: LookUps
    streams: Mapping[str, StreamConfig]
    rows: Mapping[str, RowCache] = field(default_factory=dict)
    """rows by key, by the names of the config"""
    row_configs: Mapping[str, RowsConfig] = field(default_factory=dict)
    largest_body: int
    most_listeners: int
    subscriptions: set[Subscription] = field(default_factory=set)
    listeners: set[object] = field(default_factory=set)
    """the open streams of answers and of the status"""
    feed: StatusFeed = field(default_factory=StatusFeed)
    ended: bool = False
    """whether subscriptions end, as the service stops"""

    def end(self) -> None:
        """End all subscriptions."""
        self.ended = True
        for subscription in list(self.subscriptions):
            subscription.close()

    async def close_rows(self) -> None:
        """Close the row caches, with the connections to their sources."""
        for cache in self.rows.values():
            await cache.aclose()

    def admit(self, listener: object) -> None:
        """Count a listener until `leave`; Problem if there are as many as permitted."""
        if len(self.listeners) >= self.most_listeners:
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, f"{self.most_listeners} listen already", {"Retry-After": "5"})
        self.listeners.add(listener)

    def leave(self, listener: object) -> None:
        """Count a listener no more."""
        self.listeners.discard(listener)

    async def body(self, request: Request) -> bytes:
        """Read the body of a request; Problem if it is larger than permitted."""
        parts = []
        size = 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
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
        except TimeoutError:
            raise Problem(
                HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s: send it in parts"
            ) from None
        return b"".join(parts)


class ListenerResponse(StreamingResponse):
    """A stream to a listener, who is counted from the request on until the stream ends."""

    def __init__(self, context: AppContext, listener: object, body: AsyncIterator[bytes], media_type: str) -> None:
        super().__init__(body, media_type=media_type, headers=STREAMING_HEADERS)
        context.admit(listener)
        self._context, self._listener = context, listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._context.leave(self._listener)


def media_type_of(request: Request) -> str:
    """Return the media type of the body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def accepts(request: Request, kind: str) -> bool:
    """Return whether a request accepts a media type."""
    return kind in request.headers.get("accept", "")


def read_json(body: bytes) -> Any:
    """Parse a body as JSON."""
    try:
        return json.loads(read_text(body))
    except (ValueError, RecursionError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"this is no JSON: {error}") from None


def read_text(body: bytes) -> str:
    """Decode a body as UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"this is no UTF-8: {error}") from None


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response in JSON; NaN is an error."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return Response(text, status, headers, "application/json")
