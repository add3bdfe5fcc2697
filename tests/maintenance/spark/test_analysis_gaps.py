"""Runs that lack tables, columns, evaluations or the truth: what cannot be told is said, and the rest is given."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_engines import MadeEngine
from pyarrow import parquet

from freshkeeper.maintenance.analysis.analysis import analyse
from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError, InputError
from freshkeeper.maintenance.fetching.endpoint import PENDING
from freshkeeper.maintenance.journal import journal

pytestmark = pytest.mark.filterwarnings("default")
on_one_engine = pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
"""Of what both read alike it is the same text; whether they read alike is what the others ask."""
WHOSE = {"setting": "", "policy": "p", "case": "bgp", "knowledge": "learned", "seed": 0}
ROWS: dict[str, list[dict[str, object]]] = {
    "evaluations": [
        {"k": k, "t_ms": k * 1000, "warmup": k == 1, "results": 2.0, "fresh": 1.0, "expected_fresh": 1.5, "budget": 1.0,
         "spent": 1.0, "carried": 0.0, "stale": 1, "decide_us": 10.0, "fetch_ms": 2.0, "errors": 0}
        for k in (1, 2)
    ],
    "answers": [
        {"k": k, "t_ms": k * 1000, "sn": "n", "sr": sr, "weight": 1, "refreshed_ms": 0} for k in (1, 2) for sr in "ab"
    ],
    "refreshes": [{"k": 2, "t_ms": 2000, "sr": "a", "changed": False, "latency_ms": 2.0}],
    "changes": [{"sr": "a", "t_ms": 1500}],
}  # fmt: skip


@pytest.fixture
def analysed(engine: MadeEngine, tmp_path: Path) -> Callable[..., dict[str, object]]:
    """Analyse a run made of these tables, without some columns (table.column) and some tables."""

    def run(*without: str, rows: dict[str, list[dict[str, Any]]] = ROWS, **more: Any) -> dict[str, Any]:
        for name, table in rows.items():
            if name in without:
                continue
            parts = [part.name for part in journal.SCHEMAS[name]]
            columns = {c: [row.get(c, WHOSE.get(c)) for row in table] for c in parts}
            kept = [c for c in parts if f"{name}.{c}" not in without]
            parquet.write_table(journal.table(name, columns).select(kept), tmp_path / f"{name}.parquet")
        return analyse(engine(), str(tmp_path), **more)

    return run


def said(digest: dict[str, Any], words: str) -> list[str]:
    return [note for note in digest["cannot_tell"] if words in note]


@on_one_engine
def test_without_changes_the_headline_is_what_was_reported_and_says_so(analysed: Callable[..., dict[str, Any]]) -> None:
    digest = analysed("changes")
    assert digest["freshness"][0]["freshness"] == 0.5
    assert said(digest, "changes.parquet is not there: there is no truth")
    assert said(digest, "not the truth but what was reported")
    assert digest["wasted"][0]["wasted"] is None
    assert digest["wasted"][0]["wasted_as_reported"] == 1
    assert {"budget", "latency", "calibration"} <= set(digest)
    assert not {"missed", "staleness", "top_stale"} & set(digest)


@on_one_engine
def test_without_changes_audits_stand_in_for_the_truth(analysed: Callable[..., dict[str, Any]]) -> None:
    audits = [{"k": 2, "t_ms": 2000, "sn": "n", "fresh": fresh} for fresh in (True, False, True, None)]
    audits += [{"k": 1, "t_ms": 1000, "sn": "n", "fresh": False}]  # in the warm-up
    digest = analysed("changes", rows=ROWS | {"audits": audits})
    (row,) = digest["freshness"]
    assert (row["basis"], row["audits"], row["within_target"]) == ("audited", 3, None)
    assert row["freshness"] == pytest.approx(2 / 3)
    assert row["stale_answers"] == pytest.approx(2 / 3)
    (share,) = digest["audits"]
    assert (share["low"], share["high"]) == (pytest.approx(0.2077, abs=1e-4), pytest.approx(0.9385, abs=1e-4))
    (audited,) = [row for row in digest["calibration"] if row["basis"] == "audited"]
    assert (audited["tenth"], audited["bias"]) == (7, pytest.approx(0.75 - 2 / 3))
    assert said(digest, "an estimate from 3 audited answers")


@on_one_engine
def test_what_was_on_its_way_counts_once_when_it_has_come(analysed: Callable[..., dict[str, Any]]) -> None:
    """One came late, another was refused late, a third never came; a fourth was not sent and failed at once."""
    waiting = [{"sr": sr, "changed": False, "error": PENDING, "requests": 1.0} for sr in "abc"]
    came = [{"sr": "a", "changed": True, "late": True}, {"sr": "b", "changed": False, "error": "no", "late": True}]
    unsent = {"sr": "d", "changed": False, "error": "not sent: the budget is spent"}
    rows = [{"k": 2, "t_ms": 2000, **row} for row in (*waiting, *came, unsent)]
    (wasted,) = analysed(rows=ROWS | {"refreshes": rows})["wasted"]
    told = {name: wasted[name] for name in ("refreshes", "failed", "late", "wasted_as_reported")}
    assert told == {"refreshes": 3, "failed": 2, "late": 2, "wasted_as_reported": 0}


@on_one_engine
def test_without_answers_and_without_the_true_number_the_expected_one_stands_in(
    analysed: Callable[..., dict[str, Any]],
) -> None:
    evaluations = [{**row, "fresh": None} for row in ROWS["evaluations"]]
    digest = analysed("answers", rows=ROWS | {"evaluations": evaluations})
    assert digest["freshness"][0]["basis"] == "expected"
    assert digest["freshness"][0]["freshness"] == 0.75
    assert said(digest, "simulate with --answers")
    assert digest["calibration"] == []


@on_one_engine
def test_without_evaluations_answers_are_judged_and_misses_are_not(analysed: Callable[..., dict[str, Any]]) -> None:
    digest = analysed("evaluations", "refreshes")
    assert digest["freshness"][0]["freshness"] == 0.75
    assert said(digest, "evaluations.parquet is not there: misses")
    assert said(digest, "refreshes.parquet is not there: wasted")
    assert "wasted" not in digest
    assert digest["top_stale"][0]["sr"] == "a"


@on_one_engine
@pytest.mark.parametrize("column", ["answers.weight", "evaluations.warmup", "refreshes.late", "changes.setting"])
def test_a_journal_of_another_version_is_refused_in_one_line(
    analysed: Callable[..., dict[str, Any]], column: str
) -> None:
    table, name = column.split(".")
    with pytest.raises(InputError, match="another version of freshkeeper wrote it; repeat the run") as refused:
        analysed(column)
    assert str(refused.value).startswith(f"{table}.parquet has no column '{name}'")
    assert "\n" not in str(refused.value)


@on_one_engine
def test_one_part_of_another_version_is_refused_too(analysed: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    for number, row in enumerate(ROWS["answers"]):
        columns = {name: [value] for name, value in (WHOSE | row).items() if name != "knowledge"}
        rows = journal.table("answers", columns)
        journal.write_part(tmp_path, "answers", number, rows.drop_columns(["weight"]) if number == 2 else rows)
    with pytest.raises(InputError, match=r"answers\.parquet/part-0000000002\.parquet has no column 'weight'"):
        analysed("answers")


def test_a_journal_written_in_parts_is_read_as_a_whole(analysed: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    for number, row in enumerate(ROWS["answers"]):
        columns = {name: [value] for name, value in (WHOSE | row).items() if name != "knowledge"}
        journal.write_part(tmp_path, "answers", number, journal.table("answers", columns))
    digest = analysed("answers")
    assert (digest["freshness"][0]["freshness"], digest["freshness"][0]["basis"]) == (0.5, "truth")


def test_empty_tables_and_empty_windows_give_no_freshness(analysed: Callable[..., dict[str, Any]]) -> None:
    empty = [{**row, "results": 0.0, "fresh": 0.0, "expected_fresh": 0.0} for row in ROWS["evaluations"]]
    digest = analysed(rows={"evaluations": empty, "answers": [], "refreshes": [], "changes": []})
    assert digest["freshness"] == []
    assert said(digest, "Nothing was answered: no evaluation that counts has answers")
    assert digest["budget"][0]["spent"] == 2.0


def test_a_journal_without_evaluations_was_not_answered(analysed: Callable[..., dict[str, Any]]) -> None:
    digest = analysed(rows={"evaluations": [], "answers": [], "refreshes": []})
    assert (digest["freshness"], digest["budget"]) == ([], [])
    assert said(digest, "Nothing was answered")
    assert not said(digest, "run.json")


def test_a_table_that_is_no_parquet_is_left_aside_and_an_engine_that_is_wrong_is_contradicted(
    analysed: Callable[..., dict[str, object]], tmp_path: Path
) -> None:
    (tmp_path / "refreshes.parquet").write_text("not at all")
    (tmp_path / "run.json").write_text("{")
    rows = {**ROWS, "evaluations": [{**row, "fresh": 2.0} for row in ROWS["evaluations"]]}
    digest = analysed("refreshes", rows=rows)
    assert said(digest, "refreshes.parquet is not readable as Parquet")
    assert said(digest, "The engine reported 1.0000 for p; the truth is 0.5000")


def test_an_analysis_replaces_an_earlier_one_and_nothing_else(
    analysed: Callable[..., dict[str, object]], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="holds something that is no analysis"):
        analysed(out=str(tmp_path / "mine"))
    (tmp_path / "mine" / "letter.txt").unlink()
    (tmp_path / "mine" / "analysis.json").write_text(json.dumps({"an": "earlier one"}))
    (tmp_path / "mine" / "gone.parquet").mkdir()
    analysed(out=str(tmp_path / "mine"))
    assert (tmp_path / "mine" / "freshness.parquet").is_dir()
    assert not (tmp_path / "mine" / "gone.parquet").exists()


@on_one_engine
def test_what_is_to_be_written_where_this_process_cannot_is_refused(analysed: Callable[..., dict[str, object]]) -> None:
    with pytest.raises(ConfigError, match="hdfs:///told: DuckDB writes on this machine; --engine spark writes where"):
        analysed(out="hdfs:///told")


@pytest.mark.parametrize(
    ("without", "more", "words"),
    [
        (tuple(ROWS), {}, "neither evaluations.parquet nor answers.parquet"),
        (("evaluations", "changes"), {}, "nothing can be told"),
        ((), {"target": 95}, "the target is 95; right would be"),
    ],
)
def test_where_nothing_can_be_told_one_sentence_says_why(
    analysed: Callable[..., dict[str, object]], without: tuple[str, ...], more: dict[str, int], words: str
) -> None:
    with pytest.raises(FreshkeeperError, match=words):
        analysed(*without, **more)
