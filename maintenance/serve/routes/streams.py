"""Streams: what may be pushed, and pushing it."""

import asyncio
import time
from http import HTTPStatus

from pydantic import BaseModel, Field, field_validator
from starlette.requests import Request
from starlette.responses import Response

from freshkeeper.maintenance.base.durations import to_instant
from freshkeeper.maintenance.base.errors import UnknownNameError
from freshkeeper.maintenance.serve.door import Door, json_response, kind_of
from freshkeeper.maintenance.serve.operation import Parameters, operation
from freshkeeper.maintenance.serve.problems import Problem
from freshkeeper.maintenance.serve.push_formats import KINDS, as_lines
from freshkeeper.maintenance.serve.routes.queries import Nothing

NOW = "now"


class Pushed(Parameters):
    """Onto which stream, and who says so."""

    name: str = Field(description="the IRI of the stream")
    key: str = Field(
        default="", alias="Idempotency-Key", json_schema_extra={"pattern": r"^(.+/\d{1,18})?$"},
        description="NAME/NUMBER: who sends, and upwards the number of what is sent; what comes again counts once",
    )  # fmt: skip

    at: str = Field(
        default="",
        description="when everything in it was so: milliseconds, a date and time, or now; of what says no times",
    )

    @field_validator("at")
    @classmethod
    def _is_instant(cls, at: str) -> str:
        if at not in ("", NOW):
            to_instant(at)
        return at

    @property
    def instant(self) -> int | None:
        """When everything was so, where that is said."""
        return None if not self.at else int(time.time() * 1000) if self.at == NOW else to_instant(self.at)

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


class Receipt(BaseModel):
    """How many elements of a push were taken."""

    elements: int = Field(description="how many; 0 where they had been taken before")


class StreamsStatus(BaseModel):
    """All streams: how far time is, and what waits."""

    streams: list[str]
    watermark: int | None = Field(description="how far time is, in milliseconds")
    late: int = Field(description="elements that came too late")
    waiting_bytes: int = Field(description="what was pushed and is not evaluated yet")
    listeners: int


@operation("GET", "/streams", gives=StreamsStatus)
async def streams(door: Door, request: Request, parameters: Nothing) -> Response:
    """What may be pushed, and how far time is."""
    del request, parameters
    service = door.service
    told = {"streams": list(service.streams), "watermark": service.watermark, "late": service.late}
    return json_response(told | {"waiting_bytes": service.waiting, "listeners": len(door.listeners)})


@operation("POST", "/streams/{name:path}", status=HTTPStatus.ACCEPTED, gives=Receipt, takes=dict.fromkeys(KINDS),
           problems=[HTTPStatus.TOO_MANY_REQUESTS])  # fmt: skip
async def push(door: Door, request: Request, parameters: Pushed) -> Response:
    """Elements of a stream; when this is acknowledged they are kept.

    Lines of milliseconds, a tab and a statement; graphs with prov:generatedAtTime; rows, by the mapping of the stream.
    """
    if (kind := kind_of(request)) not in KINDS:
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"{kind or 'no Content-Type'} is not taken: send lines of milliseconds, a tab and a statement as "
            f"application/n-quads, or one of {', '.join(KINDS)}",
        )
    if parameters.name not in door.streams:
        raise UnknownNameError("stream", parameters.name, door.streams)
    body = await door.body(request)
    count = await asyncio.to_thread(_pushed, door, kind, body, parameters)
    return json_response({"elements": count}, HTTPStatus.ACCEPTED)


def _pushed(door: Door, kind: str, body: bytes, parameters: Pushed) -> int:
    lines = as_lines(kind, body, parameters.instant, parameters.name, door.streams[parameters.name])
    return door.service.push(parameters.name, lines, *parameters.sent)


OPERATIONS = [streams, push]
