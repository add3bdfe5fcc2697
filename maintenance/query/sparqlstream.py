"""SPARQLstream: `FROM NAMED STREAM <s> [NOW - 10 MINUTES TO NOW SLIDE 1 MINUTES]`, all joined in the default graph.

Defaults, seeds/001: the operator can be said (SELECT ISTREAM ...), and is RSTREAM where it is not; reports when a
window closes and is not empty; NAMED is accepted, but the name cannot be used in the pattern. Without SLIDE a window
moves with every element, as TRIPLES n does. Windows are right-open, as C-SPARQL's: both run on the same kind of engine.
"""

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.query.dialect import SPARQLSTREAM, Declared, Dialect, Feature, cannot
from freshkeeper.maintenance.query.model import Operator, Report, Window, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.window_extent import Extent, read_span

EXAMPLES = "write [NOW - 10 MINUTES TO NOW SLIDE 1 MINUTES], [NOW - 30 S] or [TRIPLES 100]"
UNITS = ("MS", "S", "MINUTES", "HOURS", "DAYS")


def read(cursor: Cursor, _named: bool) -> Declared | None:
    """A window after FROM [NAMED]."""
    place = cursor.now
    if cursor.now.is_word("WINDOW"):
        cursor.fail(cannot(SPARQLSTREAM, Feature.NAMED), "write FROM NAMED STREAM <stream> [...], or use RSP-QL")
    if not cursor.accept("STREAM"):
        return None
    stream = cursor.name("stream")
    cursor.expect_mark("[", EXAMPLES)
    kind, span, step, lag = _extent(cursor)
    cursor.expect_mark("]", EXAMPLES)
    return Declared(place, stream, kind, span, step, named=False, lag=lag)


def _extent(cursor: Cursor) -> Extent:
    if cursor.accept("TRIPLES"):
        return Extent(WindowKind.ELEMENTS, cursor.count("TRIPLES"), 1)
    return read_span(cursor, EXAMPLES)


def write(window: Window) -> str | None:
    """The declaration of a window."""
    if window.kind is WindowKind.ALL or (window.kind is WindowKind.ELEMENTS and window.step != 1):
        return None
    slide = "" if window.step is None else f" SLIDE {to_unit(window.step, UNITS, ' ')}"
    begin, end = (window.range or 0) + window.lag, f" - {to_unit(window.lag, UNITS, ' ')}" if window.lag else ""
    extent = {
        WindowKind.ELEMENTS: f"TRIPLES {window.range}",
        WindowKind.TIME: f"NOW - {to_unit(begin, UNITS, ' ')} TO NOW{end}{slide}",
    }.get(window.kind, "NOW")
    return f"FROM NAMED STREAM <{window.stream}> [{extent}]"


DIALECT = Dialect(
    SPARQLSTREAM,
    Operator.RSTREAM,
    (Report.NON_EMPTY, Report.ON_WINDOW_CLOSE),
    Closure.RIGHT_OPEN,
    read,
    write,
)
