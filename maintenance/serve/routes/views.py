"""The look-up door: what views hold of a key, as queries would answer with it."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from freshkeeper.maintenance.base.field_types import Duration
from freshkeeper.maintenance.serve.door import Door, json_response
from freshkeeper.maintenance.serve.look_up import UnknownKeyError, tag_of
from freshkeeper.maintenance.serve.operation import Parameters, Role, operation

MOST = 60_000
"""Milliseconds that a look-up may wait."""


class KeyOf(Parameters):
    """Which key of which source."""

    address: str = Field(
        description="SOURCE/KEY: the IRI of a source, a slash, and a key, as http://example.org/blog/http://example.org/ann"
    )
    query: str = Field(default="", description="look in the views of this query alone")
    fetch: Duration | None = Field(
        default=None, le=MOST, description="have it fetched first in the next evaluation, within its budget, and wait "
        "so long for it, as 2s; spending takes the word of those who write",
    )  # fmt: skip
    known: str = Field(default="", alias="If-None-Match", description="the ETag that is known")


class Entry(BaseModel):
    """A cached entry with its age and how likely it is still right."""

    entry: str = Field(description="its key")
    rows: list[dict[str, Any]] = Field(description="what it binds, as SPARQL's JSON has it")
    age_ms: int = Field(description="how long ago it was fetched")
    fetched_ms: int = Field(description="when it was fetched, in event time")
    freshness: float | None = Field(description="how likely it is fresh; null: nothing was evaluated yet")
    refreshing: bool = Field(description="whether a request for it is under way")


class Held(BaseModel):
    """What one view holds."""

    queries: list[str] = Field(description="whose view it is")
    entries: list[Entry]


class LookedUp(BaseModel):
    """What all views hold of a key."""

    source: str
    key: str
    views: list[Held]
    fetched: bool | None = Field(description="whether it was fetched for this; null: nobody asked for that")


@operation("GET", "/views/{address:path}", gives=LookedUp, problems=[HTTPStatus.NOT_MODIFIED])
async def look_up(door: Door, request: Request, parameters: KeyOf) -> Response:
    """What views hold of a key: its rows, how old they are, how likely fresh, and whether a refresh is under way.

    A lookup key has the rows of all cached entries that it needs, a cached entry its own. Keys are IRIs or literals as
    N-Triples writes them, or bare; keys of several terms have spaces between them. `Age` is that of the oldest.
    What no window has asked for is not fetched: queries say what a view holds.
    """
    source, key = _parted(door, parameters.address)
    fetched = None
    if parameters.fetch is not None:
        door.guard.check(request, Role.WRITE)
        fetched = await door.look_ups.fetch(
            door.service.queries, source, key, parameters.query, parameters.fetch / 1000
        )
    views = door.look_ups.find(door.service.queries, source, key, parameters.query)
    age = max(entry["age_ms"] for view in views for entry in view["entries"])
    headers = {"Age": str(age // 1000), "ETag": (tag := tag_of(views)), "Cache-Control": "no-cache"}
    if tag in (each.strip() for each in parameters.known.split(",")) or parameters.known.strip() == "*":
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return json_response({"source": source, "key": key, "views": views, "fetched": fetched}, headers=headers)


def _parted(door: Door, address: str) -> tuple[str, str]:
    """The source, the longest that fits, and the key."""
    sources = door.service.queries.sources
    fitting = [name for name in sources if address.startswith(name + "/")]
    if fitting:
        source = max(fitting, key=len)
        return source, address[len(source) + 1 :]
    bare = address.rstrip("/")
    if bare in sources:
        raise UnknownKeyError(f"which key of <{bare}>? Give it behind a slash: /views/{bare}/KEY")
    known = ", ".join(f"<{name}>" for name in sources) or "none"
    raise UnknownKeyError(f"{address!r} does not begin with a source and a slash; there are: {known}")


OPERATIONS = [look_up]
