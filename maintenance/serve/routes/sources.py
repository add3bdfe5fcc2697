"""Sources with their limits and cost, audited answers, and the journal."""

import asyncio
import io
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from freshkeeper.maintenance.base.errors import UnknownNameError
from freshkeeper.maintenance.runtime.query_journal import TABLES
from freshkeeper.maintenance.serve.app_context import AppContext, accepts, json_response
from freshkeeper.maintenance.serve.operation import LINES, Parameters, operation
from freshkeeper.maintenance.serve.problems import Problem
from freshkeeper.maintenance.serve.service_status import MAX_AUDITS

PARQUET = "application/vnd.apache.parquet"
ROWS_PER_CHUNK = 1_000


class SourceParameters(Parameters):
    """The IRI of a source, in the path."""

    name: str = Field(description="the IRI of the source")


class SourceStatus(BaseModel):
    """A source: its price, its limits, and what it cost."""

    name: str
    kind: str = Field(description="embedded or remote")
    volatile: list[str] = Field(description="the predicates that change")
    price: dict[str, float]
    limits: list[dict[str, Any]] = Field(description="each rate limit, and how many requests it permits now")
    breaker: dict[str, Any] | None = Field(description="closed, open or probing")
    room: float | None = Field(description="requests that all limits permit now; null: any number")
    under_way: int = Field(description="requests in flight")
    sent: int | None = Field(description="requests sent so far")
    spent: float = Field(description="cost units, over the views of running queries")
    requests: float = Field(description="in the last evaluations")
    errors: float = Field(description="in the last evaluations")
    last_error: str | None


class SourcesStatus(BaseModel):
    """The sources of the service."""

    sources: list[SourceStatus]


class AuditParameters(Parameters):
    """The number of audits that a client requests."""

    limit: int = Field(default=100, ge=1, le=MAX_AUDITS, description="the number of audits, the last ones")


class AuditCounts(BaseModel):
    """Audited answers."""

    audits: list[dict[str, Any]]


class TablesList(BaseModel):
    """The tables of the journal."""

    tables: dict[str, int] = Field(description="the number of rows of each table")


class TableParameters(Parameters):
    """A table of the journal, and the instant after which a client wants its rows."""

    table: str = Field(description=", ".join(TABLES))
    after: int | None = Field(default=None, description="only rows after this instant")


@operation("GET", "/sources", gives=SourcesStatus)
async def sources(context: AppContext) -> Response:
    """Return all sources with their limits, circuit breakers and cost."""
    service = context.service
    return json_response({"sources": [context.status.source(service, name) for name in service.queries.sources]})


@operation("GET", "/sources/{name:path}", gives=SourceStatus)
async def source(context: AppContext, parameters: SourceParameters) -> Response:
    """Return a source with its limits, circuit breaker and cost."""
    if parameters.name not in context.service.queries.sources:
        raise UnknownNameError("source", parameters.name, context.service.queries.sources)
    return json_response(context.status.source(context.service, parameters.name))


@operation("GET", "/audits", gives=AuditCounts)
async def audits(context: AppContext, parameters: AuditParameters) -> Response:
    """Return the last audited answers: the entries that were fetched again, and whether the answer was fresh."""
    return json_response({"audits": list(context.status.audits)[-parameters.limit :]})


@operation("GET", "/journal", gives=TablesList)
async def journal(context: AppContext) -> Response:
    """Return the tables of the journal with their numbers of rows."""
    read = _journal_of(context)
    return json_response({"tables": {name: (await asyncio.to_thread(read, name)).num_rows for name in TABLES}})


@operation("GET", "/journal/{table}", gives={LINES: None, PARQUET: None})
async def rows(context: AppContext, request: Request, parameters: TableParameters) -> Response:
    """Return rows of a table as lines of JSON, or as Parquet with `Accept: application/vnd.apache.parquet`."""
    table = await asyncio.to_thread(_journal_of(context), parameters.table)
    if parameters.after is not None:
        table = table.take(np.flatnonzero(table["t_ms"].to_numpy() > parameters.after))
    if not accepts(request, PARQUET):
        return StreamingResponse(_lines(table), media_type=LINES)
    file = io.BytesIO()
    await asyncio.to_thread(parquet.write_table, table, file, compression="zstd")
    headers = {"Content-Disposition": f'attachment; filename="{parameters.table}.parquet"'}
    return Response(file.getvalue(), media_type=PARQUET, headers=headers)


def _journal_of(context: AppContext) -> Any:
    if context.service.journal.directory is None:
        raise Problem(HTTPStatus.NOT_FOUND, "this service keeps no journal: give journal in its config")
    return context.service.journal.read


def _lines(table: "pa.Table") -> Iterator[bytes]:
    for begin in range(0, table.num_rows, ROWS_PER_CHUNK):
        rows = table.slice(begin, ROWS_PER_CHUNK).to_pylist()
        yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


OPERATIONS = [sources, source, audits, journal, rows]
