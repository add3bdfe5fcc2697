"""A run that was stopped, or killed at any write, goes on as if nothing had happened."""

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from run_files import Camera, RunFiles

from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.runtime import query_journal

TIMED = ("decide_us", "fetch_ms", "latency_ms")
E = "http://example.org/"
PLAIN = f"""PREFIX : <{E}> REGISTER RSTREAM :out AS SELECT ?topic ?user ?n
FROM NAMED WINDOW :w ON :posts [RANGE PT4S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
REACH = PLAIN.replace("?topic ?user ?n\n", "?topic (SUM(?n) AS ?reach)\n") + " GROUP BY ?topic"
TWO = f"{PLAIN[:-1]} SERVICE :log {{ ?topic :age ?age }} }}"
ALONE = f"""PREFIX : <{E}> REGISTER ISTREAM :out AS SELECT ?topic
FROM NAMED WINDOW :w ON :posts [RANGE PT4S STEP PT1S] WHERE {{ WINDOW :w {{ ?post :topic ?topic }} }}"""
ALSO = """ FROM NAMED WINDOW :v ON :posts [RANGE PT3S STEP PT3S]
WHERE { WINDOW :v { ?other :topic ?topic } WINDOW :w {"""
MADE = "CONSTRUCT { ?user :has ?n }"


def rows(directory: Path, name: str) -> list[dict[str, Any]]:
    """A table of a journal without what a clock measured; arrival rates are faded at once or step by step."""
    table = journal.read(directory, name)
    found = [] if table is None else table.drop_columns([c for c in TIMED if c in table.column_names]).to_pylist()
    rounded = [{c: round(v, 9) if isinstance(v, float) else v for c, v in row.items()} for row in found]
    return sorted(rounded, key=lambda row: (row["k"], str(row.get("sn")), str(row.get("sr"))))


def told(line: dict[str, Any]) -> tuple[int, list[str]]:
    """When a line is of and what it answers, in any order; how sure it is may be told anew."""
    return line["t"], sorted(str(answer.get("bindings", answer.get("triple", answer))) for answer in line["answers"])


WAYS: dict[str, dict[str, Any]] = {
    "gain": {},
    "lru": {"policy": "lru", "bank": 4, "budget": 2.5},
    "random": {"policy": "random"},
    "capacity": {"policy": "lru", "capacity": 9},
    "edges": {"policy": "lru", "edges": "refreshed", "budget": 4},
    "plan": {"policy": "plan", "bank": 6},
    "audits": {"policy": "lru", "audit": 0.4, "budget": 5},
    "two": {"policy": "lru", "text": TWO, "bank": 2},
    "shared": {
        "policy": "lru",
        "text": TWO,
        "budget": 5,
        "bank": 3,
        "shared": True,
        "weights": {f"{E}blog": 2},
        "minimum": {f"{E}log": 0.2},
    },
    "by value": {"policy": "plan", "text": TWO, "budget": 5, "bank": 3, "shared": True, "minimum": {f"{E}log": 0.2}},
    "no step": {"policy": "lru", "text": PLAIN.replace(" STEP PT1S", "")},
    "elements": {"policy": "lru", "text": PLAIN.replace("RANGE PT4S STEP PT1S", "ELEMENTS 7 STEP 3")},
    "two windows": {"policy": "lru", "text": PLAIN.replace("\nWHERE { WINDOW :w {", ALSO)},
    "aggregates": {"policy": "ibm", "text": REACH},
    "entered": {"policy": "lru", "text": PLAIN.replace("RSTREAM", "ISTREAM")},
    "left": {"policy": "lru", "text": PLAIN.replace("RSTREAM", "DSTREAM")},
    "triples": {"text": PLAIN.replace("RSTREAM", "ISTREAM").replace("SELECT ?topic ?user ?n", MADE), "policy": "lru"},
    "windows alone": {"text": ALONE},
    "windows alone, each topic": {"text": ALONE.replace("SELECT", "SELECT DISTINCT")},
    "windows alone, triples": {"text": ALONE.replace("SELECT ?topic", "CONSTRUCT { ?topic a :Entered }")},
    "windows alone, no step": {"text": ALONE.replace(" STEP PT1S", "")},
    "windows alone, groups": {
        "text": ALONE.replace("SELECT ?topic", "SELECT ?topic (COUNT(*) AS ?n)") + " GROUP BY ?topic"
    },
    "aggregates entered": {"policy": "ibm", "text": REACH.replace("RSTREAM", "ISTREAM")},
    "windows alone, left": {"text": ALONE.replace("ISTREAM", "DSTREAM")},
    "ask": {"text": PLAIN.replace("RSTREAM", "ISTREAM").replace("SELECT ?topic ?user ?n", "ASK"), "policy": "lru"},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_stopped_again_and_again_a_run_is_the_run_that_was_never_stopped(world: RunFiles, way: str) -> None:
    place = world.place
    whole = world.lines(journal=place / "whole", **WAYS[way])
    found: list[dict[str, Any]] = []
    for stop in (1, 4, 5, 2, None):
        lines = world.lines(stop=stop, state=place / "state", journal=place / "journal", **WAYS[way])
        if found:  # nobody had asked for more, so nobody knew whether the last line was out
            repeated = lines.pop(0)
            assert repeated["t"] == found[-1]["t"]
            assert told(repeated) == told(found[-1]) or way == "audits"  # what an audit read is for later answers
        found += lines
    if way.endswith(("left", "entered")) or "alone" in way:  # DSTREAM asked twice; bags have no order
        assert list(map(told, found)) == list(map(told, whole))
    else:
        assert found == whole
    for name in ("evaluations", "refreshes", "answers"):
        assert rows(place / "journal", name) == rows(place / "whole", name)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["gain", "edges", "audits", "shared", "by value", "entered"])
def test_killed_at_any_write_a_run_goes_on_where_it_was(
    world: RunFiles, camera: Camera, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_journal, "ROWS_PER_PART", 60)
    place, camera.every = world.place, 17
    whole: list[dict[str, Any]] = []
    for line in world.run(world.session(state=place / "state", journal=place / "journal", **WAYS[way])):
        whole.append(line)
        camera.lines = len(whole)
    camera.on = False
    assert camera.moments > 4 * len(whole)
    for image in camera.images:
        goes_on(world, image, whole, WAYS[way])


def goes_on(world: RunFiles, image: Any, whole: list[dict[str, Any]], way: dict[str, Any]) -> None:
    """A run that begins with what a kill left; where something was on its way, that is paid for and not asked again."""
    intent, before = intended(image.directory / "state"), rows(image.directory / "journal", "refreshes")
    session = world.session(state=image.directory / "state", journal=image.directory / "journal", **way)
    lines = list(world.run(session))
    first = next((n for n, line in enumerate(whole) if line["t"] == lines[0]["t"]), len(whole)) if lines else len(whole)
    assert first in (image.lines, image.lines - 1)
    after = rows(image.directory / "journal", "evaluations")
    views = 1 + ("SERVICE :log" in way.get("text", ""))
    assert sorted(row["t_ms"] for row in after) == sorted(views * [line["t"] for line in whole])
    assert rows(image.directory / "journal", "refreshes")[: len(before)] == before
    budget = Fraction(str(way.get("budget", 3)))
    for n in range(1, len(whole) + 1):
        paid = sum(Fraction(str(row["spent"])) for row in after[: n * views])
        assert paid <= budget * n
    if intent is None:
        if "audit" not in way:
            assert [told(line) for line in lines[:1]] == [told(line) for line in whole[first : first + 1]]
        assert lines[1:] == whole[first + 1 :]
        assert after == rows(world.place / "journal", "evaluations")
    else:
        asked = rows(image.directory / "journal", "refreshes")
        assert intent not in {(row["setting"], row["t_ms"]) for row in asked}


def intended(state: Path) -> tuple[str, int] | None:
    """The view and the evaluation that was about to send."""
    if not (state / "state.sqlite").exists():
        return None
    with closing(sqlite3.connect(state / "state.sqlite")) as sql:
        found: tuple[str, int] | None = sql.execute("SELECT name, t FROM intents JOIN views USING (view)").fetchone()
    return found
