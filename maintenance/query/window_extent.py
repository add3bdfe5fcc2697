"""The extent of a window, written in the brackets of its declaration, in the words that the dialects share."""

from collections.abc import Callable
from typing import NamedTuple

from freshkeeper.maintenance.query.model import WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor, describe_token

EXAMPLES = "write RANGE PT10S STEP PT5S, ELEMENTS 100 STEP 10, NOW or ALL"


class Extent(NamedTuple):
    """The content of a window, and when it moves."""

    kind: WindowKind
    range: int | None = None
    step: int | None = None
    lag: int = 0


def read_extent(cursor: Cursor, remedy: str = EXAMPLES) -> Extent:
    """Read RANGE d [STEP d | TUMBLING], [RANGE] ELEMENTS n [STEP n], NOW or ALL; SLIDE is STEP, TRIPLES is ELEMENTS."""
    ranging = cursor.accept("RANGE")
    if word := cursor.accept("ELEMENTS", "TRIPLES"):
        count = cursor.count(word.text.upper())
        return Extent(WindowKind.ELEMENTS, count, _step(cursor, count, cursor.count))
    if ranging:
        span = cursor.duration("RANGE")
        return Extent(WindowKind.TIME, span, _step(cursor, span, cursor.duration))
    if cursor.accept("NOW"):
        return Extent(WindowKind.NOW, 1)
    if cursor.accept("ALL"):
        return Extent(WindowKind.ALL)
    return cursor.fail(f"{describe_token(cursor.now)} where the extent of a window is missing", remedy)


def read_span(cursor: Cursor, remedy: str) -> Extent:
    """Read [FROM] NOW - d [TO NOW [- d]] [STEP d].

    A window that ends before NOW has a lag; NOW alone is the instant of the evaluation.
    """
    cursor.accept("FROM")
    first = cursor.now
    begin = _ago(cursor, remedy)
    lag = 0
    if cursor.accept("TO"):
        lag = _ago(cursor, remedy)
    if begin == lag == 0:
        return Extent(WindowKind.NOW, 1)
    if begin <= lag:
        cursor.fail("this window begins when it has ended", "write the earlier instant first", first)
    return Extent(WindowKind.TIME, begin - lag, _step(cursor, begin - lag, cursor.duration), lag)


def _ago(cursor: Cursor, remedy: str) -> int:
    """Return how long before now an instant is: 0 for NOW, 600000 for NOW - 10 MINUTES."""
    if not cursor.accept("NOW"):
        cursor.fail(f"{describe_token(cursor.now)} where NOW is missing", remedy)
    if cursor.accept_minus():
        return cursor.duration("NOW -", least=0)
    return 0


def _step(cursor: Cursor, span: int, read: Callable[[str], int]) -> int | None:
    if cursor.accept("TUMBLING"):
        return span
    if word := cursor.accept("STEP", "SLIDE"):
        return read(word.text.upper())
    return None
