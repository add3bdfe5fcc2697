"""How everything is, once or as it changes."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from freshkeeper.maintenance.serve.door import Door, json_response, wants
from freshkeeper.maintenance.serve.operation import EVENTS, JSON, Given, operation
from freshkeeper.maintenance.serve.routes.answers import KEPT
from freshkeeper.maintenance.serve.status import KEPT as MOST

OFTEN = 0.3
"""Seconds between two events at least."""
SELDOM = 2.0
"""Seconds between two events at most: queries come and go, and breakers open and close, without an evaluation."""


class Asked(Given):
    """How much is wanted."""

    history: int = Field(default=0, ge=0, le=MOST, description="so many evaluations that are over, in columns")


@operation("GET", "/status", gives={JSON: None, EVENTS: None}, problems=[HTTPStatus.TOO_MANY_REQUESTS])
async def status(door: Door, request: Request, given: Asked) -> Response:
    """How queries, views, sources and streams are; as server-sent events, anew after evaluations and now and then.

    The first event has the history that is asked for, later ones the last evaluation alone.
    """
    if not wants(request, EVENTS):
        return json_response(door.status.told(door.service, given.history), headers={"Cache-Control": "no-store"})
    door.check_room()
    return StreamingResponse(_events(door, given.history), media_type=EVENTS, headers=KEPT)


async def _events(door: Door, history: int) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    seen, silent = -1, 0.0
    while not door.ended:
        if door.status.version != seen or silent >= SELDOM:
            seen, silent = door.status.version, 0.0
            yield b"id: %d\ndata: %b\n\n" % (seen, bytes(json_response(door.status.told(door.service, history)).body))
            history = 0
        await asyncio.sleep(OFTEN)
        silent += OFTEN


OPERATIONS = [status]
