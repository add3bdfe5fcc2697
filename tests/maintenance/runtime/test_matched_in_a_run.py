"""Conjunctions over one window are matched together by a run, without the user's doing."""

from pathlib import Path

import pytest

from freshkeeper.maintenance.engine.automaton import matched_queries
from freshkeeper.maintenance.engine.automaton.matched_queries import MatchedQueries
from freshkeeper.maintenance.runtime.query_set import read_queries
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

HEAD = "PREFIX : <urn:> REGISTER ISTREAM :o AS SELECT * FROM NAMED WINDOW :w ON :s [ELEMENTS 9]"
QUERIES = {
    "near": f"{HEAD} {{ WINDOW :w {{ ?a :at ?room . ?b :at ?room }} }}",
    "who": f"{HEAD} {{ WINDOW :w {{ ?a :at :room1 ; ?p ?o }} }}",
    "pair": f"{HEAD} {{ WINDOW :w {{ ?a ?p ?b . ?c ?q ?d }} }}",
}
OTHER = (
    "PREFIX : <urn:> SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW :w ON :s [RANGE 9ms STEP 3ms] { WINDOW :w { ?a ?p ?b } }"
)


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    found = tmp_path / "stream.nq"
    found.write_text("".join(f"{n}\t<urn:p{n % 5}> <urn:at> <urn:room{n % 3}> .\n" for n in range(40)))
    return found


def session(stream: Path, queries: dict[str, str], **more: object) -> tuple[Session, list[str]]:
    config = config_of({"queries": queries, "streams": {"urn:s": str(stream)}, **more})
    heard: list[str] = []
    return Session(
        config, read_queries(config, lambda name, error: pytest.fail(f"{name}: {error}")), heard.append
    ), heard


def answers(one: Session) -> dict[tuple[str, int], list[str]]:
    return {(r.query, r.t): sorted(map(str, r.answers)) for r in one.results() if r.answers}


def kinds(one: Session) -> list[bool]:
    return [isinstance(query, MatchedQueries) for query in one.runtime.queries.values()]


def test_they_answer_as_snapshots_of_each_do(stream: Path) -> None:
    queries = {**QUERIES, "other": OTHER}
    together, heard = session(stream, queries)
    assert kinds(together) == [True, False]
    found = answers(together)
    assert {name for name, _ in found} == set(queries)
    assert found == answers(session(stream, queries, evaluator="snapshot")[0])
    assert heard == []


@pytest.mark.parametrize("more", [{"empty": True}, {"most_rows": 1_000}, {"evaluator": "snapshot"}])
def test_each_is_by_itself_where_all_evaluations_are_told_or_limited(stream: Path, more: dict[str, object]) -> None:
    assert kinds(session(stream, QUERIES, **more)[0]) == [False] * 3


def test_one_alone_is_a_plan_of_its_own(stream: Path) -> None:
    assert kinds(session(stream, {"near": QUERIES["near"], "other": OTHER})[0]) == [False, False]


def test_one_of_which_an_element_makes_too_many_solutions_is_left_out_and_the_others_go_on(
    stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matched_queries, "MAX_SOLUTIONS", 10)
    one, heard = session(stream, QUERIES)
    found = answers(one)
    assert heard == ["the query pair is left out: one element makes more than 10 solutions; the query was removed"]
    assert set(one.failures) == {"pair"}
    rest = answers(session(stream, {name: QUERIES[name] for name in ("near", "who")})[0])
    assert {key: said for key, said in found.items() if key[0] != "pair"} == rest


def test_what_breaks_is_said_of_all(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, heard = session(stream, {**QUERIES, "other": OTHER})

    def fail(_: int) -> None:
        raise RuntimeError("no more room")

    monkeypatch.setattr(next(iter(one.runtime.queries.values())), "reach", fail)
    assert {name for name, _ in answers(one)} == {"other"}
    assert [line.partition(" is left out")[0] for line in heard] == [f"the query {name}" for name in QUERIES]
