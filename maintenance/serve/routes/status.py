"""How everything is, once or as it changes."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from freshkeeper.maintenance.serve.door import Door, json_response, wants
from freshkeeper.maintenance.serve.operation import EVENTS, JSON, Parameters, operation
from freshkeeper.maintenance.serve.routes.answers import KEPT
from freshkeeper.maintenance.serve.service_status import KEPT as MOST
from freshkeeper.maintenance.serve.status_feed import OFTEN


class Asked(Parameters):
    """How much is wanted."""

    history: int = Field(default=0, ge=0, le=MOST, description="so many evaluations that are over, in columns")


@operation("GET", "/status", gives={JSON: None, EVENTS: None}, problems=[HTTPStatus.TOO_MANY_REQUESTS])
async def status(door: Door, request: Request, parameters: Asked) -> Response:
    """How queries, views, sources and streams are; as server-sent events, anew after evaluations and now and then.

    The first event has the history that is asked for, later ones the last evaluation alone.
    """
    if not wants(request, EVENTS):
        text = await asyncio.to_thread(_text, door, parameters.history)
        return Response(text, headers={"Cache-Control": "no-store"}, media_type=JSON)
    door.check_room()
    return StreamingResponse(_events(door, parameters.history), media_type=EVENTS, headers=KEPT)


async def _events(door: Door, history: int) -> AsyncIterator[bytes]:
    door.watching += 1
    try:
        yield b"retry: 1000\n\n"
        seen, feed = door.feed.number, door.feed
        yield _event(door, await asyncio.to_thread(_text, door, history))
        while not door.ended:
            await asyncio.sleep(OFTEN)
            await feed.look(door.status.version, partial(_text, door))
            if feed.number != seen:
                seen = feed.number
                yield _event(door, feed.text)
    finally:
        door.watching -= 1


def _event(door: Door, text: bytes) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (door.status.version, text)


def _text(door: Door, history: int = 0) -> bytes:
    return bytes(json_response(door.status.as_json(door.service, history)).body)


OPERATIONS = [status]
