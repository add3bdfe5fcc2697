"""Queries of a run that differ in constants alone are one plan, whether a template or a directory brought them."""

import csv
import re
from pathlib import Path

import pytest

from freshkeeper.maintenance.engine.native.templates import TemplateQuery
from freshkeeper.maintenance.runtime.query_set import read_queries
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session
from freshkeeper.simulator.trace.conference import Conference, author_name, query_texts, write_conference
from freshkeeper.simulator.trace.conference_queries import FLOOR_PLAN, LV, NAME, QUERIES, STREAM

NAMES = {f"a{n}": author_name(n) for n in range(60, 110, 2)}
OTHER = f"""SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW <urn:w> ON <{STREAM}> [RANGE 1s STEP 1s]
{{ WINDOW <urn:w> {{ ?who <{LV}detectedAt> ?loc }} }}"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("conference")
    write_conference(Conference(triples=3_000, people=120, interval_ms=5), 3, 600, found / "data")
    (found / "author.cqels").write_text(QUERIES["q3"].replace(f'"{NAME}"', "$author"))
    with (found / "authors.csv").open("w") as file:
        csv.writer(file).writerows([("name", "author"), *NAMES.items()])
    return found


def session(place: Path, queries: dict[str, object], **more: object) -> tuple[Session, list[str]]:
    data, heard = place / "data", list[str]()
    given = {
        "streams": {STREAM: str(data / "rfid.nq")},
        "graphs": {FLOOR_PLAN: str(data / "floorplan.nt")},
        "default": str(data / "dblp.nt"),
    }
    config = config_of(given | queries | more)
    failures: dict[str, Exception] = {}
    read = read_queries(config, failures.__setitem__)
    return Session(config, read, heard.append, failures=failures), heard


def table(place: Path) -> dict[str, object]:
    return {"templates": {"co": {"query": str(place / "author.cqels"), "instances": str(place / "authors.csv")}}}


def files(number: str) -> dict[str, object]:
    return {"queries": {name: query_texts(author)[number] for name, author in NAMES.items()} | {"other": OTHER}}


def answers(one: Session) -> dict[tuple[str, int], list[list[str]]]:
    """The answers of each query by instant; what windows over elements give at one instant in its order."""
    found: dict[tuple[str, int], list[list[str]]] = {}
    for result in one.results():
        if result.answers:
            found.setdefault((result.query, result.t), []).append(sorted(map(str, result.answers)))
    return found


def plans(one: Session) -> list[int]:
    """How many queries each plan answers."""
    return [len(q.instances) if isinstance(q, TemplateQuery) else 1 for q in one.runtime.queries.values()]


@pytest.mark.slow
@pytest.mark.parametrize("number", ["q1", "q3", "q5"])
def test_queries_that_differ_in_constants_are_one_plan_and_answer_as_each_by_snapshots(
    place: Path, number: str
) -> None:
    together, heard = session(place, files(number))
    assert plans(together) == [len(NAMES), 1]
    alone, _ = session(place, files(number), evaluator="snapshot")
    assert plans(alone) == [1] * (len(NAMES) + 1)
    found = answers(together)
    assert len({name for name, _ in found}) > 3
    assert found == answers(alone)
    assert heard == []


def test_instances_of_a_template_are_one_plan_with_names_of_their_own(place: Path) -> None:
    one, _ = session(place, table(place))
    assert plans(one) == [len(NAMES)]
    found = answers(one)
    other = answers(session(place, files("q3"))[0])
    assert found == {(f"co.{name}", t): said for (name, t), said in other.items() if name in NAMES}


@pytest.mark.slow
def test_instances_run_alone_where_every_evaluation_has_a_line_or_has_limits(place: Path) -> None:
    assert plans(session(place, table(place), empty=True)[0]) == [1] * len(NAMES)
    assert plans(session(place, table(place), most_rows=1000)[0]) == [1] * len(NAMES)


def test_a_template_that_asks_for_what_nobody_gives_is_said_of_each_instance_with_its_place(place: Path) -> None:
    text = (place / "author.cqels").read_text().replace(FLOOR_PLAN, "http://deri.org/plan/")
    rows = [{"name": name, "author": author} for name, author in NAMES.items()]
    good = {"query": str(place / "author.cqels"), "instances": rows}
    one, heard = session(place, {"templates": {"co": {"query": text, "instances": rows}, "good": good}})
    assert plans(one) == [len(NAMES)]
    assert len(heard) == len(NAMES)
    line = text[: text.index("http://deri.org/plan/")].count("\n") + 1
    assert re.match(rf"the query co\.a60 is left out: line {line}, column 12: there is no file for the graph", heard[0])


def test_a_template_that_fails_while_it_runs_takes_its_instances_out_and_no_others(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, heard = session(place, files("q3"))
    (template, other) = one.runtime.queries.values()
    assert isinstance(template, TemplateQuery)

    def fail(_: int) -> None:
        raise RuntimeError("no more room")

    monkeypatch.setattr(template, "reach", fail)
    assert {name for name, _ in answers(one)} == {other.name}
    assert heard == ["the queries a60, a62, a64 and 22 more are left out: RuntimeError: no more room"]
    assert set(one.failures) == {*NAMES}
    assert next(one.summary()).startswith("25 of 26 queries failed: a60, ")
