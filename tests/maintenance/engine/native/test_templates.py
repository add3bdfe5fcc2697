"""Queries that differ in constants alone are one plan, and each answers as it would alone."""

from pathlib import Path

import pytest
from evaluators import said
from pyoxigraph import Literal, NamedNode

from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.engine.native.templates import template_query, templates_of
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.simulator.trace.conference import Conference, author_name, query_texts, write_conference
from freshkeeper.simulator.trace.conference_queries import FLOOR_PLAN, STREAM

NAMES = [author_name(n) for n in range(69, 120, 6)]


@pytest.mark.slow
@pytest.mark.parametrize("number", ["q1", "q3", "q4", "q5"])
def test_instances_answer_as_each_alone(number: str, tmp_path: Path) -> None:
    place = tmp_path / "conference"
    write_conference(Conference(triples=3_000, people=120, interval_ms=5), 3, 600, place)
    graphs = StaticGraphs(Dictionary(), {FLOOR_PLAN: place / "floorplan.nt", "": place / "dblp.nt"})
    texts = {name: query_texts(name)[number] for name in NAMES}
    (template,) = templates_of(texts, parse, graphs)
    assert template.names == (*NAMES,)
    alone = {}
    for name, text in texts.items():
        one = build(parse(text), graphs, evaluator=EvaluatorKind.SNAPSHOT)
        answered = run(one, {STREAM: TimedLines.file(place / "rfid.nq")})
        alone[name] = said(each for each in answered if each.answers)
    for most in (8_192, 50):
        together = template_query(template, graphs)
        together.most = most
        found = list(run(together, {STREAM: TimedLines.file(place / "rfid.nq")}))
        assert {one.query for one in found} <= {*NAMES}
        assert len({one.query for one in found}) > 2
        assert {name: said(one for one in found if one.query == name) for name in NAMES} == alone


ROOM = """PREFIX : <urn:> SELECT ?who FROM NAMED WINDOW :w ON :s [RANGE PT9S]
{ WINDOW :w { ?who :at ?room } ?room :in <urn:house/1> ; :says "warm" . # in "house" 1
  FILTER(?who != "nobody" && CONTAINS(STR(?room), 'it"s')) }"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (":at", ":near"),  # a name with a prefix is no constant that is looked for
        ("PT9S", "PT8S"),
        ("<urn:> SELECT", "<urn:x> SELECT"),  # what differs is what all names mean
        ('"nobody"', '"me"'),  # of a FILTER
        ('"house"', '"tent"'),  # of a comment
        ("'it\"s'", "'it\"is'"),
        (":says", "<urn:told>"),
        ('"warm"', '"warm"@en'),
        ('"warm" .', '"warm" . ?room :is "open" .'),
    ],
)
def test_what_differs_in_more_than_subjects_and_objects_of_a_static_part_is_no_template(old: str, new: str) -> None:
    assert old in ROOM
    assert templates_of({"one": ROOM, "two": ROOM.replace(old, new)}, parse) == []


def test_a_constant_is_what_the_text_says() -> None:
    other = ROOM.replace('"warm"', r'"c\u00f4ld\tand \"wet\""').replace("house/1", "house/2")
    (template,) = templates_of({"one": ROOM, "two": other}, parse)
    assert template.constants == (
        (NamedNode("urn:house/1"), NamedNode("urn:house/2")), (Literal("warm"), Literal('c\u00f4ld\tand "wet"')),
    )  # fmt: skip


def test_one_query_twice_is_no_template() -> None:
    assert templates_of({"one": ROOM, "two": ROOM}, parse) == []


def test_queries_that_are_none_are_no_template() -> None:
    wrong = ROOM.replace("SELECT", "SELECTED")
    assert templates_of({"one": wrong, "two": wrong.replace("warm", "cold")}, parse) == []
