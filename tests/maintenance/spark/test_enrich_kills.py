"""The query is killed between any two steps and started again: budgets are spent once, answers are written once."""

import json
import multiprocessing
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import enriched
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from pyarrow import parquet

from freshkeeper.maintenance.analysis.spark_session import LEAST_JAVA, java_version
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.spark.enrich import read_journal
from freshkeeper.maintenance.spark.enrichment.batch_store import FORMAT, BatchLog, Store
from freshkeeper.maintenance.spark.enrichment.on_driver import OnDriver
from freshkeeper.maintenance.spark.enrichment.once import LOST
from freshkeeper.policies.gain import Gain

HARMLESS = [
    ("read", 1), ("answered", 1), ("recorded", 2), ("written", 2), ("committed", 1), ("recorded", 1), ("written", 1),
]  # fmt: skip
"""Kills where nothing is under way to the source: nothing at all may differ afterwards."""
UNDER_WAY = [
    ("intended", 1), ("fetched", 1), ("intended", 3), ("fetched", 4), ("intended", 5), ("fetched", 2),
]  # fmt: skip
"""Kills where a request was paid, or may have been, and its answer is lost."""


LIVES = multiprocessing.get_context("forkserver")
LIVES.set_forkserver_preload([name for name in sys.modules if name.startswith("freshkeeper.")])


def ended(kind: str, place: Path, step: str = "", number: int = 0) -> int | None:
    """How a process ends that was forked from one that has imported everything."""
    life = LIVES.Process(target=enriched.live, args=(kind, place, step, number))
    life.start()
    life.join(240)
    return life.exitcode


def killed(kind: str, place: Path, kills: list[tuple[str, int]]) -> None:
    """Every kill in turn, each of a process that does what the one before it left, and then the rest."""
    place.mkdir(exist_ok=True)
    for step, number in kills:
        assert ended(kind, place, step, number) == -signal.SIGKILL, f"{step} {number}"
    assert ended(kind, place) == 0


def answers(place: Path) -> list[dict[str, Any]]:
    files = sorted((place / "answers").iterdir(), key=lambda path: int(path.stem))
    return pa.concat_tables([parquet.read_table(path) for path in files]).to_pylist()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("undisturbed")
    enriched.run(place)
    return place


@pytest.mark.slow
def test_without_kills_the_steps_give_what_one_manager_gives(undisturbed: Path, tmp_path: Path) -> None:
    expected, _ = enriched.single_process(tmp_path / "requests")
    assert sorted((*list(row.values())[:-1], round(row["fresh"], 9)) for row in answers(undisturbed)) == expected


@pytest.mark.slow
def test_kills_beside_requests_change_nothing_at_all(undisturbed: Path, tmp_path: Path) -> None:
    killed("plain", tmp_path, HARMLESS)
    assert answers(tmp_path) == answers(undisturbed)
    assert (tmp_path / "requests").read_text() == (undisturbed / "requests").read_text()
    places = (tmp_path, undisturbed)
    progress = [json.loads((place / "state" / "progress.json").read_text()) for place in places]
    assert progress[0] == progress[1]
    assert (progress[0]["evaluation"], progress[0]["elements"], progress[0]["late"]) == (enriched.SECONDS, 401, 0)
    for name in ("spent", "budget", "carried", "errors"):
        journals = [read_journal(place / "state", "evaluations")[name] for place in places]
        assert journals[0].to_pylist() == journals[1].to_pylist()


@pytest.mark.slow
def test_kills_under_requests_lose_those_and_spend_nothing_twice(undisturbed: Path, tmp_path: Path) -> None:
    killed("plain", tmp_path, UNDER_WAY)
    asked = enriched.asked(tmp_path)
    assert all(len(keys) <= enriched.GAMMA and len(set(keys)) == len(keys) for keys in asked.values())
    journal = read_journal(tmp_path / "state", "evaluations")
    assert journal["k"].to_pylist() == list(range(1, enriched.SECONDS + 1))
    assert journal["spent"].to_pylist() == read_journal(undisturbed / "state", "evaluations")["spent"].to_pylist()
    lost = [row["k"] for row in read_journal(tmp_path / "state", "refreshes").to_pylist() if row["error"] == LOST]
    assert len(set(lost)) == len(UNDER_WAY)
    names = ("k", "t_ms", "topic", "sr", "weight")
    found, expected = ([tuple(row[name] for name in names) for row in answers(p)] for p in (tmp_path, undisturbed))
    assert max(Counter(found).values()) == 1
    assert sorted(found) == sorted(expected)


@pytest.mark.slow
@pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason=f"no Java {LEAST_JAVA}: make java installs it")
def test_kills_of_a_query_on_spark_change_nothing_at_all(undisturbed: Path, tmp_path: Path) -> None:
    enriched.drop(tmp_path, 4)
    killed("spark", tmp_path, [("recorded", 3), ("written", 1)])
    found = [
        json.loads(line)
        for path in (tmp_path / "answers").glob("batch_id=*/*.json")
        for line in path.read_text().splitlines()
    ]
    by_row = {(row["k"], row["topic"], row["sr"]): row for row in found}
    assert len(by_row) == len(found)
    assert [by_row[row["k"], row["topic"], row["sr"]] for row in answers(undisturbed)] == answers(undisturbed)
    assert (tmp_path / "requests").read_text() == (undisturbed / "requests").read_text()


@given(st.lists(st.integers(), max_size=5), st.data())
def test_a_log_cut_off_anywhere_keeps_its_whole_records(
    tmp_path_factory: pytest.TempPathFactory, records: list[int], data: DataObject
) -> None:
    log = BatchLog(tmp_path_factory.mktemp("log") / "1.log")
    sizes = [0]
    for record in records:
        log.append(record)
        sizes.append(log.path.stat().st_size)
    if records:
        cut = data.draw(st.integers(0, sizes[-1]))
        log.path.write_bytes(log.path.read_bytes()[:cut])
        whole = sum(size <= cut for size in sizes[1:])
        log = BatchLog(log.path)
        assert log.read() == records[:whole]
        log.append("more")
        assert log.read() == [*records[:whole], "more"]


def test_a_last_record_of_which_the_disk_has_only_a_part_counts_for_nothing(tmp_path: Path) -> None:
    log = BatchLog(tmp_path / "1.log")
    log.append("first")
    whole = log.path.stat().st_size
    log.append("second")
    text = bytearray(log.path.read_bytes())
    text[-6:] = bytes(6)
    log.path.write_bytes(text)
    assert BatchLog(log.path).read() == ["first"]
    assert log.path.stat().st_size == whole


def test_a_log_that_is_damaged_before_its_end_is_refused_in_words(tmp_path: Path) -> None:
    log = BatchLog(tmp_path / "1.log")
    log.append("first")
    log.append("second")
    text = bytearray(log.path.read_bytes())
    text[20] ^= 1
    log.path.write_bytes(text)
    with pytest.raises(ConfigError, match="is damaged at byte 0"):
        BatchLog(log.path)
    assert log.path.read_bytes() == text


def test_a_snapshot_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(3, {"spent": 7})
    (tmp_path / ".4.state.part").write_bytes(b"half of")
    assert store.load() == (3, {"spent": 7})


@pytest.mark.parametrize("text", [b"something else\n", FORMAT + b"cnowhere\nThing\n."])
def test_a_state_that_is_none_is_refused_in_words(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "1.state").write_bytes(text)
    with pytest.raises(InputError, match="no state of this version"):
        Store(tmp_path).load()


@pytest.mark.slow
def test_a_source_of_events_that_gives_something_else_after_a_kill_is_refused(tmp_path: Path) -> None:
    assert ended("plain", tmp_path, "recorded", 1) == -signal.SIGKILL
    query = enriched.batches(tmp_path)
    other = [(at, "t7") for at, _ in enriched.parts()[0]]
    with pytest.raises(InputError, match="must give the same micro-batch again"):
        query.process(0, enriched.counts_of(other))


@pytest.mark.parametrize("replayed", [0, 3, 64])
def test_started_anew_for_every_micro_batch_it_is_the_same_query(
    replayed: int, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OnDriver, "replayed", replayed)
    for number, part in enumerate(enriched.parts()):
        query = enriched.batches(tmp_path)
        query.process(number, enriched.counts_of(part))
    assert len(query.store.batches()) == 1
    assert (query.store.batches() == [0]) == (replayed == 64)
    assert answers(tmp_path) == answers(undisturbed)
    assert (tmp_path / "requests").read_text() == (undisturbed / "requests").read_text()
    logs = {int(path.stem) for path in (tmp_path / "state").glob("*.log")}
    assert logs == {*range(query.store.batches()[-1] + 1, enriched.FILES)}


def test_micro_batches_between_two_evaluations_do_not_leave_more_and_more_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OnDriver, "replayed", 3)
    for number in range(8):
        query = enriched.batches(tmp_path)
        query.process(number, enriched.counts_of([(number + 1, "t0")]))
    assert query.store.batches() == [6]
    assert [path.name for path in (tmp_path / "state").glob("*.log")] == ["7.log"]
    assert query.committed()[1].due.elements == 8


def test_a_version_that_chooses_otherwise_makes_again_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = enriched.batches(tmp_path)
    for number, part in enumerate(enriched.parts()):
        query.process(number, enriched.counts_of(part))
    asked = (tmp_path / "requests").read_text()
    monkeypatch.setattr(Gain, "score", lambda self, round: -round.last_refresh.astype(float))
    evaluators = [own.committed()[1] for own in (query, enriched.batches(tmp_path))]
    first, again = (one.manager.view for one in evaluators if isinstance(one, OnDriver))
    assert first.last_refresh.tolist() == again.last_refresh.tolist()
    assert first.values == again.values
    assert (tmp_path / "requests").read_text() == asked
