"""Whatever a source answers costs its answers, and never the run."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote_plus

import pytest
import terms
from pyoxigraph import Literal, NamedNode, Triple
from servers import Said, Saying

from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.fetching.endpoint import Order
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import HttpResponse
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session
from freshkeeper.maintenance.sources.bounds import LONGEST
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.source_config import config_of as source_config
from freshkeeper.maintenance.sources.sources import source_of
from freshkeeper.maintenance.sources.sparql_over_http import rows_of

E = "http://e/"
JSON = "application/sparql-results+json"
ELEMENT = "{at}\t<http://e/p{at}> <http://e/by> <http://e/{who}> .\n"
QUERY = """PREFIX : <http://e/> SELECT ?who ?n FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S]
WHERE {{ WINDOW :w {{ ?p :by ?who }} SERVICE :x {{ {pattern} }} }}"""
DIRECT = "?who :followers ?n"
LINKED = "?who :boss ?b . ?b :followers ?n"
RESOURCE = {
    "subject": f"{E}{{id}}",
    "predicates": {
        f"{E}followers": "stats.followers",
        f"{E}boss": {"path": "boss", "iri": f"{E}{{id}}"},
    },
}


def nested(levels: int) -> bytes:
    """A row with triples in triples, as SPARQL-JSON."""
    subject, predicate = '{"type":"uri","value":"http://e/s"}', '{"type":"uri","value":"http://e/p"}'
    before = f'{{"type":"triple","value":{{"subject":{subject},"predicate":{predicate},"object":'
    return rows(f'{{"n":{before * levels}{subject}{"}}" * levels}}}')


def rows(*written: str, names: list[str] | tuple[str, str] = ("who", "n")) -> bytes:
    return f'{{"head":{{"vars":{json.dumps(names)}}},"results":{{"bindings":[{",".join(written)}]}}}}'.encode()


def number(who: str, value: str) -> str:
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    found = {"who": {"type": "uri", "value": E + who}, "n": {"type": "literal", "value": value, "datatype": integer}}
    return json.dumps(found | {"freshkeeper_there": {"type": "literal", "value": "true"}})


def times(value: str) -> bytes:
    """A row that stands for so many edges."""
    edges = f',"freshkeeper_times":{{"type":"literal","value":"{value}"}}}}'
    return rows(number("ann", "1")[:-1] + edges, names=["who", "n", "freshkeeper_there", "freshkeeper_times"])


def results(source: dict[str, object], tmp_path: Path, pattern: str = DIRECT, **more: Path) -> list[Result]:
    """Every result of a run whose elements speak of ann, bob, ann, bob ... one second each."""
    stream = tmp_path / "s.nq"
    stream.write_text("".join(ELEMENT.format(at=1000 * n, who="ann" if n % 2 else "bob") for n in range(1, 7)))
    query = QUERY.format(pattern=pattern)
    inputs = {"streams": {f"{E}s": str(stream)}, "sources": {f"{E}x": source}}
    session = Session(config_of({"query": query, "policy": "lru", "missing": "drop", **inputs, **more}), parse(query))
    return list(session.results())


def shown(result: Result) -> list[str]:
    return sorted(f"{terms.text_of(row[0]).removeprefix(E)} {terms.text_of(row[1])}" for row in terms.rows_of(result))


SPARQL = {
    "triples in triples": nested(6_000),
    "deep lists": b'{"head":{"vars":["n"]},"x":' + b"[" * 200_000,
    "a long value": rows(number("ann", "x" * 17_000_000)),
    "half an emoji": rows(number("ann", "1").replace('"1"', r'"\ud83d"')),
    "rows of nothing": rows(*["{}"] * 3_000_000),
    "rows of nothing below many names": rows(*["{}"] * 5_000, names=[f"n{n}" for n in range(5_000)]),
    "a million million edges": times("1000000000000"),
    "edges without a number": times("some"),
    "no text": bytes(range(256)) * 10,
}
DOCUMENTS = {
    "half an emoji": rb'{"stats":{"followers":"\ud83d"}}',
    "half an emoji as an id": rb'{"stats":{"followers":1},"boss":"\ud83d"}',
    "deep lists": b"[" * 200_000,
    "deep lists that end": b"[" * 5_000 + b"]" * 5_000,
    "lists of nothing": b"[" + b"[]," * 9_000_000 + b"[]]",
    "a number with too many digits": b'{"stats":{"followers":' + b"9" * 5_000 + b"}}",
    "no text": bytes(range(256)) * 10,
}


@pytest.mark.parametrize("pattern", [DIRECT, LINKED])
@pytest.mark.parametrize("body", SPARQL.values(), ids=SPARQL)
def test_a_bad_answer_about_one_key_costs_the_answers_of_that_key(
    body: bytes, pattern: str, saying: Callable[[Said], Saying], tmp_path: Path
) -> None:
    def said(asked: str) -> tuple[str, bytes]:
        if "http://e/ann" in unquote_plus(asked):
            return JSON, body
        return JSON, rows(
            json.dumps(json.loads(number("bob", "7")) | LINK), names=["who", "b", "n", "freshkeeper_there"]
        )

    source = {"sparql": saying(said).url, "volatile": [f"{E}followers"], "retries": 0, "failures": 100}
    found = results(source, tmp_path, pattern)
    assert [shown(result) for result in found if result.t % 2000 == 0] == [["bob 7"]] * 3
    assert all(not result.answers for result in found if result.t % 2000)


LINK = {"b": {"type": "uri", "value": f"{E}b"}}
USERS = [f"u{n}" for n in range(12)]


@pytest.mark.parametrize("body", SPARQL.values(), ids=SPARQL)
def test_a_bad_answer_about_one_key_of_a_batch_costs_the_others_a_few_requests(
    body: bytes, saying: Callable[[Said], Saying]
) -> None:
    def said(asked: str) -> tuple[str, bytes]:
        names = [name for name in USERS if f"<{E}{name}>" in unquote_plus(asked)]
        found = (json.dumps(json.loads(number(name, "7")) | LINK) for name in names)
        return JSON, body if "u7" in names else rows(*found, names=["who", "b", "n", "freshkeeper_there"])

    given = {"sparql": saying(said).url, "batch": 12, "retries": 0, "failures": 5, "timeout": "60s"}
    source = source_of(source_config(given, "test"))
    (service,) = parse(QUERY.format(pattern=LINKED)).services
    endpoint = pattern_fetcher(split(service, [f"{E}followers"], ["who"]), source.transport, source.price)
    with closing(source.transport):
        for _ in range(2):
            delivery = endpoint.deliver(Order(0, (), [(NamedNode(E + name),) for name in USERS]))
            assert [name for name, one in zip(USERS, delivery.expanded, strict=True) if one.error] == ["u7"]


@pytest.mark.parametrize("body", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_bad_document_costs_its_answers_and_a_restart_goes_on(
    body: bytes, saying: Callable[[Said], Saying], tmp_path: Path
) -> None:
    def said(path: str) -> tuple[str, bytes]:
        return "application/json", body if path == "/ann" else b'{"stats": {"followers": 7}, "boss": "bob"}'

    server = saying(said)
    resource = RESOURCE | {"url": f"{server.url}/{{id}}"}
    source = {"resources": [resource], "volatile": [f"{E}followers"], "retries": 0, "failures": 100}
    for _ in range(2):  # with the state of the first
        found = results(source, tmp_path, f"{DIRECT} . ?who :boss ?b", state=tmp_path / "state")
    (tmp_path / "state" / "state.sqlite").unlink()
    found = results(source, tmp_path, f"{DIRECT} . ?who :boss ?b", state=tmp_path / "state")
    assert [shown(result) for result in found if result.t % 2000 == 0] == [["bob 7"]] * 3
    bad = [result for result in found if result.t % 2000]
    assert (bad[0].errors, [list(result.answers) for result in bad]) == (1, [[]] * 3)


def test_an_answer_that_is_nested_too_deep_is_said_so() -> None:
    with pytest.raises(FetchError, match=r"malformed: .* nested 12\d\d\d levels deep, and 100"):
        rows_of(HttpResponse(200, "OK", {"content-type": JSON}, nested(6_000)))


def test_what_is_read_is_read_as_it_is() -> None:
    (row,) = rows_of(HttpResponse(200, "OK", {"content-type": JSON}, nested(40)))
    term = row["n"]
    for _ in range(40):
        assert isinstance(term, Triple)
        term = term.object
    assert term == NamedNode(f"{E}s")
    text = "x" * LONGEST
    (row,) = rows_of(
        HttpResponse(
            200, "OK", {"content-type": JSON}, rows(number("ann", text), names=["who", "n", "freshkeeper_there"])
        )
    )
    assert isinstance(row["n"], Literal)
    assert row["n"] == Literal(text, datatype=row["n"].datatype)
