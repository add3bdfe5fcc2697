"""SPARQLstream: `FROM NAMED STREAM <s> [NOW - 10 MINUTES TO NOW SLIDE 1 MINUTES]`, all joined in the default graph.

Defaults, seeds/001: the operator can be said (SELECT ISTREAM ...), and is RSTREAM where it is not; reports when a
window closes and is not empty; NAMED is accepted, but the name cannot be used in the pattern. Without SLIDE a window
moves with every element, as TRIPLES n does. Windows are right-open, as C-SPARQL's: both run on the same kind of engine.
"""

from freshkeeper.maintenance.query.dialects.dialect import SPARQLSTREAM, Declared, Dialect, Feature, cannot
from freshkeeper.maintenance.query.model import Operator, Report, Window, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor, shown
from freshkeeper.maintenance.query.syntax.window_extent import Extent
from freshkeeper.maintenance.settings.closure import Closure
from freshkeeper.maintenance.settings.durations import to_unit

EXAMPLES = "write [NOW - 10 MINUTES TO NOW SLIDE 1 MINUTES], [NOW - 30 S] or [TRIPLES 100]"
UNITS = ("MS", "S", "MINUTES", "HOURS", "DAYS")


def read(cursor: Cursor, _named: bool) -> Declared | None:
    """A window after FROM [NAMED]."""
    place = cursor.now
    if cursor.now.is_word("WINDOW"):
        cursor.fail(cannot(SPARQLSTREAM, Feature.NAMED), "write FROM NAMED STREAM <stream> [...], or use RSP-QL")
    if not cursor.took("STREAM"):
        return None
    stream = cursor.name("stream")
    cursor.expect_mark("[", EXAMPLES)
    kind, span, step = _extent(cursor)
    cursor.expect_mark("]", EXAMPLES)
    return Declared(place, stream, kind, span, step, named=False)


def _extent(cursor: Cursor) -> Extent:
    if cursor.took("TRIPLES"):
        return WindowKind.ELEMENTS, cursor.count("TRIPLES"), 1
    cursor.took("FROM")
    span = _ago(cursor)
    end = cursor.now
    if cursor.took("TO") and _ago(cursor) is not None:
        cursor.fail("this window ends before NOW; windows here end at the evaluation", "write TO NOW", end)
    if span is None:
        return WindowKind.NOW, 1, None
    return WindowKind.TIME, span, cursor.duration("SLIDE") if cursor.took("SLIDE", "STEP") else None


def _ago(cursor: Cursor) -> int | None:
    """How long before now: NOW is None, NOW - 10 MINUTES is 600000."""
    if not cursor.took("NOW"):
        cursor.fail(f"{shown(cursor.now)} where NOW is missing", EXAMPLES)
    return cursor.duration("NOW -") if any(cursor.took_mark(mark) for mark in "-–−") else None


def write(window: Window) -> str | None:
    """The declaration of a window."""
    extent = _write_extent(window)
    return f"FROM NAMED STREAM <{window.stream}> [{extent}]" if extent else None


def _write_extent(window: Window) -> str | None:
    if window.kind is WindowKind.NOW:
        return "NOW"
    if window.kind is WindowKind.ELEMENTS:
        return f"TRIPLES {window.range}" if window.step == 1 else None
    if window.kind is WindowKind.ALL:
        return None
    slide = "" if window.step is None else f" SLIDE {to_unit(window.step, UNITS, ' ')}"
    return f"NOW - {to_unit(window.range or 0, UNITS, ' ')} TO NOW{slide}"


DIALECT = Dialect(
    SPARQLSTREAM,
    Operator.RSTREAM,
    (Report.NON_EMPTY, Report.ON_WINDOW_CLOSE),
    Closure.RIGHT_OPEN,
    read,
    write,
)
