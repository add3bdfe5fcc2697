"""The state's directory: what is refused, what stays small, what the rows hold."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from run_files import Camera, RunFiles
from servers import Oxigraph
from tables import table_of

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.term_text import decode, encode
from freshkeeper.maintenance.journal import journal
from freshkeeper.maintenance.runtime import query_journal
from freshkeeper.maintenance.state import stored_view as kept
from freshkeeper.simulator.experiment.check import check
from freshkeeper.simulator.experiment.compare import compare
from freshkeeper.simulator.report.page import write_report

TERMS = st.one_of(
    st.text().map(ox.Literal),
    st.integers().map(ox.Literal),
    st.text(max_size=3).map(lambda text: ox.Literal(text, language="de-at")),
    st.sampled_from(["http://e/a", "urn:x:ü"]).map(ox.NamedNode),
    st.just(ox.BlankNode("b1")),
    st.none(),
)
ROWS = st.lists(TERMS, max_size=3).map(tuple)
VALUES = st.one_of(ROWS, st.lists(ROWS, max_size=3).map(tuple))


@given(st.lists(VALUES))
def test_keys_and_copies_come_back_from_text(values: list[object]) -> None:
    assert decode([encode(value) for value in values]) == values


def test_a_triple_term_comes_back_and_what_json_has_no_word_for_is_refused() -> None:
    triple = ox.Triple(ox.NamedNode("http://e/a"), ox.NamedNode("http://e/b"), ox.Literal("c\n"))
    assert decode([encode((triple,))]) == [(triple,)]
    with pytest.raises(InputError, match=r"range\(0, 42\) cannot be kept: a state holds RDF terms, text, numbers"):
        encode((range(42),))


@pytest.mark.parametrize(
    ("text", "sources", "volatile", "says"),
    [
        ("ASK", None, None, "keeps the views of another query"),
        (
            None,
            {"http://example.org/log": "blog.ttl", "http://example.org/blog": "blog.yaml"},
            None,
            r"keeps views of other sources \(http://example.org/blog\)",
        ),
        (None, None, {"http://example.org/blog": ["http://example.org/discussedBy"]}, "keeps another view of"),
    ],
)
def test_a_state_of_something_else_is_refused_in_one_line(
    world: RunFiles, text: str | None, sources: Any, volatile: Any, says: str
) -> None:
    state = world.place / "state"
    plain = world.session().config.query
    world.lines(state=state, stop=2)
    more: dict[str, Any] = {
        "state": state,
        "text": plain.replace("SELECT ?topic ?user ?n", text or "SELECT ?topic ?user ?n"),
    }
    more |= {} if volatile is None else {"volatile": volatile}
    if sources is not None:
        more["sources"] = {name: str(world.place / file) for name, file in sources.items()}
        more["text"] = plain
    with pytest.raises(ConfigError, match=says):
        world.session(**more)
    world.lines(state=state)  # and is as it was


def test_two_runs_cannot_have_one_state(world: RunFiles) -> None:
    first = world.session(state=world.place / "state")
    with pytest.raises(ConfigError, match="is in use by another process"):
        world.session(state=world.place / "state")
    list(first.results())
    world.lines(state=world.place / "state")


def test_two_runs_cannot_have_one_journal(world: RunFiles) -> None:
    first = world.session(journal=world.place / "journal")
    with pytest.raises(ConfigError, match="is in use by another process; every run needs its own"):
        world.session(journal=world.place / "journal", state=world.place / "state")
    whole = len(list(first.results()))
    assert table_of(world.place / "journal", "evaluations").num_rows == whole
    world.lines(journal=world.place / "journal")


def test_the_journal_of_a_run_without_state_is_not_gone_on_with_and_a_refused_run_holds_nothing(
    world: RunFiles,
) -> None:
    world.lines(journal=world.place / "journal")
    world.lines(state=world.place / "state", stop=2)
    for _ in range(2):
        with pytest.raises(ConfigError, match="holds the journal of a run that had no state"):
            world.session(state=world.place / "state", journal=world.place / "journal")
    with pytest.raises(ConfigError, match="none"):
        world.session(journal=world.place / "journal", policy="none")
    world.lines(journal=world.place / "journal")


def test_state_and_journal_are_for_their_owner_alone(world: RunFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_journal, "ROWS_PER_PART", 50)
    run = world.run(world.session(state=world.place / "state", journal=world.place / "journal"))
    lines = [next(run) for _ in range(12)]
    found = [path for name in ("state", "journal") for path in (world.place / name, *(world.place / name).rglob("*"))]
    assert {"state.sqlite-wal", "run.json", "part-0000000001.parquet"} <= {path.name for path in found}
    modes = {(path.is_dir(), oct(path.stat().st_mode & 0o777)) for path in found}
    assert modes == {(True, "0o700"), (False, "0o600")}
    assert lines + list(run) == world.lines()


def test_a_state_of_another_version_and_a_file_that_is_none_are_refused(world: RunFiles) -> None:
    world.lines(state=world.place / "state", stop=1)
    with closing(sqlite3.connect(world.place / "state" / "state.sqlite")) as sql:
        sql.execute("PRAGMA user_version=99")
    with pytest.raises(ConfigError, match="of version 99 and this freshkeeper writes 4: give another directory"):
        world.session(state=world.place / "state")
    (world.place / "other").mkdir()
    (world.place / "other" / "state.sqlite").write_text("no database " * 100)
    with pytest.raises(ConfigError, match="holds no state that can be read"):
        world.session(state=world.place / "other")


@pytest.mark.parametrize(
    ("more", "says"),
    [({"fetch": "once"}, "--state keeps views, and --fetch once has none"), ({"text": None}, "queries with windows")],
)
def test_a_run_that_has_no_view_has_no_state(world: RunFiles, more: dict[str, Any], says: str) -> None:
    if "text" in more:
        more = {"text": "ASK { ?s ?p ?o }", "sources": {}, "streams": {}}
    with pytest.raises(ConfigError, match=says):
        world.session(state=world.place / "state", **more)


def test_evidence_is_kept_whole_before_it_grows(world: RunFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MIN_EVIDENCE_BYTES", 400)
    whole = world.lines()
    first = world.lines(state=world.place / "state", stop=9)
    with closing(sqlite3.connect(world.place / "state" / "state.sqlite")) as sql:
        kinds = [row[0] for row in sql.execute("SELECT whole FROM learned ORDER BY seq")]
    assert kinds[0] == 1
    assert sum(kinds) == 1
    rest = world.lines(state=world.place / "state")
    assert first + rest[1:] == whole


def test_with_a_live_stream_the_view_answers_at_once(world: RunFiles) -> None:
    """A stream that does not begin anew: what comes is younger than the last evaluation."""
    world.lines(state=world.place / "state", stop=10)
    text = "".join(
        f"{at}\t<http://e/x{at}> <http://example.org/topic> <http://example.org/t1> .\n" for at in (90000, 91001)
    )
    (world.place / "later.nq").write_text(text)
    streams = {"http://example.org/posts": str(world.place / "later.nq")}
    (line, *_) = world.lines(state=world.place / "state", streams=streams, budget=0)
    assert line["t"] == 90000
    assert len(line["answers"]) == 3
    assert all(answer["age_ms"] > 70000 for answer in line["answers"])


def test_a_policy_keeps_what_it_says(world: RunFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    from freshkeeper.policies.lru import Lru

    seen: list[int] = []
    monkeypatch.setattr(Lru, "state", lambda _: {"seen": len(seen)}, raising=False)
    monkeypatch.setattr(Lru, "restore", lambda _, state: seen.append(state["seen"]), raising=False)
    world.lines(state=world.place / "state", policy="lru", stop=2)
    world.lines(state=world.place / "state", policy="lru", stop=2)
    world.lines(state=world.place / "state", policy="gain", stop=2)
    assert seen == [0]


def test_a_long_run_writes_its_journal_in_parts(world: RunFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = world.lines(journal=world.place / "one")
    monkeypatch.setattr(query_journal, "ROWS_PER_PART", 50)
    parts = world.run(world.session(journal=world.place / "many"))
    halfway = [next(parts) for _ in range(12)]
    table = journal.read(world.place / "many", "evaluations")
    assert table is not None
    assert 0 < table.num_rows < 12
    assert halfway + list(parts) == whole
    for name in ("evaluations", "refreshes", "answers", "changes"):
        one, many = (journal.read(world.place / place, name) for place in ("one", "many"))
        assert one is not None
        assert many is not None
        assert one.drop_columns(
            [c for c in ("decide_us", "fetch_ms", "latency_ms") if c in one.column_names]
        ) == many.drop_columns([c for c in ("decide_us", "fetch_ms", "latency_ms") if c in many.column_names])
    assert len(list((world.place / "many" / "answers.parquet").iterdir())) > 3
    again = world.lines(journal=world.place / "many", stop=3)
    assert again == whole[:3]
    table = journal.read(world.place / "many", "evaluations")
    assert table is not None
    assert table.num_rows == 3  # another run's journal takes the place of the one before


def test_run_json_says_how_to_do_it_again_and_no_secret(world: RunFiles) -> None:
    world.lines(
        journal=world.place / "journal", command="freshkeeper run q --source http://me:secret@host/sparql", stop=3
    )
    text = (world.place / "journal" / "run.json").read_text()
    about = json.loads(text)
    assert "secret" not in text
    assert about["command"] == "freshkeeper run q --source http://host/sparql"
    assert about["settings"]["http://example.org/blog"]["step_ms"] == 1000
    assert about["config"]["source_files"]["http://example.org/blog"]["volatile"] == ["http://example.org/followers"]
    assert about["complete"]


def test_the_truth_of_a_scripted_source_is_in_the_journal(world: RunFiles) -> None:
    world.lines(journal=world.place / "journal")
    told = table_of(world.place / "journal", "changes").to_pylist()
    lines = [line.split("\t") for line in (world.place / "changes.nq").read_text().splitlines()]
    said = {(int(at), statement.split(" ")[0]) for at, statement in lines}
    last = max(int(at) for at, _ in said)
    assert {(row["t_ms"], row["sr"]) for row in told} == {pair for pair in said if pair[0] <= min(last, 23000)}


def test_what_a_rate_limit_may_have_let_through_counts_after_a_kill(world: RunFiles, camera: Camera) -> None:
    server = Oxigraph((world.place / "blog.ttl").read_text())
    try:
        (world.place / "blog.yaml").write_text(
            f"sparql: {server.url}\nvolatile: http://example.org/followers\nlimits: [40/day]\n"
        )
        world.lines(state=world.place / "state", stop=4)
        camera.on = False
        sent = [grains(image.directory / "state") for image in camera.images]
        state = camera.images[sent.index(max(sent))].directory / "state"
        before = max(n for n in sent if n < max(sent))
        session = world.session(state=state)
        (source,) = session.runtime.sources.values()
        assert source.transport.dispatcher is not None
        limiter = source.transport.dispatcher.limiter
        assert limiter.room() == 40 - max(sent)
        assert before <= 12 <= max(sent)  # 3 each; those of an evaluation in doubt count as sent
        list(session.results())
    finally:
        server.stop()


@pytest.mark.parametrize(("kept", "rows"), [(False, 1), (True, 3)])
def test_parts_come_more_seldom_where_the_state_has_the_rows_too(
    kept: bool, rows: int, world: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(query_journal, "time", SimpleNamespace(monotonic=lambda: now))
    session = world.session(journal=world.place / "journal", state=world.place / "state" if kept else None)
    now = 100 * 3600.0
    for _ in world.run(session):
        now += 20 * 60
    *parts, _ = journal.files(world.place / "journal" / "evaluations.parquet")
    assert {parquet.read_metadata(part).num_rows for part in parts} == {rows}


def grains(state: Path) -> int:
    """How many requests count as sent."""
    if not (state / "state.sqlite").exists():
        return 0
    with closing(sqlite3.connect(state / "state.sqlite")) as sql:
        found = sql.execute("SELECT body FROM sources").fetchone()
    return sum(count for _, count in json.loads(found[0])["limits"]["40/day"]) if found else 0


@pytest.mark.slow
def test_report_check_and_compare_read_a_journal_in_parts(world: RunFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_journal, "ROWS_PER_PART", 50)
    for name, budget in (("one", 3), ("other", 6)):
        world.lines(journal=world.place / name, state=world.place / f"state of {name}", budget=budget)
        assert len(list((world.place / name / "answers.parquet").iterdir())) > 3
    code, (line,) = check(world.place / "one", 0.3, 0.2)
    assert code == 0
    assert "of the answers fresh; 22 evaluations" in line
    page = write_report(world.place / "one").read_text()
    assert "of the answers fresh" in page
    assert "wasted and missed refreshes cannot be told" not in page
    (found,) = compare(world.place / "one", world.place / "other").differences
    assert found.row[:2] == ("http://example.org/blog", "gain")


def test_a_journal_of_a_remote_source_does_not_claim_the_truth(world: RunFiles) -> None:
    server = Oxigraph((world.place / "blog.ttl").read_text())
    try:
        (world.place / "blog.yaml").write_text(f"sparql: {server.url}\nvolatile: http://example.org/followers\n")
        world.lines(journal=world.place / "journal", stop=3)
        assert not (world.place / "journal" / "changes.parquet").exists()
        assert "changes.parquet is not there" in write_report(world.place / "journal").read_text()
    finally:
        server.stop()
