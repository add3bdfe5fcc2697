"""What stands in the brackets of a window, in the words that the dialects share."""

from collections.abc import Callable
from typing import NamedTuple

from freshkeeper.maintenance.query.model import WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor, shown

EXAMPLES = "write RANGE PT10S STEP PT5S, ELEMENTS 100 STEP 10, NOW or ALL"
MINUS = "-–−"


class Extent(NamedTuple):
    """What a window holds, and when it moves."""

    kind: WindowKind
    range: int | None = None
    step: int | None = None
    lag: int = 0


def read_extent(cursor: Cursor, remedy: str = EXAMPLES) -> Extent:
    """RANGE d [STEP d | TUMBLING], [RANGE] ELEMENTS n [STEP n], NOW or ALL; SLIDE is STEP, TRIPLES is ELEMENTS."""
    ranging = cursor.took("RANGE")
    if word := cursor.took("ELEMENTS", "TRIPLES"):
        count = cursor.count(word.text.upper())
        return Extent(WindowKind.ELEMENTS, count, _step(cursor, count, cursor.count))
    if ranging:
        span = cursor.duration("RANGE")
        return Extent(WindowKind.TIME, span, _step(cursor, span, cursor.duration))
    if cursor.took("NOW"):
        return Extent(WindowKind.NOW, 1)
    if cursor.took("ALL"):
        return Extent(WindowKind.ALL)
    return cursor.fail(f"{shown(cursor.now)} where the extent of a window is missing", remedy)


def read_span(cursor: Cursor, remedy: str) -> Extent:
    """[FROM] NOW - d [TO NOW [- d]] [STEP d]; what ends before NOW lags behind, and NOW alone is this very instant."""
    cursor.took("FROM")
    first = cursor.now
    begin = _ago(cursor, remedy)
    lag = _ago(cursor, remedy) if cursor.took("TO") else 0
    if begin == lag == 0:
        return Extent(WindowKind.NOW, 1)
    if begin <= lag:
        cursor.fail("this window begins when it has ended", "write the earlier instant first", first)
    return Extent(WindowKind.TIME, begin - lag, _step(cursor, begin - lag, cursor.duration), lag)


def _ago(cursor: Cursor, remedy: str) -> int:
    """How long before now: NOW is 0, NOW - 10 MINUTES is 600000."""
    if not cursor.took("NOW"):
        cursor.fail(f"{shown(cursor.now)} where NOW is missing", remedy)
    return cursor.duration("NOW -", least=0) if any(cursor.took_mark(mark) for mark in MINUS) else 0


def _step(cursor: Cursor, span: int, read: Callable[[str], int]) -> int | None:
    if cursor.took("TUMBLING"):
        return span
    if word := cursor.took("STEP", "SLIDE"):
        return read(word.text.upper())
    return None
