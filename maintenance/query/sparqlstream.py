"""SPARQLstream: `FROM NAMED STREAM <s> [NOW - 10 MINUTES TO NOW SLIDE 1 MINUTES]`; windows join the default graph.

Defaults, seeds/001: the operator can be given (SELECT ISTREAM ...), and is RSTREAM otherwise; a query reports when a
window closes and is not empty; NAMED is accepted, but the name cannot be used in the pattern. Without SLIDE a window
moves with every element, as TRIPLES n does. Windows are right-open, as C-SPARQL's: both run on the same kind of engine.
"""

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.query.dialect import (
    SPARQLSTREAM,
    Declared,
    Dialect,
    Extent,
    Feature,
    read_span,
    unsupported,
)
from freshkeeper.maintenance.query.model import Operator, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor

EXAMPLES = "write [NOW - 10 MINUTES TO NOW SLIDE 1 MINUTES], [NOW - 30 S] or [TRIPLES 100]"
UNITS = ("MS", "S", "MINUTES", "HOURS", "DAYS")


def read(cursor: Cursor, _named: bool) -> Declared | None:
    """Read the window that follows FROM [NAMED], or return None if a graph follows."""
    place = cursor.now
    if cursor.now.is_word("WINDOW"):
        cursor.fail(
            unsupported(SPARQLSTREAM, Feature.NAMED_WINDOW), "write FROM NAMED STREAM <stream> [...], or use RSP-QL"
        )
    if not cursor.accept("STREAM"):
        return None
    stream = cursor.name("stream")
    cursor.expect_mark("[", EXAMPLES)
    kind, span, step, lag = _extent(cursor)
    cursor.expect_mark("]", EXAMPLES)
    return Declared(place, stream, kind, span, step, is_named=False, lag=lag)


def _extent(cursor: Cursor) -> Extent:
    if cursor.accept("TRIPLES"):
        return Extent(WindowKind.ELEMENTS, cursor.count("TRIPLES"), 1)
    return read_span(cursor, EXAMPLES)


def write(window: StreamWindow) -> str | None:
    """Return the declaration of a window, or None if SPARQLstream has no such window."""
    if window.kind is WindowKind.ALL or (window.kind is WindowKind.ELEMENTS and window.step != 1):
        return None
    return f"FROM NAMED STREAM <{window.stream}> [{_write_extent(window)}]"


def _write_extent(window: StreamWindow) -> str:
    if window.kind is WindowKind.ELEMENTS:
        return f"TRIPLES {window.range}"
    if window.kind is not WindowKind.TIME:
        return "NOW"
    extent = f"NOW - {to_unit((window.range or 0) + window.lag, UNITS, ' ')} TO NOW"
    if window.lag:
        extent += f" - {to_unit(window.lag, UNITS, ' ')}"
    if window.step is not None:
        extent += f" SLIDE {to_unit(window.step, UNITS, ' ')}"
    return extent


DIALECT = Dialect(
    name=SPARQLSTREAM,
    operator=Operator.RSTREAM,
    report=(Report.NON_EMPTY, Report.ON_WINDOW_CLOSE),
    closure=Closure.RIGHT_OPEN,
    read=read,
    write=write,
)
