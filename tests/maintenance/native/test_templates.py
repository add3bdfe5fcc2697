"""Queries that differ in constants alone are one plan, and each answers as it would alone."""

from pathlib import Path

import pytest
from evaluators import said

from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.evaluator_kind import EvaluatorKind
from freshkeeper.maintenance.native.native_query import shown
from freshkeeper.maintenance.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.native.templates import template_query, templates_of
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.rsp.engine import run
from freshkeeper.maintenance.run.build import build
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.simulator.trace.conference import Conference, author_name, query_texts, write_conference
from freshkeeper.simulator.trace.conference_queries import FLOOR_PLAN, STREAM

NAMES = [author_name(n) for n in range(60, 120, 3)]


@pytest.mark.parametrize("number", ["q1", "q3", "q4", "q5"])
@pytest.mark.parametrize("most", [8_192, 50])
def test_instances_answer_as_each_alone(number: str, most: int, tmp_path: Path) -> None:
    place = tmp_path / "conference"
    write_conference(Conference(triples=3_000, people=120, interval_ms=5), 3, 600, place)
    graphs = StaticGraphs(Dictionary(), {FLOOR_PLAN: place / "floorplan.nt", "": place / "dblp.nt"})
    queries = {name: parse(query_texts(name)[number]) for name in NAMES}
    (template,), others = templates_of(queries)
    assert not others
    assert len(template.instances) == len(NAMES)
    together = template_query(template, graphs, shown(template.instances[0].query))
    together.most = most
    found = list(run(together, {STREAM: TimedLines.file(place / "rfid.nq")}))
    assert {one.query for one in found} <= {*NAMES}
    assert len({one.query for one in found}) > 2
    for name, query in queries.items():
        alone = run(
            build(query, graphs, evaluator=EvaluatorKind.SNAPSHOT), {STREAM: TimedLines.file(place / "rfid.nq")}
        )
        assert said(one for one in found if one.query == name) == said(one for one in alone if one.answers)


def test_what_differs_in_more_than_constants_is_no_template() -> None:
    texts = query_texts("Ada")
    queries = {"one": parse(texts["q3"]), "two": parse(texts["q4"]), "three": parse(texts["q3"].replace("5s", "6s"))}
    templates, others = templates_of(queries)
    assert not templates
    assert {*others} == {*queries}


def test_one_query_twice_is_no_template() -> None:
    query = parse(query_texts("Ada")["q3"])
    assert templates_of({"one": query, "two": query})[0] == []
