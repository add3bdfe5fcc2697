"""C-SPARQL: `FROM STREAM <s> [RANGE 10m STEP 1m]`; the windows have no names and all join the default graph.

Defaults, seeds/001: RSTREAM only; reports when a window closes and is not empty. Its engine reads TRIPLES n as a batch
of n, so that such a window steps by n; a range needs STEP or TUMBLING. Windows are right-open, [o, c).
"""

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.query.dialect import CSPARQL, Declared, Dialect, Feature, read_extent, unsupported
from freshkeeper.maintenance.query.model import Operator, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor

EXAMPLES = "write [RANGE 10m STEP 1m], [RANGE 10m TUMBLING] or [TRIPLES 100]"


def read(cursor: Cursor, named: bool) -> Declared | None:
    """Read the window that follows FROM, or return None if a graph follows."""
    place = cursor.now
    if cursor.now.is_word("WINDOW") or (named and cursor.now.is_word("STREAM")):
        cursor.fail(
            unsupported(CSPARQL, Feature.NAMED_WINDOW), "write FROM STREAM <stream> [RANGE 10m STEP 1m], or use RSP-QL"
        )
    if not cursor.accept("STREAM"):
        return None
    stream = cursor.name("stream")
    cursor.expect_mark("[", EXAMPLES)
    first = cursor.now
    kind, span, step, _ = read_extent(cursor, EXAMPLES)
    if kind in (WindowKind.NOW, WindowKind.ALL):
        cursor.fail(f"C-SPARQL has no window [{first.text.upper()}]; RSP-QL and CQELS-QL have", EXAMPLES, first)
    if kind is WindowKind.TIME and step is None:
        cursor.fail("a C-SPARQL range needs a step", EXAMPLES)
    cursor.expect_mark("]", EXAMPLES)
    # TRIPLES n steps by n: its engine reads them as batches
    return Declared(place, stream, kind, span, step or span, is_named=False)


def write(window: StreamWindow) -> str | None:
    """Return the declaration of a window, or None if C-SPARQL has no such window."""
    if window.kind is WindowKind.ELEMENTS and window.step == window.range:
        return f"FROM STREAM <{window.stream}> [TRIPLES {window.range}]"
    if window.kind is not WindowKind.TIME or window.step is None or window.lag:
        return None
    step = f"STEP {to_unit(window.step)}"
    if window.step == window.range:
        step = "TUMBLING"
    return f"FROM STREAM <{window.stream}> [RANGE {to_unit(window.range or 0)} {step}]"


DIALECT = Dialect(
    name=CSPARQL,
    operator=Operator.RSTREAM,
    report=(Report.NON_EMPTY, Report.ON_WINDOW_CLOSE),
    closure=Closure.RIGHT_OPEN,
    read=read,
    write=write,
)
