"""Elements that would crash a parser, or have a run answer for ever, are errors with their place."""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from feeds import events
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Store, Triple
from terms import rows_of, solutions, text_of

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.nesting import MAX_DEPTH, depth_of, depth_of_triples, items_of, marks_of
from freshkeeper.maintenance.base.rdf_files import load_graph
from freshkeeper.maintenance.base.term_text import decode, encode
from freshkeeper.maintenance.engine.service_join.service_rows import ServiceRows, unskolem
from freshkeeper.maintenance.outputs.formats import writer
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session
from freshkeeper.maintenance.streams.gap_limit import LONGEST_GAP, GapLimit
from freshkeeper.maintenance.streams.opening import open_stream
from freshkeeper.maintenance.streams.read_errors import OnError, ReadErrors, StreamError
from freshkeeper.maintenance.streams.timed_lines import LONGEST_LINE, TimedLines

E = "http://e/"
DAY = 86_400_000
QUERY = """PREFIX : <http://e/> SELECT ?a FROM NAMED WINDOW :w ON :s [RANGE PT1H STEP PT1H]
WHERE { WINDOW :w { ?a :p ?b } }"""
JOIN = """PREFIX : <http://e/> SELECT ?a FROM NAMED WINDOW :w ON :s [RANGE PT1H STEP PT1H]
FROM NAMED WINDOW :v ON :r [RANGE PT1H STEP PT1H] WHERE { WINDOW :w { ?a :p ?b } WINDOW :v { ?c :p ?d } }"""


def line(at: int, value: str = "<http://e/b>", name: str = "a") -> str:
    return f"{at}\t<http://e/{name}> <http://e/p> {value} .\n"


def nested(levels: int, inner: str = "<http://e/o>") -> str:
    return "<<( <http://e/s> <http://e/p> " * levels + inner + " )>>" * levels


def session(tmp_path: Path, text: dict[str, str] | str, query: str = QUERY, **more: Any) -> tuple[Session, list[Any]]:
    streams = {}
    for name, content in ({"s": text} if isinstance(text, str) else text).items():
        (tmp_path / f"{name}.nq").write_text(content)
        streams[E + name] = str(tmp_path / f"{name}.nq")
    told: list[str] = []
    made = Session(config_of({"query": query, "streams": streams, **more}), parse(query), told.append)
    return made, told


def count(made: Session) -> int:
    return sum(1 for _ in made.results())


@pytest.mark.parametrize("comment", ["", "# ends here\r"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 700, 10_000])
def test_a_line_that_is_nested_too_deep_is_one_element_lost(levels: int, comment: str, tmp_path: Path) -> None:
    text = line(1) + line(2, nested(levels)).replace("\t", f"\t{comment}") + line(3_600_001, name="c")
    with pytest.raises(StreamError, match=r"s.nq, line 2: .* nested deeper than 100 levels"):
        count(session(tmp_path, text)[0])
    made, told = session(tmp_path, text, on_error="skip")
    assert (count(made), len(told)) == (1, 1)


def test_what_only_looks_nested_is_read(lines_of: Callable[..., Any]) -> None:
    deep, shown = nested(MAX_DEPTH), "<<(" * 1_000
    found = lines_of(line(1, deep) + line(2, f'"{shown}"') + line(3, '"a\\"' + shown + '"'))
    assert [str(quad.object)[:4] for quad in found] == ["<htt", '"<<(', '"a\\"']


@pytest.fixture
def lines_of() -> Callable[..., Any]:
    return lambda text: [
        quad for batch in TimedLines("s", lambda: io.BytesIO(text.encode())).batches() for quad in batch.quads
    ]


@pytest.mark.parametrize("data", ["", "data:"])
def test_a_line_without_an_end_is_one_element_lost(data: str) -> None:
    text = "".join(data + line(at) for at in (1, 2)).encode()
    bad = f"{data}3\t".encode() + b"x" * 3 * LONGEST_LINE + b"\n"
    source = io.BufferedReader(io.BytesIO(text + bad + text.replace(b"1\t", b"4\t")))
    heard: list[str] = []
    read_errors = ReadErrors(OnError.SKIP, notify=heard.append)
    stream = events(source, read_errors) if data else TimedLines("s", lambda: source, read_errors)
    assert [at for batch in stream.batches() for at in batch.times] == [1, 2, 4, 2]
    assert len(heard) == 1
    assert f"longer than {LONGEST_LINE} bytes" in heard[0]


def test_documents_and_graphs_that_are_nested_too_deep_are_said_so(tmp_path: Path) -> None:
    (tmp_path / "s.trig").write_text(f"<http://e/g> {{ <http://e/a> <http://e/b> {nested(5_000)} }}")
    (tmp_path / "s.jsonld").write_text('{"@id":"urn:a","urn:b":' * 5_000 + "1" + "}" * 5_000)
    (tmp_path / "g.ttl").write_text(f"<http://e/a> <http://e/b> {nested(5_000)} .")
    for name in ("s.trig", "s.jsonld"):
        with pytest.raises(StreamError, match="nested deeper than 100 levels"):
            list(open_stream(str(tmp_path / name), ReadErrors()).batches())
    with pytest.raises(InputError, match="nested deeper than 100 levels"):
        session(tmp_path, line(1), default=str(tmp_path / "g.ttl"))


FAR = [LONGEST_GAP + 1_001, 10**15 + 1, 10**18, 10**29]


@pytest.mark.parametrize("far", FAR)
def test_one_element_of_the_far_future_is_one_element_lost(far: int, tmp_path: Path) -> None:
    text = line(1_000) + line(far) + line(7_200_001, name="c")
    with pytest.raises(StreamError, match=r"s.nq, line 2: .*\(--gap\)|s.nq, line 2: .* is no time"):
        count(session(tmp_path, text)[0])
    for _ in range(2):  # and again with the state of the first
        made, told = session(tmp_path, text, on_error="skip", state=tmp_path / "state")
        answered = [result.t for result in made.results()]
        assert len(told) == 1
    assert answered == []
    made, _ = session(tmp_path, text, on_error="skip")
    assert [result.t for result in made.results()] == [3_600_000, 7_200_000]


def test_the_first_element_after_a_restart_is_counted_from_the_last_evaluation(tmp_path: Path) -> None:
    state: dict[str, Any] = {"state": tmp_path / "state", "on_error": "skip"}
    assert count(session(tmp_path, line(1_000) + line(7_200_000), **state)[0]) == 2
    made, told = session(tmp_path, line(10**14) + line(7_300_000) + line(10_800_000), **state)
    assert [result.t for result in made.results()] == [10_800_000]
    assert "line 1: 100000000000000 is" in told[0]
    made, _ = session(tmp_path, line(10_800_000 + 40 * DAY), **state, gap="41d")
    assert [result.t for result in made.results()] == [10_800_000 + 40 * DAY]


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), max_size=4), st.none() | st.integers(0, 60))
def test_many_elements_at_once_are_judged_as_one_after_the_other(
    batches: list[list[int]], answered: int | None
) -> None:
    at_once, one_by_one = GapLimit(10, answered), GapLimit(10, answered)
    for times in batches:
        plausible = at_once.take(times)
        for time in times:
            try:
                one_by_one.check(time)
            except ValueError:
                assert not plausible
                return
        assert plausible
        assert at_once.latest == one_by_one.latest


def test_a_gap_that_is_meant_is_a_setting(tmp_path: Path) -> None:
    text = line(1_000) + line(400 * DAY)
    with pytest.raises(StreamError, match=r"line 2: 34560000000 is P399DT23H59M59S ahead .* at most P30D is plausible"):
        count(session(tmp_path, text)[0])
    assert count(session(tmp_path, text, gap="400d")[0]) == 400 * 24


def test_a_stream_begins_anywhere_and_steps_are_counted_from_its_latest_element(tmp_path: Path) -> None:
    text = "".join(line(1_500_000_000_000 + 20 * DAY * n) for n in (0, 1, 0, 2, 3))
    assert count(session(tmp_path, text)[0]) == 60 * 24


@pytest.mark.parametrize("far", FAR)
def test_times_of_tables_documents_and_programs_are_bounded_too(far: int, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text(
        "data: s.jsonl\ntime: at\ntriples: [{subject: 'urn:a', predicate: 'urn:b', object: '{at}'}]"
    )
    (tmp_path / "s.jsonl").write_text(f'{{"at": 1}}\n{{"at": {far}}}\n{{"at": 2}}\n')
    read_errors = ReadErrors(OnError.SKIP)
    assert [at for b in open_stream(str(tmp_path / "map.yaml"), read_errors).batches() for at in b.times] == [1, 2]
    assert read_errors.count == 1
    triple = Triple(NamedNode(f"{E}a"), NamedNode(f"{E}p"), Literal(1))
    with pytest.raises(InputError, match=f"{far} is"):
        list(run(build(parse(QUERY)), {f"{E}s": [(1, triple), (far, triple)]}))


def test_graphs_are_judged_in_the_order_of_their_times(tmp_path: Path) -> None:
    dates = ("2020-01-01", "2020-02-20", "2020-01-25", "2099-01-01")
    made = (
        '<urn:g{0}> <http://www.w3.org/ns/prov#generatedAtTime> "{1}T00:00:00Z" . <urn:g{0}> {{ <urn:a> <urn:b> {0} }} '
    )
    (tmp_path / "s.trig").write_text("".join(made.format(n, date) for n, date in enumerate(dates)))
    read_errors = ReadErrors(OnError.SKIP)
    (batch,) = open_stream(str(tmp_path / "s.trig"), read_errors).batches()
    assert ([text_of(quad.object) for quad in batch.quads], read_errors.count) == (["0", "2", "1"], 1)


@pytest.mark.parametrize("drain", [False, True])
def test_a_stream_that_begins_where_no_other_leads_to_is_an_error(drain: bool, tmp_path: Path) -> None:
    texts = {"s": "".join(line(at) for at in range(0, 2 * DAY, 3_600_000)), "r": line(10**14) + line(10**14 + 1)}
    with pytest.raises(StreamError, match=r"the stream <http://e/r>, its first element: .* \(--gap\)"):
        count(session(tmp_path, texts, JOIN)[0])
    made, told = session(tmp_path, texts, JOIN, on_error="skip", drain=drain)
    assert count(made) in (47, 48, 49)
    assert len(told) == 1


def test_a_stream_may_begin_long_after_another_that_leads_to_it(tmp_path: Path) -> None:
    texts = {"s": "".join(line(DAY * n) for n in range(100)), "r": line(95 * DAY)}
    assert count(session(tmp_path, texts, JOIN)[0]) == 99 * 24


def terms() -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b"]).map(lambda name: NamedNode(E + name))
    nodes = st.one_of(names, st.sampled_from(["x", "y"]).map(BlankNode))
    literals = st.one_of(st.text(st.characters(exclude_categories=["Cs"])).map(Literal), st.integers().map(Literal))
    return st.recursive(st.one_of(nodes, literals), lambda inner: st.builds(Triple, nodes, names, inner), max_leaves=3)


@given(st.lists(terms(), min_size=1, max_size=4))
def test_every_term_comes_back_from_values_and_from_a_state(
    found: Sequence[BlankNode | Literal | NamedNode | Triple],
) -> None:
    service = ServiceRows(("x",), [(term,) for term in found], list(range(len(found))), [])
    text = f"SELECT ?x ?n {{ {service.text(0)} BIND(?freshkeeper_copy_0 AS ?n) }} ORDER BY ?n"
    rows = list(solutions(Store().query(text)))
    assert [unskolem(row["x"]) for row in sorted(rows, key=lambda row: int(text_of(row["n"])))] == _stored(found)
    assert decode([encode(tuple(found))]) == [tuple(found)]


def _stored(
    found: Sequence[BlankNode | Literal | NamedNode | Triple],
) -> list[BlankNode | Literal | NamedNode | Triple]:
    """As the library writes numbers: 01 and 1 are one."""
    node = NamedNode(f"{E}n")
    made = []
    for term in found:
        store = Store()
        store.add(Quad(node, node, term))
        made.append(next(iter(store)).object)
    return made


def test_a_triple_term_is_a_key_and_a_value_like_any_other(tmp_path: Path) -> None:
    query = """PREFIX : <http://e/> SELECT ?b ?n FROM NAMED WINDOW :w ON :s [RANGE PT1H STEP PT1H]
    WHERE { WINDOW :w { ?a :p ?b } SERVICE :x { ?b :q ?n } }"""
    (tmp_path / "x.ttl").write_text(
        "@prefix : <http://e/> . :b :q 1 . :s :q 2 . :c :q <<( :s :p <<( :s :p :o )>> )>> . :d :q <<( _:n :p _:n )>> ."
    )
    keys = ["<http://e/b>", nested(1), "<http://e/c>", "<http://e/d>", nested(2, '"x"'), "<http://e/s>"]
    text = "".join(line(n, key, f"a{n}") for n, key in enumerate(keys, 1)) + line(3_600_001)
    source = {"data": str(tmp_path / "x.ttl"), "volatile": [f"{E}q"], "batch": 10}
    made, _ = session(tmp_path, text, query, sources={f"{E}x": source}, policy="lru", state=tmp_path / "state")
    (result,) = made.results()
    found = {str(row[0]): row[1] for row in rows_of(result)}
    assert set(found) == {f"<{E}b>", f"<{E}c>", f"<{E}d>", f"<{E}s>"}
    assert (found[f"<{E}b>"], found[f"<{E}s>"]) == (Literal(1), Literal(2))
    assert f"<<( <{E}s> <{E}p> <<( <{E}s> <{E}p> <{E}o> )>> )>>" in "".join(writer("csv").lines(result))
    blank = found[f"<{E}d>"]
    assert isinstance(blank, Triple)
    assert blank.subject == blank.object
    assert isinstance(blank.subject, BlankNode)


JSONS = st.recursive(
    st.one_of(st.text(st.sampled_from('{}[],"\\a')), st.integers(), st.none()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(st.sampled_from('{}[],"\\a')), inner)),
    max_leaves=20,
)


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


@given(JSONS)
def test_json_is_as_deep_as_it_is(value: dict[str, object] | list[object] | str) -> None:
    marks = marks_of(json.dumps(value).encode())
    assert depth_of(marks) == _depth(value)
    assert items_of(marks) <= json.dumps(value).count(",") + json.dumps(value).count("{") + json.dumps(value).count("[")


RDFXML = (
    '<?xml version="1.0"?>\n<!DOCTYPE r [<!ENTITY e0 "ten_letters">{entities}]>'
    '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" r:version="1.2" xmlns:e="http://e/">'
    '<r:Description r:about="http://e/&e0;">{triples}</r:Description></r:RDF>'
)
TRIPLE = '<e:p r:parseType="Triple"><r:Description r:about="http://e/s">'
BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))


@pytest.mark.parametrize(
    ("entities", "triples", "why"),
    [
        ("", TRIPLE * 5_000 + "</r:Description></e:p>" * 5_000, "nested deeper than 100 levels"),
        ('<!ENTITY t "Triple">', TRIPLE.replace("Triple", "&t;") * 5_000, "nested deeper than 100 levels"),
        (BOMB, "<e:p>&e11;</e:p>", "the entity e1 holds others"),
        (f'<!ENTITY e "{"x" * 100_000}">', f"<e:p>{'&e;' * 10_000}</e:p>", "amplification"),
        ("", "<e:p>", "mismatched tag"),
    ],
    ids=["triples", "triples by an entity", "entities in entities", "one entity very often", "no XML"],
)
def test_rdf_in_xml_neither_nests_nor_grows_without_end(entities: str, triples: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "g.rdf").write_text(RDFXML.format(entities=entities, triples=triples))
    with pytest.raises(InputError, match=f"g.rdf, line 2: .*{why}"):
        load_graph(tmp_path / "g.rdf")


def test_rdf_in_xml_is_read_with_its_triples_in_triples_and_its_entities(tmp_path: Path) -> None:
    deep = TRIPLE * 30 + "<e:p>&e0; &amp; &#60;</e:p>" + "</r:Description></e:p>" * 30
    (tmp_path / "g.rdf").write_text(RDFXML.format(entities="", triples=deep))
    (quad,) = load_graph(tmp_path / "g.rdf")
    assert quad.subject == NamedNode(f"{E}ten_letters")
    assert str(quad.object).count("<http://e/s> <http://e/p>") == 30
    assert '"ten_letters & <"' in str(quad.object)


@pytest.mark.parametrize("hiding", ['"{}"', "'{}'", '"""a"{}"""', "# {}\n", "# {}\r", "<urn:a#> "])
def test_triples_in_triples_are_counted_where_they_are(hiding: str) -> None:
    text = f"<urn:a> <urn:b> {hiding.format('<<(' * 300)} {nested(150)} ."
    assert depth_of_triples(text.encode()) == 150
