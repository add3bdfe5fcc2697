"""CQELS-QL: windows stand in the pattern, `STREAM <s> [RANGE 3s SLIDE 1s] {...}`, each with an implicit name.

Defaults, seeds/001: the query is evaluated on every change of content, and works as ISTREAM only. A range without
SLIDE moves with every element, as do TRIPLES, NOW and ALL. The windows are left-open: table 1 of seeds/000 (T = 2, the
element of 0 is gone at 2) says so, against its formula with both ends closed. The grammar of seeds/000 puts the window
before the stream's name and its five queries behind it: both are read.
"""

from collections.abc import Sequence

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.durations import to_unit
from freshkeeper.maintenance.query.dialect import CQELS, Declared, Dialect
from freshkeeper.maintenance.query.model import Operator, Report, Window, WindowKind
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.tokens import Kind, Tokens
from freshkeeper.maintenance.query.syntax.window_extent import Extent, read_extent

EXAMPLES = "write [RANGE 3s SLIDE 1s], [TRIPLES 100], [NOW] or [ALL]"


def read(cursor: Cursor, _named: bool) -> None:
    """There are no windows before WHERE."""
    if cursor.now.is_word("STREAM", "WINDOW"):
        cursor.fail(
            f"CQELS-QL has no windows before WHERE: FROM {cursor.now.text.upper()}",
            "write STREAM <stream> [RANGE 10s] { ... } inside WHERE",
        )


def read_block(cursor: Cursor) -> Declared:
    """`STREAM <s> [...] {` or `STREAM [...] <s> {`, up to the bracket of the group."""
    place = cursor.take()
    extent = _extent(cursor) if cursor.now.is_mark("[") else None
    if cursor.now.kind is Kind.VAR:
        name = cursor.now.text
        cursor.fail(
            f"STREAM {name} may be any stream, and a query does not say which there are",
            "run it with all of them (--stream IRI=FILE), or write "
            f"{{ STREAM <a> [NOW] {{ ... }} VALUES {name} {{ <a> }} }}, and UNION between several",
        )
    stream = cursor.name("stream")
    kind, span, step, _ = extent or _extent(cursor)
    if not cursor.now.is_mark("{"):
        cursor.fail("the group of a STREAM block is missing", "write STREAM <stream> [RANGE 10s] { ... }")
    if kind is WindowKind.ELEMENTS:
        step = step or 1
    return Declared(place, stream, kind, span, step, named=True)


def over_streams(tokens: Tokens, streams: Sequence[str]) -> str:
    """The text with every `STREAM ?s [...] {...}` written for each of these streams, which ?s then names."""
    text = tokens.text
    for index, place in reversed(list(enumerate(tokens.items))):
        if not place.is_word("STREAM"):
            continue
        after = index + 1
        after = tokens.closing[after] + 1 if tokens.items[after].is_mark("[") else after
        name = tokens.items[after]
        opening = next((n for n in range(after, len(tokens.items)) if tokens.items[n].is_mark("{")), None)
        if name.kind is Kind.VAR and opening is not None:
            end = tokens.items[tokens.closing[opening]].end
            parts = (text[place.start : name.start], text[name.end : end])
            blocks = (f"{{ {parts[0]}<{s}>{parts[1]} VALUES {name.text} {{ <{s}> }} }}" for s in streams)
            text = text[: place.start] + " UNION ".join(blocks) + text[end:]
    return text


def _extent(cursor: Cursor) -> Extent:
    cursor.expect_mark("[", EXAMPLES)
    extent = read_extent(cursor, EXAMPLES)
    cursor.expect_mark("]", EXAMPLES)
    return extent


def write(window: Window) -> str | None:
    """The head of a STREAM block."""
    if window.lag or (window.kind is WindowKind.ELEMENTS and window.step != 1):
        return None
    slide = "" if window.step is None else f" SLIDE {to_unit(window.step)}"
    extent = {
        WindowKind.ELEMENTS: f"TRIPLES {window.range}",
        WindowKind.TIME: f"RANGE {to_unit(window.range or 0)}{slide}",
    }.get(window.kind, window.kind.name)
    return f"STREAM <{window.stream}> [{extent}]"


DIALECT = Dialect(CQELS, Operator.ISTREAM, (Report.ON_CONTENT_CHANGE,), Closure.LEFT_OPEN, read, write, read_block)
