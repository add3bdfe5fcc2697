"""The conference of seeds/000: its data are as the paper says, its queries say the same on both evaluators."""

from itertools import islice
from pathlib import Path

import pytest
from evaluators import said

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.rdf_files import load_graph
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build
from freshkeeper.maintenance.runtime.embedded_query import run
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.simulator.trace.conference import Conference, floor_plan, papers, query_texts, write_conference
from freshkeeper.simulator.trace.conference_queries import FLOOR_PLAN, STREAM

SMALL = Conference(triples=3_000, people=120, interval_ms=5)
AUTHOR = "Nia Author93"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("conference") / "small"
    write_conference(SMALL, 3, 600, out)
    return out


def test_a_floor_plan_has_172_triples_and_doors_open_both_ways(place: Path) -> None:
    plan = floor_plan(3)
    assert len(load_graph(place / "floorplan.nt")) == 172
    assert all(room in plan.doors[other] for room, doors in enumerate(plan.doors) for other in doors)


def test_a_seed_is_a_draw() -> None:
    assert [*islice(papers(1), 500)] == [*islice(papers(1), 500)] != [*islice(papers(2), 500)]


def test_files_have_as_many_triples_as_were_asked_for(place: Path) -> None:
    assert len((place / "dblp.nt").read_text("utf-8").splitlines()) == 3_000
    assert len((place / "rfid.nq").read_text("utf-8").splitlines()) == 600


def test_what_is_no_conference_is_not_replaced(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there already"):
        write_conference(SMALL, 3, 10, place)
    (tmp_path / "mine").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="no conference"):
        write_conference(SMALL, 3, 10, tmp_path, overwrite=True)


@pytest.mark.parametrize("number", ["q1", "q2", "q3", "q4", "q5"])
def test_queries_of_the_paper_say_the_same_on_both_evaluators(number: str, place: Path) -> None:
    graphs = {FLOOR_PLAN: load_graph(place / "floorplan.nt"), "": load_graph(place / "dblp.nt")}
    query = parse(query_texts(AUTHOR)[number])
    native, snapshot = (
        said(
            run(
                build(query, graphs, evaluator=EvaluatorKind(kind)),
                {STREAM: TimedLines.file(place / "rfid.nq")},
            )
        )
        for kind in ("native", "snapshot")
    )
    assert native == snapshot
    assert any(answers for *_, answers, _ in native)
