"""CQELS-QL: windows stand in the pattern, `STREAM <s> [RANGE 3s SLIDE 1s] {...}`, each with an implicit name.

Defaults, seeds/001: the query is evaluated on every change of content, and only as ISTREAM. A range without SLIDE moves
with every element, as do TRIPLES, NOW and ALL. Windows are left-open: table 1 of seeds/000 (T = 2, the element of 0 is
gone at 2) says so, against its formula with both ends closed. The grammar of seeds/000 puts the window before the
stream's name and its five queries behind it: both are read.
"""

from collections.abc import Sequence

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.query.dialect import CQELS, Declared, Dialect, Extent, read_extent
from freshkeeper.maintenance.query.model import Operator, Report, StreamWindow, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.tokens import TokenKind, Tokens

EXAMPLES = "write [RANGE 3s SLIDE 1s], [TRIPLES 100], [NOW] or [ALL]"


def read(cursor: Cursor, _named: bool) -> None:
    """Fail at a window: CQELS-QL has none before WHERE."""
    if cursor.now.is_word("STREAM", "WINDOW"):
        cursor.fail(
            f"CQELS-QL has no windows before WHERE: FROM {cursor.now.text.upper()}",
            "write STREAM <stream> [RANGE 10s] { ... } inside WHERE",
        )


def read_block(cursor: Cursor) -> Declared:
    """Read `STREAM <s> [...] {` or `STREAM [...] <s> {`, up to the bracket of the group."""
    place = cursor.take()
    extent = None
    if cursor.now.is_mark("["):
        extent = _extent(cursor)
    if cursor.now.kind is TokenKind.VAR:
        name = cursor.now.text
        cursor.fail(
            f"STREAM {name} may be any stream, and a query does not say which there are",
            "run it with all of them (--stream IRI=FILE), or write "
            f"{{ STREAM <a> [NOW] {{ ... }} VALUES {name} {{ <a> }} }}, and UNION between several",
        )
    stream = cursor.name("stream")
    kind, span, step, _ = extent or _extent(cursor)  # the brackets stand before or behind the name
    if not cursor.now.is_mark("{"):
        cursor.fail("the group of a STREAM block is missing", "write STREAM <stream> [RANGE 10s] { ... }")
    if kind is WindowKind.ELEMENTS:
        step = step or 1
    return Declared(place, stream, kind, span, step, is_named=True)


def over_streams(tokens: Tokens, streams: Sequence[str]) -> str:
    """Return the text with every `STREAM ?s [...] {...}` repeated for each stream, which ?s is then bound to."""
    text = tokens.text
    # from the last block to the first, so that the places of earlier tokens stay right
    for index, place in reversed(list(enumerate(tokens.items))):
        if not place.is_word("STREAM"):
            continue
        after = index + 1
        if tokens.items[after].is_mark("["):
            after = tokens.closing[after] + 1
        name = tokens.items[after]
        opening = next((n for n in range(after, len(tokens.items)) if tokens.items[n].is_mark("{")), None)
        if name.kind is not TokenKind.VAR or opening is None:
            continue
        end = tokens.items[tokens.closing[opening]].end
        before_name = text[place.start : name.start]
        behind_name = text[name.end : end]
        blocks = (f"{{ {before_name}<{s}>{behind_name} VALUES {name.text} {{ <{s}> }} }}" for s in streams)
        text = text[: place.start] + " UNION ".join(blocks) + text[end:]
    return text


def _extent(cursor: Cursor) -> Extent:
    cursor.expect_mark("[", EXAMPLES)
    extent = read_extent(cursor, EXAMPLES)
    cursor.expect_mark("]", EXAMPLES)
    return extent


def write(window: StreamWindow) -> str | None:
    """Return the head of a STREAM block, or None if CQELS-QL has no such window."""
    if window.lag or (window.kind is WindowKind.ELEMENTS and window.step != 1):
        return None
    extent = window.kind.name
    if window.kind is WindowKind.ELEMENTS:
        extent = f"TRIPLES {window.range}"
    elif window.kind is WindowKind.TIME:
        extent = f"RANGE {to_unit(window.range or 0)}"
        if window.step is not None:
            extent += f" SLIDE {to_unit(window.step)}"
    return f"STREAM <{window.stream}> [{extent}]"


DIALECT = Dialect(
    name=CQELS,
    operator=Operator.ISTREAM,
    report=(Report.ON_CONTENT_CHANGE,),
    closure=Closure.LEFT_OPEN,
    read=read,
    write=write,
    read_block=read_block,
)
