"""Streams: what may be pushed, and pushing it."""

import asyncio
from http import HTTPStatus

from pydantic import BaseModel, Field, field_validator
from starlette.requests import Request
from starlette.responses import Response

from freshkeeper.maintenance.serve.door import Door, json_response, kind_of
from freshkeeper.maintenance.serve.operation import Given, operation
from freshkeeper.maintenance.serve.problems import Problem
from freshkeeper.maintenance.serve.routes.queries import Nothing

QUADS = ("application/n-quads", "application/n-triples", "text/plain")
"""What elements may be called: lines of milliseconds, a tab and a statement."""


class Pushed(Given):
    """Onto which stream, and who says so."""

    name: str = Field(description="the IRI of the stream")
    key: str = Field(
        default="", alias="Idempotency-Key", json_schema_extra={"pattern": r"^(.+/\d{1,18})?$"},
        description="NAME/NUMBER: who sends, and upwards the number of what is sent; what comes again counts once",
    )  # fmt: skip

    @field_validator("key")
    @classmethod
    def _is_numbered(cls, key: str) -> str:
        producer, _, number = key.rpartition("/")
        if key and not (producer and number.isascii() and number.isdigit() and len(number) < 19):
            raise ValueError(f"{key!r} is no NAME/NUMBER, as loader-1/42")
        return key

    @property
    def sent(self) -> tuple[str, int]:
        """Who sends, and which one it is."""
        producer, _, number = self.key.rpartition("/")
        return producer, int(number or 0)


class Taken(BaseModel):
    """What was taken."""

    elements: int = Field(description="how many; 0 where they had been taken before")


class StreamsTold(BaseModel):
    """The streams together."""

    streams: list[str]
    watermark: int | None = Field(description="how far time is, in milliseconds")
    late: int = Field(description="elements that came too late")
    waiting_bytes: int = Field(description="what was pushed and is not evaluated yet")
    listeners: int


@operation("GET", "/streams", gives=StreamsTold)
async def streams(door: Door, request: Request, given: Nothing) -> Response:
    """What may be pushed, and how far time is."""
    del request, given
    service = door.service
    told = {"streams": list(service.streams), "watermark": service.watermark, "late": service.late}
    return json_response(told | {"waiting_bytes": service.waiting, "listeners": len(door.listeners)})


@operation("POST", "/streams/{name:path}", status=HTTPStatus.ACCEPTED, gives=Taken, takes=dict.fromkeys(QUADS),
           problems=[HTTPStatus.TOO_MANY_REQUESTS])  # fmt: skip
async def push(door: Door, request: Request, given: Pushed) -> Response:
    """Elements of a stream; when this is acknowledged they are kept."""
    if (kind := kind_of(request)) not in QUADS:
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"{kind or 'no Content-Type'} is not taken: send lines of milliseconds, a tab and a statement as "
            "application/n-quads",
        )
    body = await door.body(request)
    count = await asyncio.to_thread(door.service.push, given.name, body, *given.sent)
    return json_response({"elements": count}, HTTPStatus.ACCEPTED)


OPERATIONS = [streams, push]
