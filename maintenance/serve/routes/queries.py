"""Queries: register, explain, pause, resume, delete."""

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
from freshkeeper.maintenance.serve.app_context import AppContext, json_response, media_type_of, read_json, read_text
from freshkeeper.maintenance.serve.operation import JSON, Parameters, operation
from freshkeeper.maintenance.serve.registrations import NAME, evaluator_of


class QueryParameters(Parameters):
    """The name of a query, in the path."""

    name: str = Field(description="the name of the query")


class TextParameters(Parameters):
    """Name and dialect of a query whose text is the body."""

    name: str = Field(default="", description="the name of the new query, if the body is its text")
    dialect: str = Field(default="", description=f"{NAMES}; default: detected from the text")


class NewQuery(BaseModel):
    """A query to register."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="its name", json_schema_extra={"pattern": f"^{NAME.pattern}$"})
    query: str = Field(description="its text")
    dialect: str = Field(default="", description=f"{NAMES}; default: detected from the text")


class QueryStatus(BaseModel):
    """The state of a query."""

    name: str
    state: str = Field(description="running, paused or failed")
    query: str = Field(description="its text")
    evaluator: str | None = Field(default=None, description="native or snapshot")
    streams: list[str] = Field(default=[], description="the streams that it reads")
    answered: int | None = Field(default=None, description="the instant of the last evaluation whose answers are out")
    failure: str | None = Field(default=None, description="why it failed")


class QueriesStatus(BaseModel):
    """The registered queries."""

    queries: list[QueryStatus]


@operation("GET", "/queries", gives=QueriesStatus)
async def queries(context: AppContext) -> Response:
    """Return all registered queries."""
    registered = list(context.service.queries.all.values())
    return json_response({"queries": [query_as_json(context, one) for one in registered]})


@operation("POST", "/queries", status=HTTPStatus.CREATED, gives=QueryStatus,
           takes={JSON: NewQuery, "text/plain": None},
           problems=[HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS])  # fmt: skip
async def register(context: AppContext, request: Request, parameters: TextParameters) -> Response:
    """Register a query: {"name": ..., "query": ...}, or its text with ?name=..."""
    body = await context.body(request)
    if media_type_of(request) == JSON:
        new = validated(NewQuery, read_json(body))
    else:
        new = NewQuery(name=parameters.name, query=read_text(body), dialect=parameters.dialect)
    one = await asyncio.to_thread(context.service.register, new.name, new.query, new.dialect)
    return json_response(query_as_json(context, one), HTTPStatus.CREATED, {"Location": f"/queries/{one.name}"})


@operation("GET", "/queries/{name}", gives=QueryStatus)
async def query(context: AppContext, parameters: QueryParameters) -> Response:
    """Return a query: its text, its state, and its last evaluation."""
    return json_response(query_as_json(context, context.service.queries.find(parameters.name)))


@operation("GET", "/queries/{name}/explain")
async def explain(context: AppContext, parameters: QueryParameters) -> Response:
    """Explain a query: its windows, how its SERVICE patterns split, its evaluator and plan."""
    service, one = context.service, context.service.queries.find(parameters.name)
    return json_response(await asyncio.to_thread(service.queries.explained, one))


@operation("DELETE", "/queries/{name}", status=HTTPStatus.NO_CONTENT)
async def delete(context: AppContext, parameters: QueryParameters) -> Response:
    """Delete a query with its views and answers."""
    return await _call(context.service.delete, parameters)


@operation("POST", "/queries/{name}/pause", status=HTTPStatus.NO_CONTENT)
async def pause(context: AppContext, parameters: QueryParameters) -> Response:
    """Pause a query: it reads no elements until it is resumed."""
    return await _call(context.service.pause, parameters)


@operation("POST", "/queries/{name}/resume", status=HTTPStatus.NO_CONTENT)
async def resume(context: AppContext, parameters: QueryParameters) -> Response:
    """Resume a query with empty windows and the views that it had."""
    return await _call(context.service.resume, parameters)


async def _call(action: Callable[[str], object], parameters: QueryParameters) -> Response:
    await asyncio.to_thread(action, parameters.name)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def query_as_json(context: AppContext, one: RegisteredQuery) -> dict[str, Any]:
    """Return a query as responses have it."""
    service = context.service
    running = service.queries.running.get(one.name)
    found: dict[str, Any] = {"name": one.name, "state": context.status.state(service, one.name), "query": one.text}
    if running is not None:
        found |= {
            "evaluator": evaluator_of(running).value,
            "streams": list(running.streams),
            "answered": service.queries.progress(one.name).answered,
        }
    if failure := service.failures.get(one.name):
        found["failure"] = failure
    return found


OPERATIONS = [queries, register, query, explain, delete, pause, resume]
