"""Caches that set no budget, beside the policies of every run: what they say, and what they leave as it was."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet

from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment import ttl_caches as module
from freshkeeper.simulator.experiment.baselines import Baseline, read_baselines
from freshkeeper.simulator.experiment.check import check
from freshkeeper.simulator.experiment.compare import compare
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve
from freshkeeper.simulator.experiment.run_parts import task_of
from freshkeeper.simulator.experiment.summary import read_summary
from freshkeeper.simulator.experiment.ttl_caches import Reads
from freshkeeper.simulator.report import report_tables
from freshkeeper.simulator.report.groups import groups
from freshkeeper.simulator.report.verdict import verdict

NAMES = ["no-cache", "ttl", "refresh-ahead", "fetch-once"]
SMALL = {"sns": 20, "srs": 20, "edges": 120, "change_interval_ms": [2000, 30_000]}
TIMINGS = {"decide_us", "fetch_ms", "latency_ms"}


def run(place: Path, **keys: object) -> Path:
    chosen = {"workload": SMALL, "evaluations": 40, "seeds": 3, "budget": 3, "policies": "lru,ibm", "bound": "always"}
    simulate(resolve(chosen, keys), place)
    return place


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("usual") / "run", sweep={"budget": [2, 5]})


def of(place: Path, budget: float) -> dict[str, Baseline]:
    return {cache.policy: cache for cache in read_baselines(place) if cache.budget == budget}


def test_every_setting_has_the_four_marked(usual: Path) -> None:
    with (usual / "baselines.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["setting"], row["policy"]) for row in rows] == [
        (f"budget={n}", name) for n in (2, 5) for name in NAMES
    ]
    assert {row["mark"] for row in rows} == {"sets no budget"}


@pytest.mark.parametrize("budget", [2, 5])
def test_a_ttl_is_found_that_makes_as_many_requests_as_the_budget_pays_for(usual: Path, budget: int) -> None:
    caches = of(usual, budget)
    assert budget <= caches["ttl"].requests_per_evaluation <= budget * 1.05
    assert caches["ttl"].ttl_ms == caches["refresh-ahead"].ttl_ms
    assert caches["no-cache"].freshness == 1
    assert caches["fetch-once"].requests_per_evaluation == 0
    ends = [caches[name].freshness or 0 for name in ("fetch-once", "ttl", "no-cache")]
    assert ends == sorted(ends)


def test_a_larger_budget_pays_for_a_shorter_life(usual: Path) -> None:
    assert (of(usual, 5)["ttl"].ttl_ms or 0) < (of(usual, 2)["ttl"].ttl_ms or 0)


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_the_ends_are_what_the_policies_of_that_name_do(tmp_path: Path, start: str) -> None:
    place = run(tmp_path / "run", policies="no-cache,fetch-once", start=start, case="aggregate")
    played = {row.policy: row.freshness for row in read_summary(place / "summary.csv")}
    assert {name: of(place, 3)[name].freshness for name in played} == pytest.approx(played, abs=1e-12)


def test_the_policies_are_as_without_them(tmp_path: Path) -> None:
    with_them, without = run(tmp_path / "a"), run(tmp_path / "b", baselines=False)
    assert not (without / "baselines.csv").exists()
    for name in ("evaluations", "refreshes"):
        tables = [parquet.read_table(place / f"{name}.parquet") for place in (with_them, without)]
        kept = [column for column in tables[0].column_names if column not in TIMINGS]
        assert tables[0].select(kept) == tables[1].select(kept)
    first, second = (read_summary(place / "summary.csv") for place in (with_them, without))
    assert [replace(row, seconds=0) for row in first] == [replace(row, seconds=0) for row in second]


def test_a_report_has_them_in_a_table_of_their_own_and_ranks_none(usual: Path) -> None:
    (group,) = groups(run_directory.read(usual))
    assert sorted(group.policies) == ["ibm", "lru"]
    first, second = report_tables.tables_of_baselines(group)
    assert [(row.head, row.marks, row.best) for row in first.rows] == [(n, ["sets no budget"], False) for n in NAMES]
    assert (first.choice, second.choice) == ("budget=2", "budget=5")
    said = verdict(group)
    assert not any(name in str(part) for part in [said.lead, *said.sentences] for name in NAMES)


def test_neither_a_check_nor_a_comparison_is_of_them(usual: Path) -> None:
    _, lines = check(usual, 0.9, 0.01)
    assert len(lines) == 4
    assert not any(name in line for line in lines for name in NAMES)
    assert {each.policy for each in compare(usual, usual).differences} == {"lru", "ibm"}


def test_named_as_policies_they_are_marked_and_have_no_part_of_the_bound(tmp_path: Path) -> None:
    place = run(tmp_path / "run", policies=["ibm", {"name": "ttl", "ttl_ms": 30_000}, "fetch-once"], seeds=1)
    rows = {row.policy: row for row in read_summary(place / "summary.csv")}
    assert rows["fetch-once"].share_of_bound is None
    assert rows["ttl(ttl_ms=30000)"].share_of_bound is None
    assert rows["ibm"].share_of_bound
    (group,) = groups(run_directory.read(place))
    assert group.ranked == ["ibm"]
    _, lines = check(place, 0.9, 0.01)
    assert [("sets no budget" in line) for line in lines if "ibm" not in line] == [True, True]
    marked = {each.policy: "sets no budget" in each.row[-1] for each in compare(place, place).differences}
    assert marked == {"ibm": False, "ttl(ttl_ms=30000)": True, "fetch-once": True}


def test_where_they_cannot_be_worked_out_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = task_of(resolve({"workload": SMALL, "evaluations": 5, "remote": {"latency_ms": 100}}), 0, 0)
    assert module.cache_baselines(slow) == (
        [],
        "they are worked out only for a source that answers at once and never fails",
    )
    quick = task_of(resolve({"workload": SMALL, "evaluations": 5}), 0, 0)
    monkeypatch.setattr(module, "MOST_READ", 10)
    assert module.cache_baselines(quick)[0] == []
    assert "--policy ttl,refresh-ahead" in module.cache_baselines(quick)[1]


def test_what_would_take_long_is_never_guessed_too_small() -> None:
    for window in (1000, 4000, 9000):
        task = task_of(resolve({"workload": SMALL, "evaluations": 30, "window": window}), 0, 1)
        assert sum(read.sr.size for read in Reads.of(task).evaluations) <= module.most_read(task)


def test_what_is_damaged_is_left_aside(tmp_path: Path) -> None:
    place = run(tmp_path / "run", seeds=1)
    (place / "baselines.csv").write_text("setting,policy\na,b\n")
    found = run_directory.read(place)
    assert found.baselines == []
    assert any("baselines.csv is not readable" in note for note in found.notes)
