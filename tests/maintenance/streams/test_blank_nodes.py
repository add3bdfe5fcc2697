"""Blank nodes of different documents and streams are different nodes, unless they are said to be shared."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, RdfFormat, Triple, parse

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.element_columns import ColumnLines
from freshkeeper.maintenance.engine.engine import Engine
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.query.parser import parse as parse_query
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.serve.push_formats import as_lines
from freshkeeper.maintenance.serve.serve_config import StreamConfig
from freshkeeper.maintenance.streams.blank_nodes import BlankNodes
from freshkeeper.maintenance.streams.opening import open_stream
from freshkeeper.maintenance.streams.read_errors import ReadErrors
from freshkeeper.maintenance.streams.timed_lines import TimedLines

JOIN = """PREFIX : <urn:> SELECT ?x FROM NAMED WINDOW :a ON :s [RANGE PT10S STEP PT1S]
FROM NAMED WINDOW :b ON {other} [RANGE PT10S STEP PT1S] {{ WINDOW :a {{ ?b :p ?x }} WINDOW :b {{ ?b :q ?y }} }}"""
TRIG = """PREFIX : <urn:> PREFIX prov: <http://www.w3.org/ns/prov#>
:g1 prov:generatedAtTime "1970-01-01T00:00:01Z" . :g1 { _:b0 %s 1 }"""


def joined(kind: str, streams: dict[str, str], blank_nodes: BlankNodes = BlankNodes.DOCUMENT) -> int:
    """How many answers the join of :p and :q by a blank node has."""
    other = ":t" if "urn:t" in streams else ":s"
    engine = Engine([build(parse_query(JOIN.format(other=other)), evaluator=EvaluatorKind(kind))])
    for name, written in streams.items():
        engine.listen(name, open_stream(written, ReadErrors(), blank_nodes=blank_nodes))
    return sum(len(result.answers) for result in engine.run())


def file(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("kind", ["native", "snapshot"])
def test_two_streams_of_lines_do_not_join_by_a_label(kind: str, tmp_path: Path) -> None:
    first = file(tmp_path / "a.nq", "1000\t_:b0 <urn:p> <urn:x> .\n")
    second = file(tmp_path / "b.nq", '1000\t_:b0 <urn:q> "y" .\n')
    streams = {"urn:s": first, "urn:t": second}
    assert joined(kind, streams) == 0
    assert joined(kind, streams, BlankNodes.SHARED) == 1


@pytest.mark.parametrize("kind", ["native", "snapshot"])
def test_the_lines_of_one_stream_join_by_a_label(kind: str, tmp_path: Path) -> None:
    lines = ["1000\t_:b0 <urn:p> <urn:x> .\n", '1000\t_:b0 <urn:q> "y" .\n']
    assert joined(kind, {"urn:s": file(tmp_path / "a.nq", "".join(lines))}) == 1
    for number, line in enumerate(lines):
        file(tmp_path / "parts" / f"{number}.nq", line)
    assert joined(kind, {"urn:s": str(tmp_path / "parts")}) == 1


@pytest.mark.parametrize("kind", ["native", "snapshot"])
def test_documents_of_a_directory_do_not_join_by_a_label(kind: str, tmp_path: Path) -> None:
    for number, predicate in enumerate((":p", ":q")):
        file(tmp_path / "docs" / f"{number}.trig", TRIG % predicate)
    streams = {"urn:s": str(tmp_path / "docs")}
    assert joined(kind, streams) == 0
    assert joined(kind, streams, BlankNodes.SHARED) == 1
    assert joined(kind, {"urn:s": file(tmp_path / "one.trig", TRIG % ":p 1 ; :q")}) == 1


@pytest.mark.parametrize("at", [None, 1000])
def test_each_body_of_a_request_has_blank_nodes_of_its_own(at: int | None) -> None:
    body = (TRIG % ":p 1 ; :q").encode()

    def nodes(blank_nodes: BlankNodes) -> set[bytes]:
        bodies = [
            as_lines("application/trig", body, at, "urn:s", StreamConfig(), blank_nodes=blank_nodes) for _ in range(2)
        ]
        return {line.split()[1] for one in bodies for line in one.splitlines() if b"_:" in line}

    assert len(nodes(BlankNodes.DOCUMENT)) == 2
    assert nodes(BlankNodes.SHARED) == {b"_:b0"}


@pytest.mark.parametrize("read", [lambda lines: lines, lambda lines: ColumnLines(lines, Dictionary())])
def test_labels_are_scoped_wherever_they_stand(read: Callable[[TimedLines], TimedLines | ColumnLines]) -> None:
    text = (
        '1\t_:a <urn:p> "_:a" .\n2\t<urn:_:a> <urn:p> _:a-b.c <urn:g> .\n3\t<urn:x> <urn:p> <<( _:a <urn:p> _:a )>> .\n'
    )
    (batch,) = read(TimedLines("s", lambda: io.BytesIO(text.encode()), scope="d1.")).batches()
    expected = parse(
        '_:d1.a <urn:p> "_:a" . <urn:_:a> <urn:p> _:d1.a-b.c . <urn:x> <urn:p> <<( _:d1.a <urn:p> _:d1.a )>> .',
        format=RdfFormat.TURTLE,
    )
    assert [quad.triple for quad in batch.quads] == [quad.triple for quad in expected]


def test_labels_are_the_same_after_a_restart() -> None:
    def subjects() -> list[Triple]:
        lines = TimedLines("s", lambda: io.BytesIO(b"1\t_:a <urn:p> _:b .\n"))
        return [quad.triple for batch in lines.batches() for quad in batch.quads]

    assert subjects() == subjects()
    (triple,) = subjects()
    assert triple.subject == BlankNode(f"{BlankNodes.DOCUMENT.scope('s')}a") != triple.object
