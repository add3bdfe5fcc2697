"""Rows by key: read, write, invalidate and hint, one key or many."""

import json
import zlib
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from freshkeeper.maintenance.base.errors import UnknownNameError
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.enricher.row import CachedRow
from freshkeeper.maintenance.serve.app_context import AppContext, accepts, json_response, media_type_of, read_json
from freshkeeper.maintenance.serve.operation import JSON, LINES, Parameters, Role, operation
from freshkeeper.maintenance.serve.problems import Problem, problem
from freshkeeper.maintenance.serve.row_caches import RowCache, RowsConfig

MAX_KEYS = 100_000
"""Keys of one request."""
ROWS_PER_CHUNK = 500
OF_SLASHES = [HTTPStatus.METHOD_NOT_ALLOWED]
"""The status of a name with a slash in it, which is the address of a key."""


class NameParameters(Parameters):
    """The name of rows, in the path."""

    name: str = Field(description="what the config calls the rows")


class RowParameters(NameParameters):
    """A key, in the path."""

    key: str = Field(description="the key")


class ReadParameters(RowParameters):
    """A key, and what the client demands of its row."""

    max_age: str | None = Field(default=None, description="demand a row that is at most so old, as 30s")
    min_freshness: float | None = Field(default=None, description="demand a row that is right with this probability")
    max_wait: str | None = Field(default=None, description="how long to wait at most, as 500ms; 0s: not at all")
    etags: str = Field(default="", alias="If-None-Match", description="the ETag of the last response")


class KeyList(BaseModel):
    """Keys of rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: list[str | int] = Field(description="the keys", max_length=MAX_KEYS)


class Hints(KeyList):
    """Keys of rows that may have changed."""

    at: float | None = Field(default=None, description="when, in seconds since the epoch; default: now")


class RowResult(BaseModel):
    """The row of a key."""

    key: str | int
    value: Any = Field(description="null where the source has no such key, or where nothing is known")
    freshness: float = Field(description="the probability that the source still has this; 0 where nothing is known")
    age_ms: int | None = Field(description="the time since it was fetched; null where nothing is known")
    hit: bool = Field(description="whether it was in the cache")
    error: str | None = Field(description="why nothing is known, or why an old row could not be fetched again")


class RowResults(BaseModel):
    """The rows of several keys, in their order."""

    rows: list[RowResult]


class RowCaches(BaseModel):
    """The rows that the service has, with their numbers."""

    rows: dict[str, dict[str, Any]]


@operation("GET", "/rows", gives=RowCaches)
async def row_caches(context: AppContext) -> Response:
    """Return what the config calls its rows, with hits, requests and the budget of each."""
    told = {name: vars(cache.stats()) for name, cache in context.rows.items()}
    return json_response({"rows": told})


@operation("GET", "/rows/{name}/{key:path}", gives=RowResult,
           problems=[HTTPStatus.NOT_MODIFIED, HTTPStatus.SERVICE_UNAVAILABLE, *OF_SLASHES])  # fmt: skip
async def row(context: AppContext, parameters: ReadParameters) -> Response:
    """Return the row of a key, with `Age` and `ETag`; 404 if the source has no such key."""
    cache, config = _cache(context, parameters.name)
    key = config.key_of(parameters.key)
    found = await cache.get(
        key, max_age=parameters.max_age, min_freshness=parameters.min_freshness, max_wait=parameters.max_wait
    )
    if found.age is None:
        why = found.error or "nothing is known of this key"
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, why, {"Retry-After": "1"})
    headers = {"Age": str(int(found.age)), "Cache-Control": "no-cache"}
    if found.value is None:
        return problem(HTTPStatus.NOT_FOUND, f"the source has no row for {parameters.key!r:.200}", headers)
    body = json_response(_as_json(key, found)).body
    value = json.dumps(found.value, default=str, sort_keys=True).encode()
    headers["ETag"] = tag = f'W/"{zlib.crc32(value):08x}-{len(value):x}"'
    if parameters.etags.strip() == "*" or tag in map(str.strip, parameters.etags.split(",")):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, headers=headers, media_type=JSON)


@operation(
    "POST", "/rows/{name}", role=Role.READ, gives={JSON: RowResults, LINES: None}, takes={JSON: KeyList, LINES: None},
           problems=OF_SLASHES)  # fmt: skip
async def rows(context: AppContext, request: Request, parameters: NameParameters) -> Response:
    """Return the rows of many keys: {"keys": [...]}, or a key as JSON on each line.

    Clients that accept application/x-ndjson get a line for each row, as soon as it is there.
    """
    cache, config = _cache(context, parameters.name)
    keys = await _keys(context, request, config)
    if accepts(request, LINES):
        return StreamingResponse(_lines(cache, keys), media_type=LINES)
    found = await cache.get_many(keys)
    return json_response({"rows": [_as_json(key, one) for key, one in zip(keys, found, strict=True)]})


@operation("PUT", "/rows/{name}/{key:path}", status=HTTPStatus.NO_CONTENT, takes={JSON: None}, problems=OF_SLASHES)
async def put_row(context: AppContext, request: Request, parameters: RowParameters) -> Response:
    """Store a row that the client has read, or written, at the source."""
    cache, config = _cache(context, parameters.name)
    cache.put(config.key_of(parameters.key), read_json(await context.body(request)))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@operation("DELETE", "/rows/{name}/{key:path}", status=HTTPStatus.NO_CONTENT, problems=OF_SLASHES)
async def forget_row(context: AppContext, parameters: RowParameters) -> Response:
    """Drop a row, and what was learned of it."""
    cache, config = _cache(context, parameters.name)
    cache.forget(config.key_of(parameters.key))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@operation("POST", "/rows/{name}/invalidate", status=HTTPStatus.NO_CONTENT, takes={JSON: KeyList}, problems=OF_SLASHES)
async def invalidate_rows(context: AppContext, request: Request, parameters: NameParameters) -> Response:
    """Take rows to be wrong: their next read fetches them."""
    cache, config = _cache(context, parameters.name)
    for key in await _keys(context, request, config):
        cache.invalidate(key)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@operation("POST", "/rows/{name}/hints", status=HTTPStatus.NO_CONTENT, takes={JSON: Hints}, problems=OF_SLASHES)
async def hint_rows(context: AppContext, request: Request, parameters: NameParameters) -> Response:
    """Take in hints that rows may have changed; how often hints are right is learned."""
    cache, config = _cache(context, parameters.name)
    hints = validated(Hints, read_json(await context.body(request)))
    for key in hints.keys:
        cache.may_have_changed(config.key_of(str(key)), hints.at)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _cache(context: AppContext, name: str) -> tuple[RowCache, RowsConfig]:
    if name not in context.rows:
        raise UnknownNameError("rows", name, context.rows)
    return context.rows[name], context.row_configs[name]


async def _keys(context: AppContext, request: Request, config: RowsConfig) -> list[Any]:
    body = await context.body(request)
    if media_type_of(request) == LINES:
        found = [read_json(line) for line in body.splitlines() if line.strip()]
        keys = validated(KeyList, {"keys": found}).keys
    else:
        keys = validated(KeyList, read_json(body)).keys
    if not keys:
        raise Problem(HTTPStatus.BAD_REQUEST, "there are no keys")
    return [config.key_of(str(key)) for key in keys]


async def _lines(cache: RowCache, keys: Sequence[Any]) -> AsyncIterator[bytes]:
    for first in range(0, len(keys), ROWS_PER_CHUNK):
        chunk = keys[first : first + ROWS_PER_CHUNK]
        found = await cache.get_many(chunk)
        texts = [json_response(_as_json(key, one)).body for key, one in zip(chunk, found, strict=True)]
        yield b"\n".join(map(bytes, texts)) + b"\n"


def _as_json(key: Any, found: CachedRow[Any]) -> dict[str, Any]:
    return {
        "key": key,
        "value": found.value,
        "freshness": found.freshness,
        "age_ms": None if found.age is None else int(found.age * 1000),
        "hit": found.hit,
        "error": found.error,
    }


OPERATIONS = [row_caches, row, rows, put_row, forget_row, invalidate_rows, hint_rows]
