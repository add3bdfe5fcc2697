"""Sources: what they may be asked, what they were asked, and what answers that were checked said."""

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
from freshkeeper.maintenance.serve.door import Door, json_response, wants
from freshkeeper.maintenance.serve.operation import LINES, Parameters, operation
from freshkeeper.maintenance.serve.problems import Problem
from freshkeeper.maintenance.serve.routes.queries import Nothing
from freshkeeper.maintenance.serve.service_status import CHECKED

PARQUET = "application/vnd.apache.parquet"
BATCH = 1_000


class SourceNamed(Parameters):
    """The IRI of a source, in the path."""

    name: str = Field(description="the IRI of the source")


class SourceStatus(BaseModel):
    """A source: what it charges, and what its limits leave."""

    name: str
    kind: str = Field(description="embedded or remote")
    volatile: list[str] = Field(description="the predicates that change")
    price: dict[str, float]
    limits: list[dict[str, Any]] = Field(description="each rate, and how many requests it takes now")
    breaker: dict[str, Any] | None = Field(description="closed, open or probing")
    room: float | None = Field(description="requests that it takes now; null: any number")
    under_way: int = Field(description="requests that are late")
    sent: int | None = Field(description="requests so far")
    spent: float = Field(description="cost units, over the views of running queries")
    requests: float = Field(description="of the last evaluations")
    errors: float = Field(description="of the last evaluations")
    last_error: str | None


class SourcesStatus(BaseModel):
    """Every source that queries ask."""

    sources: list[SourceStatus]


class Checked(Parameters):
    """How far back audits are wanted."""

    limit: int = Field(default=100, ge=1, le=CHECKED, description="the last so many")


class AuditCounts(BaseModel):
    """Answers that were checked."""

    audits: list[dict[str, Any]]


class TablesList(BaseModel):
    """What a journal has."""

    tables: dict[str, int] = Field(description="the rows of each table")


class Rows(Parameters):
    """Which rows of a journal."""

    table: str = Field(description=", ".join(TABLES))
    after: int | None = Field(default=None, description="those after this instant alone")


@operation("GET", "/sources", gives=SourcesStatus)
async def sources(door: Door, request: Request, parameters: Nothing) -> Response:
    """All sources with their limits, their breaker and what they cost."""
    del request, parameters
    return json_response({"sources": [door.status.source(door.service, name) for name in door.service.queries.sources]})


@operation("GET", "/sources/{name:path}", gives=SourceStatus)
async def source(door: Door, request: Request, parameters: SourceNamed) -> Response:
    """One source: what it charges, and what its limits leave."""
    del request
    if parameters.name not in (known := door.service.queries.sources):
        raise UnknownNameError("source", parameters.name, known)
    return json_response(door.status.source(door.service, parameters.name))


@operation("GET", "/audits", gives=AuditCounts)
async def audits(door: Door, request: Request, parameters: Checked) -> Response:
    """The last answers that were fetched again to check them: what they were made of, and whether it was fresh."""
    del request
    return json_response({"audits": list(door.status.audits)[-parameters.limit :]})


@operation("GET", "/journal", gives=TablesList)
async def journal(door: Door, request: Request, parameters: Nothing) -> Response:
    """What the journal has."""
    del request, parameters
    read = _journal_of(door)
    return json_response({"tables": {name: (await asyncio.to_thread(read, name)).num_rows for name in TABLES}})


@operation("GET", "/journal/{table}", gives={LINES: None, PARQUET: None})
async def rows(door: Door, request: Request, parameters: Rows) -> Response:
    """The rows of one table as lines of JSON, or as a Parquet file with `Accept: application/vnd.apache.parquet`."""
    found = await asyncio.to_thread(_journal_of(door), parameters.table)
    if parameters.after is not None:
        found = found.take(np.flatnonzero(found["t_ms"].to_numpy() > parameters.after))
    if not wants(request, PARQUET):
        return StreamingResponse(_lines(found), media_type=LINES)
    file = io.BytesIO()
    await asyncio.to_thread(parquet.write_table, found, file, compression="zstd")
    named = {"Content-Disposition": f'attachment; filename="{parameters.table}.parquet"'}
    return Response(file.getvalue(), media_type=PARQUET, headers=named)


def _journal_of(door: Door) -> Any:
    if door.service.journal.directory is None:
        raise Problem(HTTPStatus.NOT_FOUND, "this service keeps no journal: give journal in its config")
    return door.service.journal.read


def _lines(found: "pa.Table") -> Iterator[bytes]:
    for begin in range(0, found.num_rows, BATCH):
        rows = found.slice(begin, BATCH).to_pylist()
        yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


OPERATIONS = [sources, source, audits, journal, rows]
