"""Queries: registered, explained, paused, deleted."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.query.parser import NAMES
from freshkeeper.maintenance.runtime.query_set import NAME
from freshkeeper.maintenance.serve.door import Door, json_response, kind_of, read_json, read_text
from freshkeeper.maintenance.serve.operation import JSON, Parameters, operation

NAMED = Field(description="what the query is called")


class Nothing(Parameters):
    """Nothing is to be said."""


class Named(Parameters):
    """The name of a query, in the path."""

    name: str = NAMED


class TextOf(Parameters):
    """What belongs to a query whose text is the body."""

    name: str = Field(default="", description="what it is called from now on, where the body is its text alone")
    dialect: str = Field(default="", description=f"{NAMES}; empty: as it looks")


class NewQuery(BaseModel):
    """What registers a query."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="what it is called from now on", json_schema_extra={"pattern": f"^{NAME.pattern}$"})
    query: str = Field(description="its text")
    dialect: str = Field(default="", description=f"{NAMES}; empty: as it looks")


class QueryStatus(BaseModel):
    """What is told of a query."""

    name: str
    state: str = Field(description="running, paused or failed")
    query: str = Field(description="its text")
    evaluator: str | None = Field(default=None, description="native or snapshot")
    streams: list[str] = Field(default=[], description="those that it reads")
    answered: int | None = Field(default=None, description="the instant of the last evaluation that is out")
    failure: str | None = Field(default=None, description="why it ended")


class QueriesStatus(BaseModel):
    """Every query that is registered."""

    queries: list[QueryStatus]


@operation("GET", "/queries", gives=QueriesStatus)
async def queries(door: Door, request: Request, parameters: Nothing) -> Response:
    """All queries that are registered."""
    del request, parameters
    return json_response({"queries": [query_as_json(door, one) for one in list(door.service.queries.all.values())]})


@operation("POST", "/queries", status=HTTPStatus.CREATED, gives=QueryStatus,
           takes={JSON: NewQuery, "text/plain": None},
           problems=[HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS])  # fmt: skip
async def register(door: Door, request: Request, parameters: TextOf) -> Response:
    """One query more: as {"name": ..., "query": ...}, or its text with ?name=..."""
    body = await door.body(request)
    if kind_of(request) == JSON:
        new = validated(NewQuery, read_json(body))
    else:
        new = NewQuery(name=parameters.name, query=read_text(body), dialect=parameters.dialect)
    one = await asyncio.to_thread(door.service.register, new.name, new.query, new.dialect)
    return json_response(query_as_json(door, one), HTTPStatus.CREATED, {"Location": f"/queries/{one.name}"})


@operation("GET", "/queries/{name}", gives=QueryStatus)
async def query(door: Door, request: Request, parameters: Named) -> Response:
    """One query: its text, its state, how far it is."""
    del request
    return json_response(query_as_json(door, door.service.queries.named(parameters.name)))


@operation("GET", "/queries/{name}/explain")
async def explain(door: Door, request: Request, parameters: Named) -> Response:
    """What it means: its windows, how its SERVICE patterns split, and which evaluator runs it by which plan."""
    del request
    service, one = door.service, door.service.queries.named(parameters.name)
    return json_response(await asyncio.to_thread(service.queries.explained, one))


@operation("DELETE", "/queries/{name}", status=HTTPStatus.NO_CONTENT)
async def delete(door: Door, request: Request, parameters: Named) -> Response:
    """The query, its views and its answers are no more."""
    del request
    return await _done(door.service.delete, parameters)


@operation("POST", "/queries/{name}/pause", status=HTTPStatus.NO_CONTENT)
async def pause(door: Door, request: Request, parameters: Named) -> Response:
    """It sees no elements for a while."""
    del request
    return await _done(door.service.pause, parameters)


@operation("POST", "/queries/{name}/resume", status=HTTPStatus.NO_CONTENT)
async def resume(door: Door, request: Request, parameters: Named) -> Response:
    """It goes on with empty windows and the views that it had."""
    del request
    return await _done(door.service.resume, parameters)


async def _done(what: Callable[[str], None], parameters: Named) -> Response:
    await asyncio.to_thread(what, parameters.name)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def query_as_json(door: Door, one: RegisteredQuery) -> dict[str, Any]:
    """What is said of a query."""
    service, running = door.service, door.service.queries.running.get(one.name)
    failure = service.failures.get(one.name)
    state = "failed" if failure else "running" if running is not None else "paused"
    found: dict[str, Any] = {"name": one.name, "state": state, "query": one.text}
    if running is not None:
        found |= {
            "evaluator": "snapshot" if running.dictionary is None else "native",
            "streams": list(running.streams),
            "answered": service.queries.progress(one.name).answered,
        }
    return found | ({"failure": failure} if failure else {})


OPERATIONS = [queries, register, query, explain, delete, pause, resume]
