"""A journal that grows, day by day: every day as if it were alone, and days that are as they were are left alone."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet
from pyspark.sql import SparkSession

from freshkeeper.__main__ import main
from freshkeeper.maintenance.analysis.analysis import analyse
from freshkeeper.maintenance.analysis.daily import analyse_daily
from freshkeeper.maintenance.analysis.judging import DuckDB
from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.journal import journal

pytestmark = pytest.mark.slow

FIRST = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000
WHOSE = {"setting": "s", "policy": "p", "case": "bgp", "knowledge": "learned", "seed": 0}
DATES = ["2026-03-01", "2026-03-02", "2026-03-03"]


def rows(hour: int) -> dict[str, list[dict[str, object]]]:
    """One evaluation: two answers of copies of the day before, of which one was refreshed every other hour."""
    now, about = FIRST + hour * HOUR, {**WHOSE, "k": hour, "t_ms": FIRST + hour * HOUR}
    copied = now if hour % 2 else now - HOUR
    return {
        "evaluations": [{**about, "warmup": False, "results": 2.0, "expected_fresh": 1.0, "budget": 1.0, "spent": 1.0}],
        "answers": [
            {**about, "sn": "n", "sr": "a", "weight": 1, "refreshed_ms": copied},
            {**about, "sn": "n", "sr": "b", "weight": 1, "refreshed_ms": FIRST - HOUR},
        ],
        "refreshes": [{**about, "sr": "a", "changed": True}] if hour % 2 else [],
        "changes": [{**about, "sr": "a"}, *([{**about, "sr": "b"}] if hour == 30 else [])],
    }


def put(run: Path, number: int, hours: range) -> None:
    """A part of every table."""
    for name in ("evaluations", "answers", "refreshes", "changes"):
        found = [row for hour in hours for row in rows(hour)[name]]
        columns = {part.name: [row.get(part.name) for row in found] for part in journal.SCHEMAS[name]}
        journal.write_part(run, name, number, journal.table(name, columns))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two days, the second part over midnight."""
    for number, hours in enumerate((range(20), range(20, 28), range(28, 48))):
        put(tmp_path / "run", number, hours)
    return tmp_path / "run"


def alone(place: Path, hours: range) -> dict[str, object]:
    """The analysis of a journal of these evaluations, and of what changed before."""
    put(place, 0, hours)
    earlier = [row for hour in range(hours[0]) for row in rows(hour)["changes"]]
    if earlier:
        columns = {part.name: [row.get(part.name) for row in earlier] for part in journal.SCHEMAS["changes"]}
        journal.write_part(place, "changes", 1, journal.table("changes", columns))
    return analyse(DuckDB(), str(place))


def test_every_day_is_analysed_as_if_it_were_alone(run: Path, tmp_path: Path) -> None:
    days, done = analyse_daily(DuckDB, str(run))
    assert list(days) == done == DATES[:2]
    for date, hours in zip(DATES, (range(24), range(24, 48)), strict=False):
        assert days[date] | {"run": ""} == alone(tmp_path / date, hours) | {"run": ""}
    assert [days[date]["freshness"][0]["freshness"] for date in days] == [
        0.75,
        pytest.approx((6 * 1.5 + 18 * 0.5) / 48),
    ]


def test_only_days_with_new_parts_are_analysed_again_and_tables_have_a_column_for_the_day(
    run: Path, tmp_path: Path
) -> None:
    analyse_daily(DuckDB, str(run), str(tmp_path / "told"))
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "told").rglob("*.parquet") if file.is_file()}
    assert analyse_daily(DuckDB, str(run), str(tmp_path / "told"))[1] == []
    put(run, 3, range(50, 60))
    days, done = analyse_daily(DuckDB, str(run), str(tmp_path / "told"))
    assert (done, list(days)) == (DATES[2:], DATES)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    put(run, 4, range(60, 61))
    assert analyse_daily(DuckDB, str(run), str(tmp_path / "told"))[1] == DATES[2:]
    query = (
        f"SELECT cast(day AS text), sum(evaluations) FROM '{tmp_path}/told/freshness.parquet/*/*.parquet' GROUP BY day"
    )
    assert sorted(duckdb.connect().sql(query).fetchall()) == list(zip(DATES, (24, 24, 11), strict=True))


def test_arrow_and_spark_read_the_days_as_one_table_too(spark: SparkSession, run: Path) -> None:
    analyse_daily(DuckDB, str(run))
    for name in ("freshness", "evaluations", "top_stale"):
        table = run / "daily" / f"{name}.parquet"
        by_arrow = dataset.dataset(table, partitioning="hive").to_table()
        by_spark = spark.read.parquet(str(table))
        assert set(by_arrow.column_names) == set(by_spark.columns)
        assert {str(day) for day in by_arrow["day"].to_pylist()} == set(DATES[:2])
        assert {str(row["day"]) for row in by_spark.select("day").distinct().collect()} == set(DATES[:2])
        assert by_arrow.num_rows == by_spark.count()


def test_of_parts_of_other_days_only_the_ends_are_read(tmp_path: Path) -> None:
    """What lies between is made unreadable, and nothing else of the files changes."""
    run = tmp_path / "run"
    put(run, 0, range(24))
    analyse_daily(DuckDB, str(run))
    for file in (
        run / "answers.parquet" / "part-0000000000.parquet",
        run / "refreshes.parquet" / "part-0000000000.parquet",
    ):
        about, written = file.stat(), file.read_bytes()
        end = len(written) - 8 - int.from_bytes(written[-8:-4], "little")
        file.write_bytes(b"\xff" * end + written[end:])
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
        with pytest.raises((OSError, pa.ArrowException)):
            parquet.read_table(file)
    put(run, 1, range(24, 30))
    assert analyse_daily(DuckDB, str(run))[1] == DATES[1:2]


def test_the_command_tells_every_day(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["freshkeeper", "analyse", str(run), "--daily", "--json"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert list(json.loads(said.out)) == DATES[:2]
    assert "analysed: 2026-03-01, 2026-03-02; as they were: 0 days" in said.err


def test_a_journal_without_times_has_no_days(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(FreshkeeperError, match=r"its evaluations\.parquet has no times"):
        analyse_daily(DuckDB, str(tmp_path / "run"))
