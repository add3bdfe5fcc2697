"""The HTTP application of a service: all addresses."""

from collections.abc import Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from freshkeeper.maintenance.serve.app_context import AppContext, json_response
from freshkeeper.maintenance.serve.live_page import page_routes
from freshkeeper.maintenance.serve.openapi import openapi
from freshkeeper.maintenance.serve.operation import Operation, Role, operation, routes_of
from freshkeeper.maintenance.serve.problems import HANDLERS
from freshkeeper.maintenance.serve.routes import answers, health, queries, rows, sources, status, streams, views


@operation("GET", "/openapi.json", Role.PUBLIC)
async def document(_: AppContext) -> Response:
    """Return this document: every address, its parameters, bodies and responses."""
    return json_response(openapi(OPERATIONS))


OPERATIONS: Sequence[Operation] = [
    *health.OPERATIONS,
    *status.OPERATIONS,
    *queries.OPERATIONS,
    *answers.OPERATIONS,
    *streams.OPERATIONS,
    *views.OPERATIONS,
    *rows.OPERATIONS,
    *sources.OPERATIONS,
    document,
]
"""In the order of the OpenAPI document."""


def application(context: AppContext) -> Starlette:
    """Return the application: the operations, and WebSockets and the live page, which OpenAPI does not describe."""
    sockets = [WebSocketRoute(path, partial(handle, context)) for path, handle in answers.SOCKETS.items()]
    return Starlette(routes=[*routes_of(OPERATIONS, context), *sockets, *page_routes()], exception_handlers=HANDLERS)
