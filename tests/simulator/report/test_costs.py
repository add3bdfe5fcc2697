"""What freshness cost, and how old the copies of stale answers were, worked by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from freshkeeper.policies.base import NEVER
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.report.costs import costs
from freshkeeper.simulator.report.staleness import staleness

Make = Callable[..., Path]


def refresh(changed: bool | None, k: int = 5, seed: int = 0, error: str | None = None) -> dict[str, object]:
    """One refresh."""
    return {"setting": "default", "policy": "ibm", "seed": seed, "k": k, "sr": "a", "changed": changed, "error": error}


def test_a_refresh_that_found_nothing_new_is_wasted(make_run: Make, write_table: Make) -> None:
    """Of four that count two are wasted; the warm-up, a failure and what nobody knows are left out."""
    path = make_run({"ibm": [0.5, 0.5]})
    rows = [refresh(False), refresh(True), refresh(False, seed=1), refresh(True, seed=1)]
    rows += [refresh(False, k=1), refresh(False, error="timeout"), refresh(None)]
    write_table(path, "refreshes", rows)
    found = costs(run_directory.read(path))
    assert found.wasted[0].mean == pytest.approx(0.5)
    assert found.wasted[0].seeds == 2
    assert found.notes == []


def test_decision_times_have_a_median_and_a_bad_case(make_run: Make) -> None:
    """100 k µs for k of 2 to 10: the warm-up is left out."""
    spread = costs(run_directory.read(make_run({"ibm": [0.5]}))).decide_ms[0]
    assert spread.median == pytest.approx(0.6)
    assert spread.high == pytest.approx(0.96)


def test_fetches_that_touched_no_network_are_no_latency(make_run: Make) -> None:
    assert costs(run_directory.read(make_run({"ibm": [0.5]}))).fetch_ms == {}


def test_tables_that_are_not_there_or_broken_are_notes(make_run: Make) -> None:
    path = make_run({"ibm": [0.5]})
    assert "refreshes.parquet is not there" in costs(run_directory.read(path)).notes[0]
    assert "answers.parquet is not there (simulate with --answers" in staleness(run_directory.read(path)).notes[0]
    for name in ("refreshes", "answers", "changes"):
        (path / f"{name}.parquet").write_bytes(b"nonsense")
    assert "refreshes.parquet is not readable" in costs(run_directory.read(path)).notes[0]
    assert "not readable" in staleness(run_directory.read(path)).notes[0]


def test_tables_of_an_older_schema_are_notes(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.5]})
    write_table(path, "refreshes", [refresh(True)], without=["changed"])
    write_table(path, "answers", [answer(4000, 0)], without=["weight"])
    write_table(path, "changes", [{"seed": 0, "sr": "a", "t_ms": 1}])
    assert "refreshes.parquet has not all the columns" in costs(run_directory.read(path)).notes[0]
    assert "answers.parquet has not all the columns" in staleness(run_directory.read(path)).notes[0]


def answer(t_ms: int, refreshed: int, sr: str = "a", weight: int = 1, setting: str = "default") -> dict[str, object]:
    """One row of answers."""
    return {
        "setting": setting,
        "policy": "ibm",
        "case": "bgp",
        "seed": 0,
        "k": t_ms // 1000,
        "t_ms": t_ms,
        "sn": "n",
        "sr": sr,
        "weight": weight,
        "refreshed_ms": refreshed,
    }


def test_the_age_is_that_of_copies_of_stale_answers_by_weight(make_run: Make, write_table: Make) -> None:
    """SR a changes at 2500 and 9000, b never. At 4000 a copy of 1000 is 3000 old, 1500 overdue; one of 2500 is fresh.

    At 9000 a copy of 3000 has changed just now: 6000 old, 0 overdue, and with weight 19 it is most of what was stale.
    """
    path = make_run({"ibm": [0.5]})
    changes = [{"setting": "default", "seed": 0, "sr": "a", "t_ms": t} for t in (2500, 9000)]
    write_table(path, "changes", changes)
    rows = [answer(4000, 1000), answer(4000, 2500), answer(4000, 0, sr="b"), answer(9000, 3000, weight=19)]
    rows += [answer(1000, 0), answer(9000, NEVER)]
    write_table(path, "answers", rows)
    found = staleness(run_directory.read(path))
    assert found.notes == []
    assert (found.age[0].median, found.age[0].high) == (6000, 6000)
    assert (found.overdue[0].median, found.overdue[0].high) == (0, 0)


def test_changes_without_a_setting_serve_budgets_and_not_workloads(make_run: Make, write_table: Make) -> None:
    for key, told in (("budget", True), ("workload.edges", False)):
        settings = {name: {"varied": {key: int(name)}} for name in ("5", "10")}
        path = make_run({name: {"ibm": [0.5]} for name in settings}, key, settings=settings)
        write_table(path, "changes", [{"seed": 0, "sr": "a", "t_ms": 2500}], without=["setting"])
        write_table(path, "answers", [answer(4000, 1000, setting="5"), answer(5000, 1000, setting="10")])
        found = staleness(run_directory.read(path))
        assert bool(found.age) is told
        assert told or "does not say which setting" in found.notes[0]


def test_without_any_change_nothing_is_stale(make_run: Make, write_table: Make) -> None:
    path = make_run({"ibm": [0.5]})
    write_table(path, "changes", [{"setting": "other", "seed": 0, "sr": "a", "t_ms": 2500}])
    write_table(path, "answers", [answer(4000, 1000)])
    assert staleness(run_directory.read(path)).age == {}
