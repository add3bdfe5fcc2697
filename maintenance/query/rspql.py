"""RSP-QL, as the W3C group and RSP4J write it: every window is declared, named or merged, before WHERE.

    FROM [NAMED] WINDOW <w> ON [STREAM] <s> [RANGE PT4S STEP PT1S STARTING AT 0 CLOSURE RIGHT_OPEN]

Seeds/001 leaves the report policy and t0 open: the extensions REPORT and STARTING AT say them. Without them a query
reports when a window closes, t0 is the run's default, and the operator is RSTREAM, SPARQL's own answer.
"""

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import to_iso
from freshkeeper.maintenance.query.dialect import EXAMPLES, RSPQL, Declared, Dialect, Extent, read_extent, read_span
from freshkeeper.maintenance.query.model import Operator, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor, describe_token

CLOSURES = {"LEFT_OPEN": Closure.LEFT_OPEN, "RIGHT_OPEN": Closure.RIGHT_OPEN}
Limits = tuple[int | None, Closure | None]


def read(cursor: Cursor, named: bool) -> Declared | None:
    """Read the window that follows FROM [NAMED], or return None if a graph follows.

    The W3C group's older `ON STREAM <s> [...] AS <w>` is accepted too.
    """
    place = cursor.now
    if cursor.now.is_word("STREAM"):
        clause = "FROM NAMED" if named else "FROM"
        cursor.fail(f"{clause} STREAM is C-SPARQL and SPARQLstream", f"write {clause} WINDOW <w> ON <stream> [...]")
    if not cursor.accept("WINDOW"):
        return None
    name = None
    if not cursor.now.is_word("ON"):
        name = cursor.name("window")
    cursor.expect("ON")
    cursor.accept("STREAM")
    stream = cursor.name("stream")
    cursor.expect_mark("[", "a window's extent is written [RANGE PT10S STEP PT5S]")
    if cursor.now.is_word("FROM"):
        extent = read_span(cursor, EXAMPLES)
    else:
        extent = read_extent(cursor)
    limits = _limits(cursor, extent, (None, None))
    cursor.expect_mark("]", "after RANGE ... STEP ... come STARTING AT, CLOSURE and the closing ]")
    t0, closure = _limits(cursor, extent, limits)
    if name is None and cursor.accept("AS"):
        name = cursor.name("window")
    if named and name is None:
        cursor.fail("a window FROM NAMED needs a name", "write FROM NAMED WINDOW <w> ON ...", place)
    kind, span, step, lag = extent
    if kind is WindowKind.ELEMENTS and step is None:
        step = 1
    return Declared(place, stream, kind, span, step, is_named=named, name=name, t0=t0, closure=closure, lag=lag)


def _limits(cursor: Cursor, extent: Extent, limits: Limits) -> Limits:
    """Read STARTING AT and CLOSURE, before or behind the closing bracket, each once."""
    t0, closure = limits
    while word := cursor.accept("STARTING", "CLOSURE"):
        if word.is_word("STARTING") and t0 is None:
            cursor.expect("AT")
            t0 = cursor.instant()
        elif word.is_word("CLOSURE") and closure is None:
            if extent.kind is not WindowKind.TIME:
                cursor.fail("only a window of time has an open end", "leave CLOSURE out")
            closure = CLOSURES[cursor.expect(*CLOSURES).text.upper()]
        else:
            cursor.fail(f"{describe_token(word)} is said twice", "say it once", word)
    return t0, closure


def write(window: StreamWindow) -> str:
    """Return the declaration of a window, with nothing left to defaults."""
    limits = ""
    if window.t0 is not None:
        limits += f" STARTING AT {window.t0}"
    if window.closure is Closure.RIGHT_OPEN:
        limits += " CLOSURE RIGHT_OPEN"
    clause = "FROM NAMED" if window.is_named else "FROM"
    return f"{clause} WINDOW <{window.name}> ON <{window.stream}> [{write_extent(window)}{limits}]"


def write_extent(window: StreamWindow) -> str:
    """Return RANGE (FROM and TO with a lag) and STEP in ISO durations, ELEMENTS and STEP in counts, NOW or ALL."""
    if window.kind in (WindowKind.NOW, WindowKind.ALL):
        return window.kind.name
    if window.kind is WindowKind.ELEMENTS:
        return f"ELEMENTS {window.range} STEP {window.step}"
    step = ""
    if window.step is not None:
        step = f" STEP {to_iso(window.step)}"
    if window.lag:
        return f"FROM NOW-{to_iso((window.range or 0) + window.lag)} TO NOW-{to_iso(window.lag)}{step}"
    return f"RANGE {to_iso(window.range or 0)}{step}"


DIALECT = Dialect(
    name=RSPQL,
    operator=Operator.RSTREAM,
    report=(Report.ON_WINDOW_CLOSE,),
    closure=Closure.LEFT_OPEN,
    read=read,
    write=write,
)
