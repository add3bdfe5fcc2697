"""The service over HTTP: every address that it has."""

from collections.abc import Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from freshkeeper.maintenance.serve.door import Door, json_response
from freshkeeper.maintenance.serve.live_page import page_routes
from freshkeeper.maintenance.serve.openapi import openapi
from freshkeeper.maintenance.serve.operation import Operation, Role, operation, routes_of
from freshkeeper.maintenance.serve.problems import HANDLERS
from freshkeeper.maintenance.serve.routes import answers, health, queries, sources, status, streams, views
from freshkeeper.maintenance.serve.routes.queries import Nothing


@operation("GET", "/openapi.json", Role.ANYBODY)
async def document(door: Door, request: Request, given: Nothing) -> Response:
    """This document: every address, what it takes and what it answers."""
    del door, request, given
    return json_response(openapi(OPERATIONS))


OPERATIONS: Sequence[Operation] = [
    *health.OPERATIONS,
    *status.OPERATIONS,
    *queries.OPERATIONS,
    *answers.OPERATIONS,
    *streams.OPERATIONS,
    *views.OPERATIONS,
    *sources.OPERATIONS,
    document,
]
"""In the order of the OpenAPI document."""


def application(door: Door) -> Starlette:
    """All addresses, and sockets and the page, which no document speaks of."""
    sockets = [WebSocketRoute(path, partial(handle, door)) for path, handle in answers.SOCKETS.items()]
    return Starlette(routes=[*routes_of(OPERATIONS, door), *sockets, *page_routes()], exception_handlers=HANDLERS)
