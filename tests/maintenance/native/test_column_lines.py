"""Lines read as columns are what they are as quads: the same elements, the same errors at the same places."""

import io
from collections.abc import Callable

import drawn_terms
import pyoxigraph as ox
from hypothesis import example, given, settings
from hypothesis import strategies as st

from freshkeeper.maintenance.native.column_lines import ColumnLines
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.rsp.stored_literals import stored_quads
from freshkeeper.maintenance.streams.batch import DEFAULT
from freshkeeper.maintenance.streams.steps import LONGEST_GAP, Steps
from freshkeeper.maintenance.streams.stream_error import StreamError
from freshkeeper.maintenance.streams.timed_lines import Mistakes, OnError, TimedLines

Seen = tuple[list[tuple[int, ox.Triple]], list[str], str]
GRAPH = ox.NamedNode("http://e/w")
X = "http://www.w3.org/2001/XMLSchema#"
TERMS = [
    b"<http://e/a>",
    b"<http://e/b>",
    b"_:n",
    b"_:0",
    b'"x"',
    b'"1"^^<%binteger>' % X.encode(),
    b'"01"^^<%bint>' % X.encode(),
]
TERMS += [
    b'"a\\"b\\\\"',
    b'"\t\x01\x7f"',
    b'"x"@EN-us',
    b'"x"@en--ltr',
    b'"1e0"^^<%bdouble>' % X.encode(),
    b"<http://e/\\u0061>",
]
TERMS += [
    '"ß"'.encode(),
    "<http://e/ß>".encode(),
    b'"\xff"',
    b"<a b>",
    b"<a>",
    b"<>",
    b"_:",
    b"_:a.",
    b"_:a.b",
    b"_:-",
    b'""',
    b'"""x"""',
]
TERMS += [
    b"<<( <http://e/a> <http://e/p> 1 )>>",
    b'<<( <http://e/a> <http://e/p> "01"^^<%bint> )>>' % X.encode(),
    b"1",
    b"a",
    b"'x'",
]
TERMS += [
    b'"x"^^<y z>',
    b'"x"^^',
    b'"x"@',
    b'"x',
    b"<http://e/x",
    b"_:a#b",
    b'"\\u0041"',
    b'"\\q"',
    b"_:\xc2\xa0",
    b'"1"^^_:b',
    b"_:a:b",
]
TIMES = [
    b"0",
    b"5",
    b"007",
    b"",
    b" 5",
    b"-1",
    b"5.0",
    b"1" * 18,
    b"1" * 30,
    b"%d" % (LONGEST_GAP + 9),
    b"5 ",
    "٣".encode(),
]
ENDS = [
    b" .",
    b".",
    b" . ",
    b" .\r",
    b" .\r ",
    b" . # c",
    b"",
    b" ..",
    b" . .",
    b" .\x0b",
    b"\t.",
    b" <http://e/g> .",
    b" _:g .",
    b' "g" .',
]
blanks = st.sampled_from([b" ", b" ", b" ", b"\t", b"  ", b"", b"\r", b"\x0b"])
statements = st.builds(
    lambda s, a, p, b, o, end: s + a + p + b + o + end,
    st.sampled_from(TERMS),
    blanks,
    st.sampled_from([*TERMS[:3], b"<http://e/p>"]),
    blanks,
    st.sampled_from(TERMS),
    st.sampled_from(ENDS),
)
usual = st.builds(lambda time, quad: b"%d\t%b ." % (time, str(quad).encode()), st.integers(0, 99), drawn_terms.quads)
none = [b"", b"#", b"# a comment", b" ", b"\t", b"\r", b"5\t", b"5\t# c", b"\xef\xbb\xbf", b"5\t<<( <a:a> <a:a> <<( ."]
lines = st.one_of(
    usual,
    st.tuples(st.sampled_from(TIMES), st.sampled_from([b"\t", b"\t", b"\t", b" "]), statements).map(b"".join),
    st.sampled_from(none),
    st.binary(max_size=20),
    st.builds(lambda line, at, byte: line[:at] + byte + line[at:], usual, st.integers(0, 40), st.binary(max_size=2)),
)
texts = st.builds(lambda all, end: b"\n".join(all) + end, st.lists(lines, max_size=8), st.sampled_from([b"", b"\n"]))


class Pieces(io.BytesIO):
    """Bytes that come so many at a time."""

    def __init__(self, text: bytes, size: int) -> None:
        """Give at most `size` at once."""
        super().__init__(text)
        self.size = size

    def read1(self, _: int | None = -1) -> bytes:
        """What has come."""
        return self.read(self.size)


def seen(
    read: Callable[[TimedLines], object], text: bytes, size: int, policy: OnError, graph: object = DEFAULT
) -> Seen:
    """The elements of a text, what was told, and the error that ended it."""
    heard: list[str] = []
    found: list[tuple[int, ox.Triple]] = []
    stream = TimedLines("s", lambda: Pieces(text, size), Mistakes(policy, tell=heard.append), Steps(), graph)
    try:
        for batch in read(stream).batches():
            found += zip(map(int, batch.times), [quad.triple for quad in stored_quads(batch.quads)], strict=True)
            assert {quad.graph_name for quad in batch.quads} <= {graph} == {batch.graph}
    except StreamError as error:
        return found, heard, str(error)
    return found, heard, ""


@settings(max_examples=400)
@given(st.lists(texts, max_size=3), st.integers(5, 300), st.sampled_from(OnError), st.sampled_from([DEFAULT, GRAPH]))
@example([b"1\t<a:a> <a:a> <a:a> .\r<a:b> <a:b> <a:b> .\n2\t<a:a> <a:a> <a:a> .\n2\t"], 300, OnError.SKIP, DEFAULT)
def test_whatever_bytes_come_they_are_the_same_as_quads_and_as_columns(
    drawn: list[bytes], size: int, policy: OnError, graph: ox.NamedNode | ox.DefaultGraph
) -> None:
    dictionary = Dictionary()
    for text in drawn:
        as_quads = seen(lambda stream: stream, text, size, policy, graph)
        assert seen(lambda stream: ColumnLines(stream, dictionary), text, size, policy, graph) == as_quads
