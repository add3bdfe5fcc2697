"""Limits of one answer beside its bytes, checked before a parser sees it or while its rows are read.

All grow with the source's `max_size`: an answer of small values takes many times its bytes in memory.
"""

import math
from collections.abc import Callable

from pyoxigraph import QuerySolutions

from freshkeeper.maintenance.base.nesting import MAX_DEPTH, depth_of, items_of, marks_of
from freshkeeper.maintenance.base.unread_results import read_here
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.sources.transport import Bound

BYTES_PER_ITEM = 16
"""of `max_size`, for every object and list in JSON and what they hold; what people send has more"""
BYTES_PER_CELL = 32
"""of `max_size`, for every cell of a table, bound or not"""
LONGEST = 1 << 20
"""Bytes of JSON that may follow one another without a quote; no value of a SPARQL result is longer than twice this."""


def check_json(text: bytes, max_bytes: int) -> None:
    """FetchError where JSON is nested too deep or holds too much."""
    marks = marks_of(text)
    items, most = items_of(marks), max_bytes // BYTES_PER_ITEM
    if items > most:
        raise FetchError(
            f"too large: the answer holds {items} values; the source's max_size allows {most}", refused=True
        )
    if (depth := depth_of(marks)) > MAX_DEPTH:
        raise FetchError(f"malformed: the answer is nested {depth} levels deep, and {MAX_DEPTH} are read", refused=True)


def check_values(text: bytes) -> None:
    """FetchError where a value is so long that parsers, and states that keep it, do not take it."""
    if any(text.find(b'"', at, at + LONGEST) < 0 for at in range(0, len(text) - LONGEST, LONGEST)):
        raise FetchError(f"too large: a value of the answer is longer than {LONGEST / 1_000_000:.0f} MB", refused=True)


def bounded(ask: Callable[[], object], max_bytes: float = math.inf) -> list[Bound]:
    """Return the solutions that `ask` gives; raise FetchError if they are more than `max_bytes` allow."""
    with read_here():
        return _read(ask(), max_bytes)


def _read(found: object, max_bytes: float) -> list[Bound]:
    if not isinstance(found, QuerySolutions):
        raise FetchError("malformed: the source answered yes or no where solutions were asked for")
    names = [variable.value for variable in found.variables]
    most = max_bytes // BYTES_PER_CELL // max(1, len(names))
    rows: list[Bound] = []
    for row in found:
        if len(rows) == most:
            said = f"too large: the answer has more than {most} rows of {len(names)} values (max_size)"
            raise FetchError(said, refused=True)
        rows.append({n: term for n, term in zip(names, row, strict=True) if term is not None})
    return rows
