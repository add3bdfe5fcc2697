"""Freshness on each engine equals the plain reference and what the simulator reported; the tables, worked by hand."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from made_engines import MadeEngine
from pyarrow import parquet
from pyspark.sql import SparkSession
from tables import table_of

from freshkeeper.maintenance.analysis import judging
from freshkeeper.maintenance.analysis.analysis import analyse
from freshkeeper.maintenance.analysis.headline import headline_of_table
from freshkeeper.maintenance.journal import journal
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import resolve

pytestmark = pytest.mark.filterwarnings("default")
SIMULATED: dict[str, Any] = {
    "workload": {"sns": 12, "srs": 10, "edges": 40},
    "policies": ["random", "sbm", {"name": "fba", "literal": True}],
    "sweep": {
        "start": ["warm", "cold"],
        "remote.latency_ms": [0, 300],
        "case": ["bgp", "aggregate"],
        "knowledge": ["exact", "learned"],
    },
    "budget": 3,
    "evaluations": 12,
    "seeds": 2,
    "bound": "never",
    "answers": True,
}
"""Both cases, known and unknown changes, views with misses, a source that takes its time."""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    simulate(resolve(SIMULATED), run)
    return run


@pytest.fixture(scope="module")
def digest(engine: MadeEngine, simulated: Path) -> dict[str, object]:
    return analyse(engine(), str(simulated), str(simulated / f"on-{engine.name}"))


@pytest.fixture
def tables(engine: MadeEngine, simulated: Path, digest: dict[str, object]) -> Callable[..., object]:
    """Reads what was written."""
    return lambda name: read(simulated / f"on-{engine.name}" / f"{name}.parquet")


def read(place: Path) -> list[dict[str, object]]:
    return parquet.read_table(place, partitioning=None).to_pylist()


def test_both_engines_give_equal_tables(spark: SparkSession, simulated: Path, tmp_path: Path) -> None:
    from freshkeeper.maintenance.analysis.judging import DuckDB
    from freshkeeper.maintenance.analysis.spark_engine import Spark

    digests = [analyse(made, str(simulated), str(tmp_path / made.name)) for made in (DuckDB(), Spark(spark))]
    assert digests[0].keys() == digests[1].keys()
    assert digests[0]["cannot_tell"] == digests[1]["cannot_tell"]
    for name in (*digests[0], "over_time", "evaluations"):
        if name not in ("run", "format", "target", "cannot_tell"):
            one, other = (sorted(read(tmp_path / each / f"{name}.parquet"), key=_whose) for each in ("duckdb", "spark"))
            assert len(one) == len(other) > 0
            for ours, theirs in zip(one, other, strict=True):
                assert list(ours) == list(theirs)
                assert ours == pytest.approx(theirs, abs=1e-9, nan_ok=True), name


def _whose(row: dict[str, object]) -> list[str]:
    return [str(value) for value in row.values() if not isinstance(value, float)]


@pytest.mark.parametrize("engine", ["duckdb", "spark"], indirect=True)
@pytest.mark.slow
def test_evaluations_that_lie_in_many_pieces_are_judged_as_a_whole(
    engine: MadeEngine, simulated: Path, digest: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers in no order at all, as somebody's own tool may have written them."""
    _copied(simulated, tmp_path)
    answers = journal.read(simulated, "answers")
    assert answers is not None
    mixed = answers.take(np.random.default_rng(0).permutation(answers.num_rows))
    parquet.write_table(mixed, tmp_path / "answers.parquet", row_group_size=5_000)
    monkeypatch.setattr(judging, "SLICE", 3_000)
    assert _told(analyse(engine(), str(tmp_path))) == _figures(digest)


def test_a_run_on_a_cluster_s_file_system_is_read_and_written_there(
    spark: SparkSession, simulated: Path, tmp_path: Path
) -> None:
    from freshkeeper.maintenance.analysis.judging import DuckDB
    from freshkeeper.maintenance.analysis.spark_engine import Spark

    here = analyse(DuckDB(), str(simulated), str(tmp_path / "here"))
    there = analyse(Spark(spark), f"file://{simulated}", f"file://{tmp_path}/there")
    assert _told(there) == _figures(here)
    assert json.loads((tmp_path / "there" / "analysis.json").read_text()) == there
    assert read(tmp_path / "there" / "seeds.parquet") == there["seeds"]


def _copied(run: Path, place: Path) -> None:
    for file in run.iterdir():
        if file.is_file() and file.name != "answers.parquet":
            shutil.copy(file, place)


def _told(digest: dict[str, object]) -> dict[str, list[dict[str, object]]]:
    """All but where."""
    return {name: rows for name, rows in digest.items() if isinstance(rows, list)}


def _figures(digest: dict[str, Any]) -> dict[str, list[object]]:
    """The same, to compare with: sums of fractions may differ in their last digits."""
    notes = {"cannot_tell": digest["cannot_tell"]}
    return {name: [pytest.approx(row, abs=1e-9) for row in rows] for name, rows in _told(digest).items()} | notes


def test_the_headline_equals_what_the_simulator_reported(simulated: Path, digest: dict[str, Any]) -> None:
    with (simulated / "summary.csv").open() as file:
        reported = {(row["setting"], row["policy"]): row for row in csv.DictReader(file)}
    assert len(digest["freshness"]) == len(reported)
    for row in digest["freshness"]:
        summary = reported[row["setting"], row["policy"]]
        assert row["basis"] == "truth"
        for column in ("freshness", "ci95", "pooled", "stale_answers", "answers"):
            assert row[column] == pytest.approx(float(summary[column]), abs=1e-9), (column, row)
    assert not [note for note in digest["cannot_tell"] if "engine" in note]


def test_the_plain_reference_gives_equal_numbers(simulated: Path, digest: dict[str, Any]) -> None:
    import freshness_on_arrow as on_arrow

    answers, changes, evaluations = (journal.read(simulated, name) for name in ("answers", "changes", "evaluations"))
    assert answers is not None
    assert changes is not None
    judged = on_arrow.judged(answers, on_arrow.copies(answers, changes))
    assert evaluations is not None
    seeds = on_arrow.by_seed(on_arrow.evaluated(judged, evaluations))
    for plain, told in ((seeds, digest["seeds"]), (on_arrow.headline(seeds), digest["freshness"])):
        assert len(plain) == len(told) > 0
        for one, other in zip(plain, told, strict=True):
            assert {column: other[column] for column in one} == pytest.approx(one, abs=1e-9)


def test_every_evaluation_is_judged_as_the_simulator_judged_it(simulated: Path, tables: Callable[..., Any]) -> None:
    rows = tables("evaluations")
    assert len(rows) == table_of(simulated, "evaluations").num_rows
    assert all(row["fresh"] == row["reported"] for row in rows)


def test_a_refresh_was_wasted_where_the_engine_saw_no_change(digest: dict[str, Any]) -> None:
    rows = [row for row in digest["wasted"] if "latency_ms=0" in row["setting"]]
    assert sum(row["wasted"] for row in rows) > 0
    assert all(row["wasted"] == row["wasted_as_reported"] for row in rows)


def test_with_exact_knowledge_what_was_expected_is_the_truth(digest: dict[str, Any]) -> None:
    exact = [row for row in digest["calibration"] if row["knowledge"] == "exact" and "latency_ms=0" in row["setting"]]
    assert exact
    assert all(row["mean_error"] == pytest.approx(0) for row in exact)


def test_what_is_paid_in_is_the_budget_and_only_the_literal_reading_spends_more(digest: dict[str, Any]) -> None:
    for row in digest["budget"]:
        assert row["paid_in"] == 3 * row["evaluations"]
        assert row["used"] <= 1 or "fba" in row["policy"]


def test_the_tables_are_on_disk_and_the_digest_is_beside_them(
    engine: MadeEngine, simulated: Path, digest: dict[str, object], tables: Callable[..., object]
) -> None:
    assert json.loads((simulated / f"on-{engine.name}" / "analysis.json").read_text()) == digest
    for name, rows in digest.items():
        if isinstance(rows, list) and name != "cannot_tell":
            assert tables(name) == rows
            assert rows


def write(directory: Path, **tables: list[dict[str, object]]) -> str:
    """A journal by hand: every table a list of rows."""
    for name, rows in tables.items():
        names = dict.fromkeys(column for row in rows for column in row)
        columns = {column: [row.get(column) for row in rows] for column in names}
        journal.write(directory, name, [journal.table(name, columns)])
    return str(directory)


def answer(
    t_ms: int, sr: str, refreshed_ms: int, sn: str = "n", weight: int = 1, case: str = "bgp", setting: str = ""
) -> dict[str, object]:
    return {"setting": setting, "policy": "p", "case": case, "seed": 0, "k": t_ms // 1000, "t_ms": t_ms, "sn": sn,
            "sr": sr, "weight": weight, "refreshed_ms": refreshed_ms}  # fmt: skip


def evaluation(t_ms: int, results: float, **more: object) -> dict[str, object]:
    return {"setting": "", "policy": "p", "case": "bgp", "knowledge": "learned", "seed": 0, "k": t_ms // 1000,
            "t_ms": t_ms, "warmup": False, "results": results, **more}  # fmt: skip


def refresh(t_ms: int, sr: str, changed: bool = True, **more: str) -> dict[str, object]:
    own = {"setting": "", "policy": "p", "seed": 0, "k": t_ms // 1000, "t_ms": t_ms, "sr": sr, "changed": changed}
    return own | more


def change(t_ms: int, sr: str, setting: str = "") -> dict[str, object]:
    return {"setting": setting, "seed": 0, "sr": sr, "t_ms": t_ms}


@pytest.fixture(scope="module")
def by_hand(
    engine: MadeEngine, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, list[dict[str, object]]]]:
    """a changes at 2000 exactly, b never, c at 500 and at 2500; a and b are refreshed at 2000, b for nothing.

    Beside it, in the setting `whole`, an aggregate of a and b and one of b and c; a changes.
    """
    run = write(
        tmp_path_factory.mktemp("hand") / "run",
        evaluations=[
            evaluation(1000, 6.0, expected_fresh=6.0, budget=2.0, spent=0.0, carried=1.0, stale=2, decide_us=500.0),
            evaluation(2000, 8.0, expected_fresh=2.0, budget=3.0, spent=2.0, carried=1.0, stale=2, decide_us=1500.0),
            evaluation(3000, 0.0, expected_fresh=0.0, budget=3.0, spent=0.0, carried=3.0, stale=0),
            evaluation(1000, 5.0, case="aggregate", setting="whole"),
        ],
        answers=[
            answer(1000, "a", 0, weight=2), answer(1000, "b", 0), answer(1000, "c", 0, weight=3),
            answer(2000, "a", 2000, weight=2), answer(2000, "b", 2000), answer(2000, "c", 0, weight=3),
            *(
                answer(1000, sr, 0, sn, weight, "aggregate", "whole")
                for sn, sr, weight in (("x", "a", 2), ("x", "b", 2), ("y", "b", 3), ("y", "c", 3))
            ),
        ],
        refreshes=[refresh(2000, "a"), refresh(2000, "b", False), refresh(2000, "c", False, error="timeout")],
        changes=[change(2000, "a"), change(500, "c"), change(2500, "c"), change(1000, "a", "whole")],
    )  # fmt: skip
    digest = analyse(engine(), run, target=0.5)
    return {
        setting: {
            name: [row for row in rows if row["setting"] == setting]
            for name, rows in digest.items()
            if isinstance(rows, list) and name != "cannot_tell"
        }
        for setting in ("", "whole")
    }


def test_a_copy_is_fresh_until_the_first_change_after_it_was_fetched(
    by_hand: dict[str, dict[str, list[dict[str, object]]]],
) -> None:
    (row,) = by_hand[""]["freshness"]
    assert row["freshness"] == pytest.approx((3 / 6 + 3 / 8) / 2)  # the second evaluation has two misses
    assert row["pooled"] == pytest.approx(6 / 14)
    assert row["within_target"] == 0.5
    assert (row["seeds"], row["evaluations"], row["ci95"]) == (1, 2, None)


def test_a_refresh_is_wasted_where_nothing_changed_since_the_copy_before(
    by_hand: dict[str, dict[str, list[dict[str, object]]]],
) -> None:
    (row,) = by_hand[""]["wasted"]
    assert (row["refreshes"], row["failed"], row["wasted"], row["wasted_as_reported"]) == (3, 1, 1, 1)


def test_a_refresh_is_missed_where_a_stale_entry_in_demand_was_not_chosen(
    by_hand: dict[str, dict[str, list[dict[str, object]]]],
) -> None:
    (row,) = by_hand[""]["missed"]
    assert (row["stale_entries"], row["missed"], row["missed_answers"]) == (2, 1, 3)  # at 2000 it was tried


def test_stale_answers_are_told_by_entry_and_by_age(by_hand: dict[str, dict[str, list[dict[str, object]]]]) -> None:
    (worst,) = by_hand[""]["top_stale"]
    assert (worst["sr"], worst["answers"], worst["stale"], worst["changes"], worst["degree"]) == ("c", 6, 6, 2, 1)
    ages = {(row["what"], row["from_ms"]): row["answers"] for row in by_hand[""]["staleness"]}
    assert ages == {("overdue", 256): 3, ("overdue", 1024): 3, ("age", 512): 3, ("age", 1024): 3}
    assert by_hand[""]["staleness_quantiles"][1]["most_ms"] == 1500 // 16 * 16


def test_deciles_latency_budget_and_calibration_are_told(
    by_hand: dict[str, dict[str, list[dict[str, object]]]],
) -> None:
    assert [row["freshness"] for row in by_hand[""]["by_change_rate"]] == [1.0, 0.0 + 1.0, 0.0]  # b, a, c
    assert {row["part"]: row["mean_ms"] for row in by_hand[""]["latency"]} == {"decide": 1.0}
    (budget,) = by_hand[""]["budget"]
    assert (budget["paid_in"], budget["spent"], budget["saved_though_stale"]) == (None, 2.0, 1)
    assert [(row["tenth"], row["bias"]) for row in by_hand[""]["calibration"]] == [(2, -0.125), (9, 0.5)]


def test_an_aggregate_is_fresh_iff_all_its_inputs_are(by_hand: dict[str, dict[str, list[dict[str, object]]]]) -> None:
    (row,) = by_hand["whole"]["freshness"]
    assert row["freshness"] == pytest.approx(3 / 5)


def test_the_headline_in_memory_is_that_of_the_table(simulated: Path, digest: dict[str, Any]) -> None:
    evaluations = table_of(simulated, "evaluations")
    for row in digest["seeds"]:
        whose = pc.field("seed") == row["seed"]
        for name in ("setting", "policy"):
            whose &= pc.field(name) == row[name]
        found = headline_of_table(evaluations.filter(whose))
        assert found.freshness == pytest.approx(row["freshness"], abs=1e-12)
        assert (found.fresh, found.results) == (row["fresh"], row["results"])
