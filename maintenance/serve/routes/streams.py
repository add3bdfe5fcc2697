"""Streams: which there are, and pushing elements onto them."""

import asyncio
import time
from http import HTTPStatus

from pydantic import BaseModel, Field, field_validator
from starlette.requests import Request
from starlette.responses import Response

from freshkeeper.maintenance.base.durations import to_instant
from freshkeeper.maintenance.base.errors import UnknownNameError
from freshkeeper.maintenance.serve.app_context import AppContext, json_response, media_type_of
from freshkeeper.maintenance.serve.operation import Parameters, operation
from freshkeeper.maintenance.serve.problems import Problem
from freshkeeper.maintenance.serve.push_formats import KINDS, as_lines

NOW = "now"
MAX_PRODUCER_CHARACTERS = 128


class PushParameters(Parameters):
    """The stream of a push, its idempotency key, and the time of elements without one."""

    name: str = Field(description="the IRI of the stream")
    key: str = Field(
        default="", alias="Idempotency-Key", json_schema_extra={"pattern": r"^(.{1,128}/\d{1,18})?$"},
        description="PRODUCER/SEQUENCE: a name and an ascending number; a push that is repeated counts once",
    )  # fmt: skip

    at: str = Field(
        default="",
        description="the time of elements that have none of their own: milliseconds, a date and time, or now",
    )

    @field_validator("at")
    @classmethod
    def _is_instant(cls, at: str) -> str:
        if at not in ("", NOW):
            to_instant(at)
        return at

    @property
    def instant(self) -> int | None:
        """The time of elements without one, in milliseconds; None if the request does not say it."""
        if not self.at:
            return None
        return int(time.time() * 1000) if self.at == NOW else to_instant(self.at)

    @field_validator("key")
    @classmethod
    def _is_numbered(cls, key: str) -> str:
        producer, _, number = key.rpartition("/")
        if key and not (producer and number.isascii() and number.isdigit() and len(number) < 19):
            raise ValueError(f"{key[:100]!r} is no NAME/NUMBER, as loader-1/42")
        if len(producer) > MAX_PRODUCER_CHARACTERS:
            raise ValueError(f"the name of a producer has at most {MAX_PRODUCER_CHARACTERS} characters")
        return key

    @property
    def producer_and_sequence(self) -> tuple[str, int]:
        """The parts of the idempotency key; without one an empty name and 0."""
        producer, _, sequence = self.key.rpartition("/")
        return producer, int(sequence or 0)


class Receipt(BaseModel):
    """The number of elements that a push added."""

    elements: int = Field(description="0 if the push is a repetition")


class StreamsStatus(BaseModel):
    """The streams, the watermark, and what waits to be evaluated."""

    streams: list[str]
    watermark: int | None = Field(description="event time up to which all elements are there, in milliseconds")
    late: int = Field(description="elements that were too late")
    waiting_bytes: int = Field(description="bytes that were pushed and are not evaluated yet")
    listeners: int


@operation("GET", "/streams", gives=StreamsStatus)
async def streams(context: AppContext) -> Response:
    """Return all streams and the watermark."""
    service = context.service
    answer = {"streams": list(service.streams), "watermark": service.watermark, "late": service.late}
    return json_response(answer | {"waiting_bytes": service.waiting, "listeners": len(context.listeners)})


@operation("POST", "/streams/{name:path}", status=HTTPStatus.ACCEPTED, gives=Receipt, takes=dict.fromkeys(KINDS),
           problems=[HTTPStatus.TOO_MANY_REQUESTS])  # fmt: skip
async def push(context: AppContext, request: Request, parameters: PushParameters) -> Response:
    """Push elements onto a stream; once the response is there they survive a crash.

    Lines of milliseconds, a tab and a statement; graphs with prov:generatedAtTime; rows, by the mapping of the stream.
    """
    kind = media_type_of(request)
    if kind not in KINDS:
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"{kind or 'no Content-Type'} is not taken: send lines of milliseconds, a tab and a statement as "
            f"application/n-quads, or one of {', '.join(KINDS)}",
        )
    if parameters.name not in context.streams:
        raise UnknownNameError("stream", parameters.name, context.streams)
    body = await context.body(request)
    count = await asyncio.to_thread(_push, context, kind, body, parameters)
    return json_response({"elements": count}, HTTPStatus.ACCEPTED)


def _push(context: AppContext, kind: str, body: bytes, parameters: PushParameters) -> int:
    stream, service = context.streams[parameters.name], context.service
    lines = as_lines(kind, body, parameters.instant, parameters.name, stream, blank_nodes=service.blank_nodes)
    return service.push(parameters.name, lines, *parameters.producer_and_sequence)


OPERATIONS = [streams, push]
