"""Formats of pushed elements, and the form in which the log keeps them: lines of milliseconds, a tab and a statement.

application/n-quads, application/n-triples, text/plain   such lines; with `at`, statements that are all of that time
text/turtle                                              with `at` alone
application/trig, application/ld+json                    graphs with prov:generatedAtTime; with `at`, all of that time
application/x-ndjson, text/csv                           rows, by the mapping of the stream
"""

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import uuid4

from pyoxigraph import Quad, RdfFormat, parse

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.nesting import checked
from freshkeeper.maintenance.serve.serve_config import StreamConfig
from freshkeeper.maintenance.streams.batch import TimedElements
from freshkeeper.maintenance.streams.blank_nodes import BlankNodes, in_scope
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.timed_graphs import TimedGraphs
from freshkeeper.maintenance.streams.timed_rows import RowReader

BODY = "the body"
"""What the body of a request is called in errors."""
LINES = ("application/n-quads", "application/n-triples", "text/plain")
DOCUMENTS = {
    "text/turtle": RdfFormat.TURTLE,
    "application/trig": RdfFormat.TRIG,
    "application/ld+json": RdfFormat.JSON_LD,
}
ROWS: dict[str, Callable[[RowReader, Iterable[str]], Iterable[tuple[int, object]]]] = {
    "application/x-ndjson": RowReader.objects,
    "text/csv": RowReader.records,
}
KINDS = (*LINES, *DOCUMENTS, *ROWS)


def as_lines(
    kind: str,
    body: bytes,
    at: int | None,
    stream: str,
    config: StreamConfig,
    blank_nodes: BlankNodes = BlankNodes.DOCUMENT,
) -> bytes:
    """Convert a body of one of the media types to lines; with `at`, all elements have that time."""
    if kind in LINES:
        return body if at is None else _dated(body, at)
    if kind in ROWS:
        return _rows(kind, body, at, stream, config)
    form = DOCUMENTS[kind]
    scope = blank_nodes.scope(uuid4().hex)  # each body is a document of its own, also one that is sent twice
    if at is not None:
        return _lines((at, quad) for quad in in_scope(_quads(body, form), scope))
    if form == RdfFormat.TURTLE:
        raise InputError("Turtle does not say when things were so: give ?at=, milliseconds, a date and time, or now")
    return _of(TimedGraphs(Path(BODY), steps=GapLimit(), document=(body, form), scope=scope).batches())


def _dated(body: bytes, at: int) -> bytes:
    """Put the same time before each statement; empty lines and comments become empty lines."""
    lines = body.splitlines()
    return b"".join(b"%d\t%b\n" % (at, one) if one.strip() and one.strip()[:1] != b"#" else b"\n" for one in lines)


def _quads(body: bytes, form: RdfFormat) -> list[Quad]:
    try:
        return list(parse(checked(body, form), format=form))
    except SyntaxError as error:
        raise InputError(f"{BODY} cannot be read, line {error.lineno or 1}: {error.msg}") from None


def _rows(kind: str, body: bytes, at: int | None, stream: str, config: StreamConfig) -> bytes:
    reader = config.reader(BODY, GapLimit())
    if reader is None:
        raise ConfigError(
            f"rows need a mapping: give the stream <{stream}> time and triples in the config of the service, "
            "or send application/n-quads"
        )
    if at is not None:
        raise ConfigError(f"rows have their time in {reader.time}: leave out at")
    try:
        return _of(reader.batches(ROWS[kind](reader, io.StringIO(body.decode(), newline=""))))  # type: ignore[arg-type]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{BODY} is no table in UTF-8: {error}") from None


def _of(batches: Iterable[TimedElements]) -> bytes:
    pairs = (pair for batch in batches for pair in zip(batch.times, batch.quads, strict=True))
    return _lines((int(at), quad) for at, quad in pairs)


def _lines(elements: Iterable[tuple[int, Quad]]) -> bytes:
    return "".join(f"{at}\t{quad.subject} {quad.predicate} {quad.object} .\n" for at, quad in elements).encode()
