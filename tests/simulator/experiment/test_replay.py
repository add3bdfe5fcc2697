"""What if: traces, runs and journals replayed; what a journal does not tell is said."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from same_traces import same
from tables import table_of

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError, InputError
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.journal import journal
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.replay import cheapest, replay_of
from freshkeeper.simulator.experiment.summary import read_summary
from freshkeeper.simulator.trace.recorded_trace import MappingCounts, arrivals_from, recorded
from freshkeeper.simulator.trace.trace import read_trace, write_trace
from freshkeeper.simulator.trace.workload import Workload, generate
from freshkeeper.simulator.world.truth import profiles

RUN: dict[str, Any] = {
    "workload": {"sns": 15, "srs": 12, "edges": 60, "change_interval_ms": [2000, 20_000]},
    "evaluations": 30,
    "seeds": 1,
    "budget": 3,
    "knowledge": "learned",
    "policies": "lru,gain",
    "answers": True,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("replay") / "run"
    simulate(resolve(RUN), place)
    return place


@pytest.fixture
def recording(run: Path, tmp_path: Path) -> Callable[..., Path]:
    """The same run as production would have it: no run.json, and no truth unless asked for."""

    def make(*without: str) -> Path:
        place = tmp_path / "journal"
        shutil.copytree(run, place)
        for name in ("run.json", *without):
            (place / name).unlink()
        return place

    return make


def test_a_run_is_replayed_from_what_its_config_says(run: Path, tmp_path: Path) -> None:
    found = replay_of(run, {"policies": "lru", "sweep": {"budget": [3.0, 5.0]}}, tmp_path / "trace")
    before = {row.policy: row for row in read_summary(run / "summary.csv")}
    rows = simulate(found.experiment, tmp_path / "again")
    assert replace(rows[0], seconds=0, setting="") == replace(before["lru"], seconds=0, setting="")
    least, most = (row.freshness for row in rows)
    assert least is not None
    assert most is not None
    assert most > least
    assert (found.notes, (tmp_path / "trace").exists()) == (["Window 4s, step 1s: as in the run."], False)


def test_swept_keys_stay_as_they_were_unless_they_are_given(tmp_path: Path) -> None:
    swept = {**RUN, "sweep": {"workload.edges": [30, 60], "start": ["warm", "cold"]}}
    simulate(resolve(swept), tmp_path / "run")
    found = replay_of(tmp_path / "run", {"start": "cold", "budget": 1.0}, tmp_path / "trace")
    assert found.experiment.sweep == {"workload.edges": [30, 60]}
    assert (found.experiment.start, found.experiment.evaluations) == ("cold", 30)


def test_a_trace_is_replayed_and_so_is_a_run_of_one(tmp_path: Path) -> None:
    write_trace(generate(Workload(**RUN["workload"], duration_ms=10_000), 0), tmp_path / "trace")
    of_trace = replay_of(tmp_path / "trace", {"policies": "ibm"}, tmp_path / "unused").experiment
    assert of_trace.seeds == 1
    simulate(of_trace, tmp_path / "run")
    assert replay_of(tmp_path / "run", {}, tmp_path / "unused").experiment == of_trace
    shutil.rmtree(tmp_path / "trace")
    with pytest.raises(InputError, match=r"was made of the trace .* which is not there"):
        replay_of(tmp_path / "run", {}, tmp_path / "unused")


def test_windows_of_a_journals_trace_hold_what_they_held_when_it_was_recorded(
    run: Path, recording: Callable[..., Path]
) -> None:
    found = recorded(recording(), 4000)
    trace = found.trace
    held = profiles(trace, WindowSpec(4000, found.step, trace.t0), found.evaluations).toarray()
    numbers = {str(label): n for n, label in enumerate(trace.sn_labels)}
    expected = np.zeros_like(held)
    rows = [((row["t_ms"] - trace.t0) // found.step - 1, row) for row in table_of(run, "answers").to_pylist()]
    for k, row in rows:
        expected[k, numbers[row["sn"]]] = row["weight"]
    begun = min(k for k, _ in rows)
    assert begun < 4
    assert held.shape[0] - begun == RUN["evaluations"]
    assert np.array_equal(held[begun:], expected[begun:])
    assert found.words == {"case": "bgp", "knowledge": "learned"}


def test_edges_and_true_changes_come_back_as_they_were(run: Path, recording: Callable[..., Path]) -> None:
    trace = recorded(recording(), 4000).trace
    answers, changes = table_of(run, "answers").to_pylist(), table_of(run, "changes").to_pylist()
    pairs = zip(trace.edges.sn, trace.edges.sr, strict=True)
    edges = {(str(trace.sn_labels[sn]), str(trace.sr_labels[sr])) for sn, sr in pairs}
    assert edges == {(row["sn"], row["sr"]) for row in answers}
    told = zip(trace.changes.t_ms.tolist(), trace.changes.sr, strict=True)
    assert sorted((t, str(trace.sr_labels[sr])) for t, sr in told) == sorted((c["t_ms"], c["sr"]) for c in changes)


def test_a_journals_replay_is_near_the_run_that_it_recorded(
    run: Path, recording: Callable[..., Path], tmp_path: Path
) -> None:
    found = replay_of(recording(), {"window": "4s", "budget": 3.0, "policies": "lru,gain"}, tmp_path / "trace")
    before = {row.policy: row.freshness for row in read_summary(run / "summary.csv")}
    for row in simulate(found.experiment, tmp_path / "again"):
        assert row.freshness == pytest.approx(before[row.policy], abs=0.08)
    assert any("What was never answered is not known" in note for note in found.notes)


def test_without_the_truth_changes_are_those_that_refreshes_saw(recording: Callable[..., Path], tmp_path: Path) -> None:
    place = recording("changes.parquet")
    found = replay_of(place, {"window": 4000}, tmp_path / "trace")
    assert any("Changes are known only where a refresh saw one" in note for note in found.notes)
    changes = read_trace(tmp_path / "trace").changes
    rows = parquet.read_table(place / "refreshes.parquet").to_pylist()
    by_policy = [sum(row["changed"] for row in rows if row["policy"] == name) for name in ("lru", "gain")]
    assert len(changes) == max(by_policy) > 0


def write(directory: Path, **tables: list[dict[str, Any]]) -> Path:
    for name, rows in tables.items():
        columns = {column: [row.get(column) for row in rows] for column in journal.SCHEMAS[name].names}
        columns = {column: values for column, values in columns.items() if any(value is not None for value in values)}
        journal.write(directory, name, [journal.table(name, columns)])
    return directory


def answer(t_ms: int, sr: str = "a", refreshed_ms: int = 0, sn: str = "n", **more: object) -> dict[str, object]:
    return {"policy": "p", "t_ms": t_ms, "sn": sn, "sr": sr, "weight": 1, "refreshed_ms": refreshed_ms, **more}


def refresh(t_ms: int, sr: str = "a", changed: bool | None = True, **more: str) -> dict[str, object]:
    return {"policy": "p", "t_ms": t_ms, "sr": sr, "changed": changed, **more}


def test_a_change_is_halfway_between_the_refresh_that_saw_it_and_the_copy_before(tmp_path: Path) -> None:
    place = write(
        tmp_path / "journal",
        answers=[answer(1000), answer(4000, refreshed_ms=3000), answer(1000, "b")],
        refreshes=[
            refresh(3000), refresh(3500, changed=False), refresh(4000), refresh(5000, error="timeout"),
            refresh(6000, changed=None), refresh(2001, "b"), refresh(2500, "c"),
        ],
    )  # fmt: skip
    trace = recorded(place, 2000).trace
    changes = [(int(t), str(trace.sr_labels[sr])) for t, sr in zip(trace.changes.t_ms, trace.changes.sr, strict=True)]
    assert changes == [(1001, "b"), (1500, "a"), (2500, "c"), (3750, "a")]


def test_a_journal_written_in_parts_is_the_same(run: Path, recording: Callable[..., Path]) -> None:
    place = recording()
    whole = recorded(place, 4000).trace
    rows = parquet.read_table(place / "answers.parquet")
    (place / "answers.parquet").unlink()
    for number, start in enumerate(range(0, rows.num_rows, 1000)):
        journal.write_part(place, "answers", number, rows.slice(start, 1000))
    assert same(recorded(place, 4000).trace, whole)


def test_the_policy_that_saw_most_tells_the_changes(tmp_path: Path) -> None:
    own = [{**answer(t), "policy": policy} for t in (1000, 2000) for policy in ("p", "q")]
    refreshes = [refresh(2000, policy="p"), refresh(2000, policy="q"), refresh(3000, policy="q")]
    assert len(recorded(write(tmp_path / "journal", answers=own, refreshes=refreshes), 2000).trace.changes) == 2


def arrivals(counts: list[int], span: int) -> tuple[list[tuple[int, int]], int]:
    """(evaluation, how many) of one SN whose window held so many."""
    k = np.flatnonzero(counts)
    counted = MappingCounts.of(k, np.zeros(k.size, np.int32), np.array(counts)[k])
    found, early = arrivals_from(counted, len(counts), span, 1)
    times, number = np.unique(found.t_ms, return_counts=True)
    return list(zip(times.tolist(), number.tolist(), strict=True)), early


@pytest.mark.parametrize(
    ("counts", "span", "expected"),
    [
        ([2, 3, 3, 1, 0], 3, [(0, 2), (1, 1)]),  # two at 0 stay to 2, one at 1 stays to 3
        ([3, 2, 2, 0], 3, [(-2, 1), (0, 2)]),  # one was there before: it leaves early
        ([1, 1, 1, 1], 1, [(0, 1), (1, 1), (2, 1), (3, 1)]),
        ([0, 0, 4, 4], 2, [(2, 4)]),
        ([5], 3, [(0, 5)]),
    ],
)
def test_arrivals_are_what_counts_have_more_than_what_is_left(
    counts: list[int], span: int, expected: list[tuple[int, int]]
) -> None:
    assert arrivals(counts, span) == (expected, 0)


@given(st.integers(1, 5), st.lists(st.integers(-4, 15), max_size=20))
def test_windows_of_the_arrivals_hold_what_was_counted(span: int, times: list[int]) -> None:
    def windows(came: list[int]) -> list[int]:
        return [sum(1 for t in came if k - span < t <= k) for k in range(16)]

    found, early = arrivals(windows(times), span)
    assert windows([t for t, number in found for _ in range(number)]) == windows(times)
    assert early == 0


def test_what_leaves_before_its_time_is_counted() -> None:
    assert arrivals([0, 0, 0, 2, 0, 0], 3) == ([(3, 2)], 4)  # two evaluations too early, two mappings each


def test_a_journal_of_several_settings_is_asked_which(recording: Callable[..., Path], tmp_path: Path) -> None:
    rows = [answer(t, setting=name, seed=seed) for name in ("x", "y") for t in (1000, 2000) for seed in (4, 7)]
    place = write(tmp_path / "journal", answers=rows, changes=[{"t_ms": 1500, "sr": "a"}])
    with pytest.raises(ConfigError, match=r"no setting ''; name one of these .*'x', 'y'"):
        recorded(place, 1000)
    assert "The journal has 2 seeds; replayed is what the seed 4 met." in recorded(place, 1000, "y").notes


@pytest.mark.parametrize(
    ("tables", "changes", "words"),
    [
        ({}, {}, "neither a run, nor a journal, nor a trace"),
        ({"evaluations": [{"t_ms": 1}]}, {"window": 10}, "has no answers"),
        ({"answers": [answer(1), answer(2)]}, {}, "does not say how long its window is"),
        ({"answers": [answer(1), answer(2)]}, {"window": 10}, "has neither changes nor refreshes"),
        ({"answers": [answer(1)], "changes": [{"t_ms": 1, "sr": "a"}]}, {"window": 10}, "at 1 instant"),
        ({"answers": [answer(1), answer(2)]}, {"window": "long"}, "window"),
    ],
)
def test_what_cannot_be_replayed_is_said_in_one_line(
    tmp_path: Path, tables: dict[str, list[dict[str, object]]], changes: dict[str, object], words: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(FreshkeeperError, match=words):
        replay_of(write(place, **tables), changes, tmp_path / "trace")


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"config": {"budgt": 3}})])
def test_a_run_json_that_is_none_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(FreshkeeperError):
        replay_of(tmp_path, {}, tmp_path / "trace")


def test_the_cheapest_budget_is_the_least_that_is_as_fresh_as_asked_and_honest(tmp_path: Path) -> None:
    rows = simulate(
        resolve(RUN, {"sweep": {"budget": [1, 2, 6]}, "knowledge": "exact", "policies": "ibm"}), tmp_path / "run"
    )
    middle = rows[1].freshness
    assert middle is not None
    assert cheapest(rows, middle) == {("ibm", "bgp", "exact", 0.0): rows[1]}
    assert cheapest(rows[::-1], middle) == cheapest(rows, middle)
    assert cheapest(rows, 1.1) == {("ibm", "bgp", "exact", 0.0): None}
    over = [rows[0], replace(rows[1], over_budget=True)]
    assert cheapest(over, middle) == {("ibm", "bgp", "exact", 0.0): None}
