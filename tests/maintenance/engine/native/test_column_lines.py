"""Lines read as columns are what they are as quads: the same elements, the same errors at the same places."""

import io
from collections.abc import Callable

import drawn_terms
import pyoxigraph as ox
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from terms import text_of

from freshkeeper.maintenance.base.nesting import MAX_DEPTH
from freshkeeper.maintenance.engine.columns import dictionary as dictionaries
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.stored_literals import stored_quads
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.streams.batch import DEFAULT, Stream
from freshkeeper.maintenance.streams.gap_limit import LONGEST_GAP
from freshkeeper.maintenance.streams.inputs import BackgroundReader
from freshkeeper.maintenance.streams.pace import Pace, Paced
from freshkeeper.maintenance.streams.read_errors import OnError, ReadErrors, StreamError
from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE, TimedLines

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


def seen(read: Callable[[TimedLines], Stream], text: bytes, size: int, policy: OnError) -> Seen:
    """The elements of a text, what was told, and the error that ended it."""
    heard: list[str] = []
    found: list[tuple[int, ox.Triple]] = []
    stream = TimedLines("s", lambda: Pieces(text, size), ReadErrors(policy, notify=heard.append))
    try:
        for batch in read(stream).batches():
            found += zip(map(int, batch.times), [quad.triple for quad in stored_quads(batch.quads)], strict=True)
            assert {quad.graph_name for quad in batch.quads} <= {DEFAULT}
    except StreamError as error:
        return found, heard, str(error)
    return found, heard, ""


@settings(max_examples=examples(400))
@given(st.lists(texts, max_size=3), st.integers(5, 300), st.sampled_from(OnError))
@example([b"0\t<a:a> <a:a> _:- .", b"0\t_:-a <a:a> _:b .\n"], 300, OnError.FAIL)
@example([b"1\t<a:a> <a:a> <a:a> .\r<a:b> <a:b> <a:b> .\n2\t<a:a> <a:a> <a:a> .\n2\t"], 300, OnError.SKIP)
def test_whatever_bytes_come_they_are_the_same_as_quads_and_as_columns(
    drawn: list[bytes], size: int, policy: OnError
) -> None:
    dictionary = Dictionary()
    for text in drawn:
        as_quads = seen(lambda stream: stream, text, size, policy)
        assert seen(lambda stream: ColumnLines(stream, dictionary), text, size, policy) == as_quads


NESTED = b"<<( <a:a> <a:a> " * (MAX_DEPTH + 1) + b"<a:a>" + b" )>>" * (MAX_DEPTH + 1)


@pytest.mark.parametrize(
    "text",
    [
        b"1\t<a:a> <a:a> %b .\n2\t<a:a> <a:a> <a:b> .\n" % NESTED,
        b'1\t<a:a> <a:a> "%b" .\n2\t<a:a> <a:a> <a:b> .\n' % NESTED,
        b"1\t<a:a> <a:a> <a:b> .\n2\t%b\n3\t<a:a> <a:a> <a:c> ." % (b"x" * 3 * LONGEST_LINE),
        b'1\t<a:a> <a:a> "%b" .\n3\t<a:a> <a:a> <a:c> .' % (b"x" * (LONGEST_LINE - 99)),
        b"".join(b"%d\t<a:a> <a:a> <a:b> .\n" % at for at in (5, LONGEST_GAP + 5, 2 * LONGEST_GAP + 6, 7, 10**17)),
        b"1\t<a:a> <a:a> <a:b> .\r\n2\t<a:a> <a:a> <a:c> .\r\n",
        b'1\t<a:a> <a:a> "01"^^<%binteger>, .\n2\t<a:a> <a:a> "x\xff" .\n' % X.encode() * 50,
    ],
)
@pytest.mark.parametrize("policy", OnError)
def test_limits_are_the_same(text: bytes, policy: OnError) -> None:
    as_quads = seen(lambda stream: stream, text, 1 << 18, policy)
    assert seen(lambda stream: ColumnLines(stream, Dictionary()), text, 1 << 18, policy) == as_quads


def usual_lines(first: int, last: int) -> bytes:
    """Elements of a few seconds, of which every tenth comes late."""
    return b"".join(
        b'%d\t<a:s%d> <a:p> "0%d"^^<%binteger> .\n' % (10 * n - 50 * (n % 10 == 9), n % 7, n % 50, X.encode())
        for n in range(first, last)
    )


QUERY = """PREFIX : <a:> SELECT ?s (COUNT(?n) AS ?c) FROM NAMED WINDOW :w ON :st [RANGE PT1S STEP PT0.5S]
WHERE { WINDOW :w { ?s :p ?n } } GROUP BY ?s"""


@pytest.mark.parametrize("evaluator", [EvaluatorKind.SNAPSHOT, EvaluatorKind.AUTO])
@pytest.mark.parametrize("delay", [0, 100])
def test_a_query_answers_the_same_over_columns_also_where_they_come_late(delay: int, evaluator: EvaluatorKind) -> None:
    text, dictionary = usual_lines(10, 500), Dictionary()

    def answered(stream: Stream) -> list[tuple[int, int, list[str]]]:
        query = build(parse(QUERY), evaluator=evaluator, dictionary=dictionary)
        results = run(query, {"a:st": stream}, delay)
        return [(result.t, result.late, sorted(map(str, result.answers))) for result in results]

    expected = answered(TimedLines("s", lambda: Pieces(text, 999)))
    assert sum(len(answers) for _, _, answers in expected) > 50
    for own in (dictionary, Dictionary()):
        assert answered(ColumnLines(TimedLines("s", lambda: Pieces(text, 999)), own)) == expected


def test_a_pace_cuts_columns_where_they_are_not_due() -> None:
    wall, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        wall[0] += seconds

    text = b"".join(b"%d\t<a:s> <a:p> <a:o> .\n" % at for at in (500, 1000, 1000, 3000, 8000))
    stream = ColumnLines(TimedLines("s", lambda: io.BytesIO(text)), Dictionary())
    paced = Paced(stream, Pace(10, lambda: wall[0], sleep, after=500))
    assert [list(batch.times) for batch in paced.batches()] == [[500], [1000, 1000], [3000], [8000]]
    assert slept == pytest.approx([0.2, 0.5])


@pytest.mark.slow
def test_what_a_thread_has_read_and_nobody_has_taken_outlives_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionaries, "SWEEP_FROM_SPELLINGS", 3)
    dictionary, text = Dictionary(), b"".join(b"%d\t<a:s%d> <a:p> <a:o> .\n" % (n, n) for n in range(400))
    stream = ColumnLines(TimedLines("s", lambda: Pieces(text, 60)), dictionary)
    background, found = BackgroundReader(stream, 60, lambda: None), []
    while (batch := background.take()) is not None:
        dictionary.sweep()
        found += [(int(at), text_of(quad.subject)) for at, quad in zip(batch.times, batch.quads, strict=True)]
    assert found == [(n, f"a:s{n}") for n in range(400)]
    assert dictionary.sweeps > 3
