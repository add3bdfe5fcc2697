"""The service over HTTP: every address that it has."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from freshkeeper.maintenance.serve.door import Door
from freshkeeper.maintenance.serve.operation import Operation, routes_of
from freshkeeper.maintenance.serve.problems import HANDLERS
from freshkeeper.maintenance.serve.routes import answers, health, queries, status, streams

OPERATIONS: Sequence[Operation] = [
    *health.OPERATIONS,
    *status.OPERATIONS,
    *queries.OPERATIONS,
    *answers.OPERATIONS,
    *streams.OPERATIONS,
]
"""In the order of the OpenAPI document."""


def application(door: Door, more: Sequence[BaseRoute] = ()) -> Starlette:
    """All addresses, and some that no document speaks of."""
    return Starlette(routes=[*routes_of(OPERATIONS, door), *more], exception_handlers=HANDLERS)
