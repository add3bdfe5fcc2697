"""Parts of a journal go when they are too old or too many, in all tables together, and the last one stays."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from serving import POSTS, REACH, configured, posts

from freshkeeper.maintenance.journal.journal import Retention, files, write_part
from freshkeeper.maintenance.runtime import query_journal
from freshkeeper.maintenance.runtime.query_journal import TABLES
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.server import opened

NOW, DAY = 1_000_000.0, 86_400


def parts(place: Path, name: str = "evaluations") -> list[int]:
    return [int(file.stem.removeprefix("part-")) for file in files(place / f"{name}.parquet")]


def journal(place: Path) -> Path:
    """Four parts, one a day, the last one now; of one table only every other."""
    for number in range(4):
        for name in ("evaluations", "answers", "audits") if number % 2 else ("evaluations", "answers"):
            write_part(place, name, number * 10, pa.table({"t_ms": [number] * 100}))
            at = NOW - (3 - number) * DAY
            os.utime(place / f"{name}.parquet" / f"part-{number * 10:010}.parquet", (at, at))
    return place


def test_what_is_too_old_goes_in_all_tables(tmp_path: Path) -> None:
    Retention(int(1.5 * DAY * 1000), clock=lambda: NOW).drop(journal(tmp_path), TABLES)
    assert [parts(tmp_path, name) for name in ("evaluations", "answers", "audits")] == [[20, 30], [20, 30], [30]]


def test_what_is_too_much_goes_the_oldest_first(tmp_path: Path) -> None:
    journal(tmp_path)
    each = (tmp_path / "evaluations.parquet" / "part-0000000000.parquet").stat().st_size
    Retention(largest=6 * each, clock=lambda: NOW).drop(tmp_path, TABLES)
    assert parts(tmp_path) == [20, 30]
    Retention(largest=1, clock=lambda: NOW).drop(tmp_path, TABLES)
    assert parts(tmp_path) == [30], "the last one stays"


def test_nothing_goes_where_nothing_is_said(tmp_path: Path) -> None:
    Retention().drop(journal(tmp_path), TABLES)
    assert parts(tmp_path) == [0, 10, 20, 30]


def test_a_service_lets_parts_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_journal, "PART_INTERVAL_S", 0.0)
    config = configured(tmp_path, journal=str(tmp_path / "journal"), journal_largest=1, queries={"reach": REACH})
    service = opened(config, Guard(None, None)).service
    for second in range(1, 6):
        service.push(POSTS, posts(second * 1000 + 500).encode())
        service.settled()
    assert len(parts(tmp_path / "journal")) == 1
    assert service.journal.read("evaluations").num_rows >= 1
    service.close()
