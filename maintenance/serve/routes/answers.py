"""Answers of a query as they come: lines of JSON, server-sent events, or messages of a WebSocket."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.serve.app_context import AppContext, ListenerResponse, accepts
from freshkeeper.maintenance.serve.operation import EVENTS, LINES, Parameters, Role, operation
from freshkeeper.maintenance.serve.problems import problem_response
from freshkeeper.maintenance.serve.security import PROTOCOL
from freshkeeper.maintenance.serve.subscription import Subscription

TOO_SLOW_MESSAGE = "you were too slow; ask again with the last instant that you have"
GOING_AWAY = 1001
TOO_SLOW = 1013
"""Status codes of closed WebSockets (RFC 6455, and IANA's "try again later")."""


class AnswersParameters(Parameters):
    """A query, and the instant after which a client wants its answers."""

    name: str = Field(description="the name of the query")
    after: int | None = Field(default=None, description="the last instant that the client has; default: from now on")
    last_event: int | None = Field(default=None, alias="Last-Event-ID", description="the same, as browsers send it")

    @property
    def since(self) -> int | None:
        """The last instant that the client has; None: from now on."""
        return self.after if self.last_event is None else self.last_event


@operation("GET", "/queries/{name}/answers", gives={LINES: None, EVENTS: None},
           problems=[HTTPStatus.TOO_MANY_REQUESTS])  # fmt: skip
async def answers(context: AppContext, request: Request, parameters: AnswersParameters) -> Response:
    """Stream the answers of a query from now on, or after an instant, as lines of JSON or server-sent events."""
    one = context.service.queries.find(parameters.name)
    subscription = Subscription(context.service.queries.answers, one.name, parameters.since)
    body, media_type = _lines(context, subscription), LINES
    if accepts(request, EVENTS):
        body, media_type = _events(context, subscription), EVENTS
    return ListenerResponse(context, subscription, body, media_type)


async def _events(context: AppContext, subscription: Subscription) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    async for line in lines_of(context, subscription):
        yield b": still here\n\n" if line is None else b"id: %d\ndata: %b\n\n" % (line[0], line[1].rstrip())
    if subscription.dropped:
        yield b"event: dropped\ndata: %b\n\n" % TOO_SLOW_MESSAGE.encode()


async def _lines(context: AppContext, subscription: Subscription) -> AsyncIterator[bytes]:
    async for line in lines_of(context, subscription):
        yield b"\n" if line is None else line[1]


async def lines_of(context: AppContext, subscription: Subscription) -> AsyncIterator[tuple[int, bytes] | None]:
    """Yield the lines of a subscription, until the service ends it."""
    context.subscriptions.add(subscription)
    if context.ended:
        subscription.close()
    try:
        async for line in subscription.lines():
            yield line
    finally:
        context.subscriptions.discard(subscription)


async def socket(context: AppContext, websocket: WebSocket) -> None:
    """Send answers over a WebSocket: a message for each line, empty messages as keep-alive."""
    try:
        context.guard.check(websocket, Role.READ)
        parameters = validated(AnswersParameters, {**websocket.query_params, **websocket.path_params})
        one = context.service.queries.find(parameters.name)
        subscription = Subscription(context.service.queries.answers, one.name, parameters.since)
        context.admit(subscription)
    except Exception as error:
        await websocket.send_denial_response(await problem_response(websocket, error))
        return
    try:
        await websocket.accept(PROTOCOL if PROTOCOL in websocket.scope["subprotocols"] else None)
        sending = asyncio.create_task(_messages(context, websocket, subscription))
        try:
            while (await websocket.receive())["type"] != "websocket.disconnect":
                pass  # messages of the client mean nothing; reading them notices its end
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    finally:
        context.leave(subscription)


async def _messages(context: AppContext, websocket: WebSocket, subscription: Subscription) -> None:
    async for line in lines_of(context, subscription):
        await websocket.send_text("" if line is None else line[1].decode().rstrip())
    if subscription.dropped:
        await websocket.close(TOO_SLOW, TOO_SLOW_MESSAGE)
    else:
        await websocket.close(GOING_AWAY, "the service ends")


OPERATIONS = [answers]
SOCKETS = {"/queries/{name}/answers": socket}
