"""What stands in the brackets of a window, in the words that the dialects share."""

from collections.abc import Callable

from freshkeeper.maintenance.query.model import WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor, shown

Extent = tuple[WindowKind, int | None, int | None]
"""Kind, range and step."""

EXAMPLES = "write RANGE PT10S STEP PT5S, ELEMENTS 100 STEP 10, NOW or ALL"


def read_extent(cursor: Cursor, remedy: str = EXAMPLES) -> Extent:
    """RANGE d [STEP d | TUMBLING], ELEMENTS n [STEP n], NOW or ALL; SLIDE is STEP, TRIPLES is ELEMENTS."""
    if cursor.took("RANGE"):
        span = cursor.duration("RANGE")
        return WindowKind.TIME, span, _step(cursor, span, cursor.duration)
    if word := cursor.took("ELEMENTS", "TRIPLES"):
        count = cursor.count(word.text.upper())
        return WindowKind.ELEMENTS, count, _step(cursor, count, cursor.count)
    if cursor.took("NOW"):
        return WindowKind.NOW, 1, None
    if cursor.took("ALL"):
        return WindowKind.ALL, None, None
    return cursor.fail(f"{shown(cursor.now)} where the extent of a window is missing", remedy)


def _step(cursor: Cursor, span: int, read: Callable[[str], int]) -> int | None:
    if cursor.took("TUMBLING"):
        return span
    if word := cursor.took("STEP", "SLIDE"):
        return read(word.text.upper())
    return None
