"""RSP-QL, as the W3C group and RSP4J write it: every window is declared, named or merged, before WHERE.

    FROM [NAMED] WINDOW <w> ON [STREAM] <s> [RANGE PT4S STEP PT1S STARTING AT 0 CLOSURE RIGHT_OPEN]

Seeds/001 leaves the report policy and t0 open: the extensions REPORT and STARTING AT say them. Without them a query
reports when a window closes, t0 is the run's default, and the operator is RSTREAM, SPARQL's own answer.
"""

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import to_iso
from freshkeeper.maintenance.query.dialect import RSPQL, Declared, Dialect
from freshkeeper.maintenance.query.model import Operator, Report, Window, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor, describe_token
from freshkeeper.maintenance.query.syntax.tokens import Token
from freshkeeper.maintenance.query.syntax.window_extent import EXAMPLES, Extent, read_extent, read_span

CLOSURES = {"LEFT_OPEN": Closure.LEFT_OPEN, "RIGHT_OPEN": Closure.RIGHT_OPEN}
Limits = tuple[int | None, Closure | None]


def read(cursor: Cursor, named: bool) -> Declared | None:
    """A window after FROM [NAMED]; the W3C group's older `ON STREAM <s> [...] AS <w>` is accepted too."""
    place = cursor.now
    if cursor.now.is_word("STREAM"):
        cursor.fail(
            f"{'FROM NAMED' if named else 'FROM'} STREAM is C-SPARQL and SPARQLstream",
            f"write {'FROM NAMED' if named else 'FROM'} WINDOW <w> ON <stream> [...]",
        )
    if not cursor.accept("WINDOW"):
        return None
    name = None if cursor.now.is_word("ON") else cursor.name("window")
    cursor.expect("ON")
    cursor.accept("STREAM")
    stream = cursor.name("stream")
    cursor.expect_mark("[", "a window's extent is written [RANGE PT10S STEP PT5S]")
    extent = read_span(cursor, EXAMPLES) if cursor.now.is_word("FROM") else read_extent(cursor)
    limits = _limits(cursor, extent, (None, None))
    cursor.expect_mark("]", "after RANGE ... STEP ... come STARTING AT, CLOSURE and the closing ]")
    limits = _limits(cursor, extent, limits)
    if name is None and cursor.accept("AS"):
        name = cursor.name("window")
    if named and name is None:
        cursor.fail("a window FROM NAMED needs a name", "write FROM NAMED WINDOW <w> ON ...", place)
    return _declared(place, name, stream, named, extent, limits)


def _declared(place: Token, name: Token | None, stream: Token, named: bool, extent: Extent, limits: Limits) -> Declared:
    kind, span, step, lag = extent
    if kind is WindowKind.ELEMENTS and step is None:
        step = 1
    return Declared(place, stream, kind, span, step, named, name, *limits, lag)


def _limits(cursor: Cursor, extent: Extent, limits: Limits) -> Limits:
    """STARTING AT and CLOSURE, before or behind the closing bracket, each once."""
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


def write(window: Window) -> str:
    """The declaration of a window, all of it said."""
    limits = f" STARTING AT {window.t0}" if window.t0 is not None else ""
    limits += " CLOSURE RIGHT_OPEN" if window.closure is Closure.RIGHT_OPEN else ""
    named = "NAMED " if window.named else ""
    return f"FROM {named}WINDOW <{window.name}> ON <{window.stream}> [{write_extent(window)}{limits}]"


def write_extent(window: Window) -> str:
    """RANGE (FROM and TO if it lags) and STEP in ISO durations, ELEMENTS and STEP in counts, NOW or ALL."""
    if window.kind in (WindowKind.NOW, WindowKind.ALL):
        return window.kind.name
    if window.kind is WindowKind.ELEMENTS:
        return f"ELEMENTS {window.range} STEP {window.step}"
    step = "" if window.step is None else f" STEP {to_iso(window.step)}"
    if window.lag:
        return f"FROM NOW-{to_iso((window.range or 0) + window.lag)} TO NOW-{to_iso(window.lag)}{step}"
    return f"RANGE {to_iso(window.range or 0)}{step}"


DIALECT = Dialect(RSPQL, Operator.RSTREAM, (Report.ON_WINDOW_CLOSE,), Closure.LEFT_OPEN, read, write)
