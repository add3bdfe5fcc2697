"""What a source tells of its values: HTTP headers, a date per key, and the annotations of 004."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Quad, RdfFormat, Store, parse
from terms import rows_of, text_of

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.published import Published
from freshkeeper.maintenance.fetching.endpoint import Copy, Order, Price
from freshkeeper.maintenance.fetching.http.response_status import retry_after
from freshkeeper.maintenance.fetching.http.validity_headers import of_headers
from freshkeeper.maintenance.query.parser import parse as read_query
from freshkeeper.maintenance.query.service_split import split
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session
from freshkeeper.maintenance.sources.annotations import Annotation, ValidityAnnotations, instant_of, with_validity
from freshkeeper.maintenance.sources.pattern_source import PatternFetcher, pattern_fetcher
from freshkeeper.maintenance.sources.sources import EmbeddedSource
from freshkeeper.maintenance.sources.transport import Transport
from freshkeeper.policies.registry import make

E = "http://example.org/"
NOON = "Wed, 01 Jul 2015 12:00:00 GMT"
WALL = 1_435_752_000.0
PREFIXES = f"""@prefix : <{E}> . @prefix tmp: <http://example.org/temporal#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix sp: <http://example.org/singletonproperties#> . @prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix dct: <http://purl.org/dc/terms/> . :jazz :discussedBy :ann, :bob .
"""


@pytest.mark.parametrize(
    ("headers", "modified", "expires"),
    [
        ({}, UNKNOWN, UNKNOWN),
        ({"cache-control": "max-age=60"}, UNKNOWN, 65_000),
        ({"cache-control": "public, MAX-AGE=60", "age": "15"}, UNKNOWN, 50_000),
        ({"cache-control": "max-age=60", "age": "99"}, UNKNOWN, UNKNOWN),
        ({"cache-control": "no-cache, max-age=60"}, UNKNOWN, UNKNOWN),
        ({"cache-control": "no-store"}, UNKNOWN, UNKNOWN),
        ({"date": NOON, "expires": "Wed, 01 Jul 2015 12:00:10 GMT"}, UNKNOWN, 15_000),
        ({"expires": "Wed, 01 Jul 2015 12:00:10 GMT"}, UNKNOWN, 15_000),
        ({"date": NOON, "expires": "0"}, UNKNOWN, UNKNOWN),
        ({"date": NOON, "expires": NOON}, UNKNOWN, UNKNOWN),
        ({"date": NOON, "expires": "Thu, 02 Jul 2015 12:00:00 GMT", "cache-control": "max-age=1"}, UNKNOWN, 6_000),
        ({"date": NOON, "last-modified": "Wed, 01 Jul 2015 11:59:58 GMT"}, 3_000, UNKNOWN),
        ({"date": NOON, "last-modified": "Wed, 01 Jul 2015 13:00:00 GMT"}, UNKNOWN, UNKNOWN),
        ({"date": "yesterday", "last-modified": "never"}, UNKNOWN, UNKNOWN),
    ],
)
def test_headers_are_read_in_event_time(headers: dict[str, str], modified: int, expires: int) -> None:
    assert of_headers(headers, 5_000, WALL) == (modified, expires)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("120", 120), ("0", 0), (" 7 ", 7), ("99999999999999", 86_400), ("Wed, 01 Jul 2015 12:00:30 GMT", 30),
        ("Wed, 01 Jul 2015 11:00:00 GMT", 0), ("soon", None), ("-3", None), ("1.5", None), ("", None),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(written: str, seconds: int | None) -> None:
    assert retry_after({"retry-after": written}, WALL) == seconds
    assert retry_after({}, WALL) is None


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:01+01:00", 1000), ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-02", 86_400_000), ("1970-01-01T00:00:00.0019Z", 1), ("soon", None), ("", None),
    ],
)  # fmt: skip
def test_dates_are_read_as_xsd_writes_them(written: str, ms: int | None) -> None:
    assert instant_of(written) == ms


class Annotated(EmbeddedSource):
    """A source in this process whose graphs are kept."""

    def __init__(self, trig: str) -> None:
        super().__init__([])
        self.load(trig)

    def load(self, trig: str) -> None:
        self.store = Store()
        self.store.extend(Quad(*quad) for quad in parse(PREFIXES + trig, format=RdfFormat.TRIG))


def endpoint(
    trig: str,
    told: ValidityAnnotations,
    pattern: str = "?topic :discussedBy ?user . ?user :followers ?n",
    price: Price | None = None,
) -> tuple[PatternFetcher, Annotated]:
    query = f"""PREFIX : <{E}> SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT4S STEP PT1S]
        WHERE {{ WINDOW :w {{ ?post :about ?topic }} SERVICE :blog {{ {pattern} }} }}"""
    (service,) = read_query(query).services
    parts = with_validity(split(service, [f"{E}followers"], ["post", "topic"]), [f"{E}followers"], told)
    source = Annotated(trig)
    return pattern_fetcher(parts, Transport.in_process(source), price or Price()), source


def node(name: str) -> tuple[NamedNode]:
    return (NamedNode(E + name),)


def copies(endpoint: PatternFetcher, now: int, *users: str) -> Sequence[Copy]:
    return endpoint.deliver(Order(now, [node(user) for user in users])).copies


def value(copy: Copy) -> list[str]:
    rows: Any = copy.value
    return [term.value for row in rows for term in row]


def at(seconds: int) -> str:
    return f'"1970-01-01T00:00:{seconds:02}Z"^^xsd:dateTime'


def test_a_date_per_key_is_asked_for_with_the_values() -> None:
    trig = f":ann :followers 1 ; dct:modified {at(7)}, {at(5)} . :bob :followers 2, 3 ."
    source, _ = endpoint(trig, ValidityAnnotations(modified="http://purl.org/dc/terms/modified"), price=Price(batch=2))
    ann, bob = copies(source, 9_000, "ann", "bob")
    assert (value(ann), ann.modified, ann.expires) == (["1"], 7_000, UNKNOWN)
    assert (value(bob), bob.modified) == (["2", "3"], UNKNOWN)
    (expanded,) = source.deliver(Order(9_000, [], [node("jazz")])).expanded
    assert expanded.copies == {node("ann"): ann, node("bob"): bob}


FORMS = {
    Annotation.GRAPH: ":g1 {{ :ann :followers {value} }} {{ :g1 {said} }} ",
    Annotation.REIFICATION: "[] rdf:subject :ann ; rdf:predicate :followers ; rdf:object {value} ; {said} . ",
    Annotation.SINGLETON: ":ann :followers1 {value} . :followers1 sp:singletonPropertyOf :followers ; {said} . ",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("said", "modified", "expires"),
    [
        (f"tmp:expiration {at(30)}", UNKNOWN, 30_000),
        (f"tmp:interval [ tmp:initial {at(5)} ; tmp:final {at(30)} ]", 5_000, 30_000),
    ],
)
def test_annotations_say_until_when_a_value_holds(form: Annotation, said: str, modified: int, expires: int) -> None:
    source, _ = endpoint(FORMS[form].format(value=10, said=said), ValidityAnnotations(annotation=form))
    (ann,) = copies(source, 9_000, "ann")
    assert (value(ann), ann.modified, ann.expires) == (["10"], modified, expires)
    (expanded,) = source.deliver(Order(9_000, [], [node("jazz")])).expanded
    assert expanded.copies[node("ann")] == ann
    assert value(expanded.copies[node("bob")]) == []


def test_of_a_history_the_values_that_hold_now_are_taken() -> None:
    spans = [(0, 10), (10, 20), (20, 30)]
    trig = "".join(
        f":g{n} {{ :ann :followers {n} }} :g{n} tmp:interval [ tmp:initial {at(a)} ; tmp:final {at(b)} ] . "
        for n, (a, b) in enumerate(spans)
    )
    source, _ = endpoint(trig, ValidityAnnotations(annotation=Annotation.GRAPH))
    seen = [copies(source, now, "ann")[0] for now in (9_999, 10_000, 25_000, 45_000)]
    assert [value(copy) for copy in seen] == [["0"], ["1"], ["2"], ["2"]], (
        "the last one stays until there is a newer one"
    )
    assert [copy.expires for copy in seen] == [10_000, 20_000, 30_000, 30_000]


def history(spans: list[tuple[int, int]]) -> str:
    return "".join(
        f":g{n} {{ :ann :followers {n} }} :g{n} tmp:interval [ tmp:initial {at(a)} ; tmp:final {at(b)} ] . "
        for n, (a, b) in enumerate(spans)
    )


SPANS = st.tuples(st.integers(0, 20), st.integers(1, 9)).map(lambda span: (span[0], span[0] + span[1]))


def test_a_value_that_begins_beside_one_that_lasts_ends_the_copy() -> None:
    source, _ = endpoint(history([(0, 10), (5, 20)]), ValidityAnnotations(annotation=Annotation.GRAPH))
    seen = [copies(source, now, "ann")[0] for now in (0, 4_999, 5_000, 12_000)]
    assert [(value(copy), copy.modified, copy.expires) for copy in seen] == [
        (["0"], 0, 5_000), (["0"], 0, 5_000), (["0", "1"], 5_000, 10_000), (["1"], 10_000, 20_000),
    ]  # fmt: skip


@settings(max_examples=examples(60))
@given(st.lists(SPANS, max_size=5))
def test_no_value_comes_or_goes_between_the_change_and_the_expiry_that_are_told(spans: list[tuple[int, int]]) -> None:
    source, _ = endpoint(history(spans), ValidityAnnotations(annotation=Annotation.GRAPH))
    seen = {now: copies(source, now * 1000, "ann")[0] for now in range(31)}
    for now, copy in seen.items():
        holding = [str(n) for n, (a, b) in enumerate(spans) if a <= now < b]
        if holding:
            assert value(copy) == holding
        first = copy.modified // 1000 if copy.modified != UNKNOWN else now
        for other in range(first, min(copy.expires // 1000, 31)):
            assert value(seen[other]) == value(copy), (now, other)


def test_one_value_without_an_annotation_makes_the_expiry_of_its_copy_unknown() -> None:
    trig = history([(0, 10)]) + ":g9 { :ann :followers 9 }"
    (ann,) = copies(endpoint(trig, ValidityAnnotations(annotation=Annotation.GRAPH))[0], 0, "ann")
    assert (value(ann), ann.modified, ann.expires) == (["0", "9"], UNKNOWN, UNKNOWN)


def test_a_date_of_a_change_to_come_takes_no_value_away() -> None:
    trig = f":ann :followers 1 ; dct:modified {at(9)} ."
    (ann,) = copies(endpoint(trig, ValidityAnnotations(modified="http://purl.org/dc/terms/modified"))[0], 5_000, "ann")
    assert (value(ann), ann.modified, ann.expires) == (["1"], UNKNOWN, UNKNOWN)


def test_a_row_that_an_optional_may_have_lost_is_never_told_to_last() -> None:
    pattern = "?topic :discussedBy ?user . ?user :likes ?x OPTIONAL { ?x :followers ?n }"
    trig = ":ann :likes :y, :z . :g0 { :y :followers 1 } :g1 { :z :followers 2 } " + "".join(
        f":g{n} tmp:interval [ tmp:initial {at(9 * n)} ; tmp:final {at(30)} ] . " for n in range(2)
    )
    source, _ = endpoint(trig, ValidityAnnotations(annotation=Annotation.GRAPH), pattern)
    (jazz,) = source.deliver(Order(0, [], [node("jazz")])).expanded
    assert {key: copy.expires for key, copy in jazz.copies.items()} == {node("y"): 30_000, node("z"): 0}


def test_a_history_where_no_time_is_seen_is_refused() -> None:
    pattern = "?topic :discussedBy ?user . ?user :followers ?n MINUS { ?user :followers 5 }"
    with pytest.raises(ConfigError, match=r"annotations: graph: MINUS .* shows no time .* behind the SERVICE block"):
        endpoint("", ValidityAnnotations(annotation=Annotation.GRAPH), pattern)


def test_a_value_without_an_annotation_holds_for_an_unknown_time() -> None:
    source, _ = endpoint(":g1 { :ann :followers 3 }", ValidityAnnotations(annotation=Annotation.GRAPH))
    (ann,) = copies(source, 0, "ann")
    assert (value(ann), ann.expires) == (["3"], UNKNOWN)


def test_a_volatile_triple_inside_a_block_is_annotated_too() -> None:
    trig = f":g1 {{ :ann :followers 3 }} :g1 tmp:expiration {at(9)} ."
    pattern = "?topic :discussedBy ?user OPTIONAL { ?user :followers ?n FILTER(?n > 1) }"
    source, _ = endpoint(trig, ValidityAnnotations(annotation=Annotation.GRAPH), pattern)
    ann, bob = copies(source, 0, "ann", "bob")
    assert (value(ann), ann.expires) == (["3"], 9_000)
    assert bob.expires == UNKNOWN


def test_a_predicate_that_may_be_any_has_no_annotation() -> None:
    with pytest.raises(ConfigError, match=r"annotations: graph: name the predicate of \?user \?p \?n"):
        endpoint("", ValidityAnnotations(annotation=Annotation.GRAPH), "?topic :discussedBy ?user . ?user ?p ?n")


def test_triples_that_cannot_be_told_apart_are_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"annotations: graph: write .* as triples of three terms each"):
        endpoint(
            "",
            ValidityAnnotations(annotation=Annotation.GRAPH),
            "?topic :discussedBy ?user OPTIONAL { ?user :followers ?n ; :x ?y }",
        )


def test_what_is_told_saves_the_budget_for_what_has_expired() -> None:
    def trig(ann: int, until: int) -> str:
        return (
            f":g1 {{ :ann :followers {ann} }} :g1 tmp:expiration {at(until)} . "
            f":g2 {{ :bob :followers 2 }} :g2 tmp:expiration {at(50)} ."
        )

    source, data = endpoint(trig(1, 3), ValidityAnnotations(annotation=Annotation.GRAPH))
    manager = Manager(WindowSpec(20_000, 1000), source, make("ibm"), BudgetRule.of(1), Published())
    found = manager.evaluate(1000, [(1000, node("jazz"))])
    assert {answer.freshness for answer in found.answers} == {1.0}
    assert manager.evaluate(2000, []).record.spent == 0, "both hold"
    data.load(trig(9, 40))
    third = manager.evaluate(3000, [])
    assert (third.record.spent, third.refreshes.keys) == (1, [node("ann")])
    assert {answer.freshness for answer in third.answers} == {1.0}
    assert manager.evaluate(4000, []).record.spent == 0


def test_a_file_with_a_history_in_named_graphs_is_a_source_that_changes(tmp_path: Path) -> None:
    spans = "".join(
        f":g{n} {{ :ann :followers {n} }} :g{n} tmp:interval [ tmp:initial {at(2 * n)} ; tmp:final {at(2 * n + 2)} ] . "
        for n in range(3)
    )
    (tmp_path / "blog.trig").write_text(PREFIXES + spans)
    (tmp_path / "blog.yaml").write_text(
        f"data: blog.trig\nvolatile: {E}followers\nknowledge: published\nannotations: graph\n"
    )
    (tmp_path / "s.nq").write_text("".join(f"{n}000\t<{E}p{n}> <{E}about> <{E}jazz> .\n" for n in range(1, 6)))
    text = f"""PREFIX : <{E}> SELECT ?n FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S]
        WHERE {{ WINDOW :w {{ ?post :about ?topic }}
                 SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
    files = {"streams": {f"{E}s": str(tmp_path / "s.nq")}, "sources": {f"{E}blog": str(tmp_path / "blog.yaml")}}
    session = Session(config_of({"query": text, **files}), read_query(text))
    seen = [(r.t, [text_of(row[0]) for row in rows_of(r)], r.fresh(0).probability) for r in session.results()]
    assert seen == [(1000, ["0"], 1), (2000, ["1"], 1), (3000, ["1"], 1), (4000, ["2"], 1), (5000, ["2"], 1)]
