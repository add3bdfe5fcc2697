"""What the addresses of a service share: the service, who may ask, what is measured, who listens."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from freshkeeper.maintenance.observe.metrics import Metrics
from freshkeeper.maintenance.serve.listening import Listening
from freshkeeper.maintenance.serve.look_up import LookUps
from freshkeeper.maintenance.serve.problems import Problem
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.serve_config import StreamConfig
from freshkeeper.maintenance.serve.service import Service
from freshkeeper.maintenance.serve.service_status import Status
from freshkeeper.maintenance.serve.status_feed import StatusFeed


@dataclass(eq=False)
class Door:
    """What requests are answered with."""

    service: Service
    guard: Guard
    metrics: Metrics
    status: Status
    look_ups: LookUps
    streams: Mapping[str, StreamConfig]
    largest_body: int
    most_listeners: int
    listeners: set[Listening] = field(default_factory=set)
    watching: int = 0
    """how many follow the status"""
    feed: StatusFeed = field(default_factory=StatusFeed)
    ended: bool = False
    """whether there is no more to come for those who listen"""

    def end(self) -> None:
        """Everybody who listens is told that there is no more."""
        self.ended = True
        for listening in list(self.listeners):
            listening.close()

    def check_room(self) -> None:
        """Whether one more may listen."""
        if len(self.listeners) + self.watching >= self.most_listeners:
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, f"{self.most_listeners} listen already", {"Retry-After": "5"})

    async def body(self, request: Request) -> bytes:
        """All of it, if it is not too much."""
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


def kind_of(request: Request) -> str:
    """The media type of the body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def wants(request: Request, kind: str) -> bool:
    """Whether the answer is wanted in this form."""
    return kind in request.headers.get("accept", "")


def read_json(body: bytes) -> Any:
    """What a body says."""
    try:
        return json.loads(read_text(body))
    except (ValueError, RecursionError) as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"this is no JSON: {error}") from None


def read_text(body: bytes) -> str:
    """A body as text."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"this is no UTF-8: {error}") from None


def json_response(told: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Keys and values; what is no number is told as null."""
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(text, status, headers, "application/json")
