"""Several queries that share views and a budget, stopped or killed anywhere: each goes on where it was itself."""

import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from run_files import Camera, RunFiles

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.outputs.formats import NdJson
from freshkeeper.maintenance.runtime import query_journal
from freshkeeper.maintenance.runtime.query_set import read_queries
from freshkeeper.maintenance.runtime.run_config import config_of
from freshkeeper.maintenance.runtime.run_session import Session

E = "http://example.org/"
HEAD = f"PREFIX : <{E}> REGISTER RSTREAM :out AS SELECT * FROM NAMED WINDOW :w ON :posts [RANGE PT4S STEP PT1S]"
BLOG = "SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n }"
PLAIN = f"{HEAD} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} {BLOG} }}"
QUERIES = {
    "plain": PLAIN,
    "renamed": PLAIN.replace("?user", "?who").replace("RANGE PT4S", "RANGE PT2S"),
    "slow": PLAIN.replace("RANGE PT4S STEP PT1S", "RANGE PT6S STEP PT3S"),
    "entered": PLAIN.replace("RSTREAM", "ISTREAM").replace(BLOG, "SERVICE :log { ?topic :age ?age }"),
    "local": f"{HEAD} WHERE {{ WINDOW :w {{ ?post :topic ?topic }} }}",
}
BUDGET = 4


def session(world: RunFiles, queries: dict[str, str] | None = None, **more: object) -> Session:
    """A run of all of them."""
    inputs = {
        "streams": {f"{E}posts": str(world.place / "posts.nq")},
        "sources": {f"{E}{name}": str(world.place / f"{name}.yaml") for name in ("blog", "log")},
    }
    given = {"shared": True, "budget": BUDGET, "policy": "gain"}
    config = config_of({"queries": queries or QUERIES, **inputs, **given, **more})
    return Session(config, read_queries(config, lambda name, error: pytest.fail(f"{name}: {error}")))


def lines(run: Session, stop: int | None = None) -> list[dict[str, object]]:
    """What a run puts out; stopped after so many lines if asked."""
    found, results = [], run.results()
    for number, result in enumerate(results):
        found += [json.loads(line) for line in NdJson().lines(result)]
        if stop is not None and number + 1 == stop:
            results.close()
            break
    return found


def last(found: list[dict[str, Any]]) -> dict[tuple[str, int], Any]:
    """The last line of each query and instant; the order of its answers means nothing, and evaluators differ in it."""
    return {(line["query"], line["t"]): line | {"answers": sorted(line["answers"], key=str)} for line in found}


def told(found: dict[tuple[str, int], Any]) -> dict[tuple[str, int], list[str]]:
    """What each line answers, in any order; how sure it is may be told anew for an instant that was cut."""
    return {key: sorted(str(answer["bindings"]) for answer in line["answers"]) for key, line in found.items()}


def spent(directory: Path) -> list[tuple[int, Fraction]]:
    """What every evaluation of every view spent."""
    table = journal.read(directory, "evaluations")
    assert table is not None
    return [(row["t_ms"], Fraction(str(row["spent"]))) for row in table.to_pylist()]


def within_budget(directory: Path) -> bool:
    """Whether all views together never spent more than was paid until then."""
    found = spent(directory)
    return all(sum(cost for t, cost in found if t <= end) <= BUDGET * end / 1000 for end in {t for t, _ in found})


@pytest.mark.slow
def test_stopped_again_and_again_they_are_the_run_that_was_never_stopped(world: RunFiles) -> None:
    place = world.place
    whole = lines(session(world, journal=place / "whole"))
    found: list[dict[str, object]] = []
    cut = set()
    for stop in (1, 3, 9, 2, 14, 7, None):
        found += lines(session(world, state=place / "state", journal=place / "journal"), stop)
        cut.add(found[-1]["t"] if stop else None)
    expected, came = last(whole), last(found)
    assert told(came) == told(expected)
    assert [key for key in expected if came[key] != expected[key] and key[1] not in cut] == []
    assert len(found) - len(whole) <= 6, "only the last line of each run may come again"
    assert sorted(spent(place / "journal")) == sorted(spent(place / "whole"))
    assert lines(session(world, state=place / "state", journal=place / "journal")) == []


@pytest.mark.slow
def test_killed_at_any_write_each_goes_on_where_it_was(
    world: RunFiles, camera: Camera, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_journal, "ROWS_PER_PART", 60)
    place, camera.every = world.place, 41
    whole: list[dict[str, object]] = []
    run = session(world, state=place / "state", journal=place / "journal")
    for result in run.results():
        whole += [json.loads(line) for line in NdJson().lines(result)]
        camera.lines = len(whole)
    camera.on = False
    assert within_budget(place / "journal")
    expected = last(whole)
    for image in camera.images:
        doubtful = intents(image.directory / "state")
        again = last(lines(session(world, state=image.directory / "state", journal=image.directory / "journal")))
        done = set(last(whole[: image.lines]))
        assert len(done & again.keys()) <= 1, "what was out comes again at most for the line that was last"
        assert done | again.keys() == expected.keys()
        if not doubtful:
            cut = min((t for _, t in again), default=0)
            assert told(again) == told({key: expected[key] for key in again})
            assert [key for key in again if again[key] != expected[key] and key[1] > cut] == []
        assert within_budget(image.directory / "journal")


def intents(state: Path) -> int:
    """How many views were about to send."""
    if not (state / "state.sqlite").exists():
        return 0
    with closing(sqlite3.connect(state / "state.sqlite")) as sql:
        return int(sql.execute("SELECT count(*) FROM intents").fetchone()[0])


def test_a_state_of_other_queries_is_refused_and_says_which(world: RunFiles) -> None:
    lines(session(world, state=world.place / "state"), 3)
    for queries, says in [
        ({**QUERIES, "more": PLAIN}, r"another query \(more is new\)"),
        ({name: text for name, text in QUERIES.items() if name != "slow"}, r"another query \(slow is gone\)"),
        ({**QUERIES, "local": PLAIN}, r"another query \(local is another one\)"),
    ]:
        with pytest.raises(ConfigError, match=says):
            session(world, queries, state=world.place / "state")
