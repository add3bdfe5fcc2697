"""The status of a service: once, or as it changes."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from freshkeeper.maintenance.serve.app_context import AppContext, ListenerResponse, accepts, json_response
from freshkeeper.maintenance.serve.operation import EVENTS, JSON, Parameters, operation
from freshkeeper.maintenance.serve.service_status import HISTORY_SIZE
from freshkeeper.maintenance.serve.status_feed import POLL_INTERVAL_S


class StatusParameters(Parameters):
    """The history that a client requests."""

    history: int = Field(
        default=0, ge=0, le=HISTORY_SIZE, description="the number of past evaluations to return, in columns"
    )


@operation("GET", "/status", gives={JSON: None, EVENTS: None}, problems=[HTTPStatus.TOO_MANY_REQUESTS])
async def status(context: AppContext, request: Request, parameters: StatusParameters) -> Response:
    """Return the state of queries, views, sources and streams; as server-sent events whenever it changes.

    The first event has the requested history, later events have the last evaluation only.
    """
    if not accepts(request, EVENTS):
        text = await asyncio.to_thread(_text, context, parameters.history)
        return Response(text, headers={"Cache-Control": "no-store"}, media_type=JSON)
    return ListenerResponse(context, request, _events(context, parameters.history), EVENTS)


async def _events(context: AppContext, history: int) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    feed = context.feed
    sent = feed.number
    yield _event(context, await asyncio.to_thread(_text, context, history))
    while not context.ended:
        await asyncio.sleep(POLL_INTERVAL_S)
        await feed.update(context.status.version, partial(_text, context))
        if feed.number != sent:
            sent = feed.number
            yield _event(context, feed.text)


def _event(context: AppContext, text: bytes) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (context.status.version, text)


def _text(context: AppContext, history: int = 0) -> bytes:
    return bytes(json_response(context.status.as_json(context.service, history)).body)


OPERATIONS = [status]
