"""Look-ups: what the views of queries hold of a key."""

import asyncio
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from freshkeeper.maintenance.base.field_types import Duration
from freshkeeper.maintenance.serve.app_context import AppContext, json_response
from freshkeeper.maintenance.serve.look_up import UnknownKeyError, tag_of
from freshkeeper.maintenance.serve.operation import Parameters, operation

MAX_WAIT_MS = 60_000


class KeyParameters(Parameters):
    """A key of a source."""

    address: str = Field(
        description="SOURCE/KEY: the IRI of a source, a slash, and a key, as http://example.org/blog/http://example.org/ann"
    )
    query: str = Field(default="", description="look in the views of this query alone")


class LookUpParameters(KeyParameters):
    """A key, and the values of it that the client has."""

    etags: str = Field(default="", alias="If-None-Match", description="the ETag of the last response")


class FetchParameters(KeyParameters):
    """A key of a source that is to be fetched."""

    wait: Duration = Field(default=2_000, le=MAX_WAIT_MS, description="how long to wait for it, as 2s")


class CachedEntry(BaseModel):
    """A cached entry with its age and the probability that it is still right."""

    entry: str = Field(description="its key")
    rows: list[dict[str, Any]] = Field(description="its bindings, as in SPARQL's JSON results")
    age_ms: int = Field(description="the time since it was fetched")
    fetched_ms: int = Field(description="when it was fetched, in event time")
    freshness: float | None = Field(description="the probability that it is fresh; null before the first evaluation")
    refreshing: bool = Field(description="whether a request for it is in flight")


class ViewEntries(BaseModel):
    """The entries of one view."""

    queries: list[str] = Field(description="the queries that have the view")
    entries: list[CachedEntry]


class LookUpResult(BaseModel):
    """The entries of a key in all views."""

    source: str
    key: str
    views: list[ViewEntries]
    fetched: bool | None = Field(description="whether it was fetched for this request; null: nobody asked for that")


@operation("GET", "/views/{address:path}", gives=LookUpResult, problems=[HTTPStatus.NOT_MODIFIED])
async def look_up(context: AppContext, parameters: LookUpParameters) -> Response:
    """Return what views hold of a key: its rows, their age, the probability that they are fresh, requests in flight.

    A lookup key has the rows of all cached entries that it needs, a cached entry its own. Keys are IRIs or literals as
    in N-Triples, or bare; the terms of a key are separated by spaces. `Age` is the age of the oldest entry. A key that
    no window asked for is not fetched: queries determine what a view holds.
    """
    headers, found = _looked_up(context, parameters)
    tag = headers["ETag"]
    if parameters.etags.strip() == "*" or tag in map(str.strip, parameters.etags.split(",")):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return json_response(found | {"fetched": None}, headers=headers)


@operation("POST", "/views/{address:path}", gives=LookUpResult)
async def fetch(context: AppContext, request: Request, parameters: FetchParameters) -> Response:
    """Fetch a key first in the next evaluation, within its budget, and return what views hold of it then."""
    source, key = _split_address(context, parameters.address)
    fetching = asyncio.ensure_future(
        context.look_ups.fetch(context.service.queries, source, key, parameters.query, parameters.wait / 1000)
    )
    leaving = asyncio.ensure_future(_client_leaves(request))
    try:
        await asyncio.wait([fetching, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not fetching.done():
            return Response(status_code=HTTPStatus.NO_CONTENT)  # to nobody
        headers, found = _looked_up(context, parameters)
        return json_response(found | {"fetched": fetching.result()}, headers=headers)
    finally:
        fetching.cancel()
        leaving.cancel()


async def _client_leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # a body means nothing here


def _looked_up(context: AppContext, parameters: KeyParameters) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what views hold of a key, with the headers of a response."""
    source, key = _split_address(context, parameters.address)
    views = context.look_ups.find(context.service.queries, source, key, parameters.query)
    age = max(entry["age_ms"] for view in views for entry in view["entries"])
    headers = {"Age": str(age // 1000), "ETag": tag_of(views), "Cache-Control": "no-cache"}
    return headers, {"source": source, "key": key, "views": views}


def _split_address(context: AppContext, address: str) -> tuple[str, str]:
    """Return the longest source that an address begins with, and the key behind it."""
    sources = context.service.queries.sources
    fitting = [name for name in sources if address.startswith(name + "/")]
    if fitting:
        source = max(fitting, key=len)
        return source, address[len(source) + 1 :]
    bare = address.rstrip("/")
    if bare in sources:
        raise UnknownKeyError(f"which key of <{bare}>? Give it behind a slash: /views/{bare}/KEY")
    known = ", ".join(f"<{name}>" for name in sources) or "none"
    raise UnknownKeyError(f"{address!r} does not begin with a source and a slash; there are: {known}")


OPERATIONS = [look_up, fetch]
