"""Answers as they come: lines of JSON, or server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket

from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.serve.door import Door, wants
from freshkeeper.maintenance.serve.listening import Listening
from freshkeeper.maintenance.serve.operation import EVENTS, LINES, Parameters, Role, operation
from freshkeeper.maintenance.serve.problems import problem_response
from freshkeeper.maintenance.serve.security import PROTOCOL

KEPT = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
LET_GO = "you were too slow; ask again with the last instant that you have"
GOING_AWAY, TOO_SLOW = 1001, 1013


class After(Parameters):
    """Of which query, and from where on."""

    name: str = Field(description="what the query is called")
    after: int | None = Field(default=None, description="the last instant that is known; left out: from now on")
    last_event: int | None = Field(default=None, alias="Last-Event-ID", description="the same, as browsers say it")

    @property
    def since(self) -> int | None:
        """The last instant that is known."""
        return self.after if self.last_event is None else self.last_event


@operation("GET", "/queries/{name}/answers", gives={LINES: None, EVENTS: None},
           problems=[HTTPStatus.TOO_MANY_REQUESTS])  # fmt: skip
async def answers(door: Door, request: Request, parameters: After) -> Response:
    """What a query answers from now on, or after an instant, as lines of JSON or as server-sent events."""
    one = door.service.queries.named(parameters.name)
    door.check_room()
    listening = Listening(door.service.queries.answers, one.name, parameters.since)
    events = wants(request, EVENTS)
    body = _events(door, listening) if events else _lines(door, listening)
    return StreamingResponse(body, media_type=EVENTS if events else LINES, headers=KEPT)


async def _events(door: Door, listening: Listening) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    async for line in heard(door, listening):
        yield b": still here\n\n" if line is None else b"id: %d\ndata: %b\n\n" % (line[0], line[1].rstrip())
    if listening.dropped:
        yield b"event: dropped\ndata: %b\n\n" % LET_GO.encode()


async def _lines(door: Door, listening: Listening) -> AsyncIterator[bytes]:
    async for line in heard(door, listening):
        yield b"\n" if line is None else line[1]


async def heard(door: Door, listening: Listening) -> AsyncIterator[tuple[int, bytes] | None]:
    """The lines of somebody who is known to listen."""
    door.listeners.add(listening)
    if door.ended:
        listening.close()
    try:
        async for line in listening.lines():
            yield line
    finally:
        door.listeners.discard(listening)


async def socket(door: Door, websocket: WebSocket) -> None:
    """The same over a WebSocket: a message for each line, an empty one as a sign of life."""
    try:
        door.guard.check(websocket, Role.READ)
        parameters = validated(After, {**websocket.query_params, **websocket.path_params})
        one = door.service.queries.named(parameters.name)
        door.check_room()
    except Exception as error:
        await websocket.send_denial_response(await problem_response(websocket, error))
        return
    await websocket.accept(PROTOCOL if PROTOCOL in websocket.scope["subprotocols"] else None)
    listening = Listening(door.service.queries.answers, one.name, parameters.since)
    sending = asyncio.create_task(_messages(door, websocket, listening))
    try:
        while (await websocket.receive())["type"] != "websocket.disconnect":
            pass  # nothing that is said here matters
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _messages(door: Door, websocket: WebSocket, listening: Listening) -> None:
    async for line in heard(door, listening):
        await websocket.send_text("" if line is None else line[1].decode().rstrip())
    await websocket.close(*((TOO_SLOW, LET_GO) if listening.dropped else (GOING_AWAY, "the service ends")))


OPERATIONS = [answers]
SOCKETS = {"/queries/{name}/answers": socket}
