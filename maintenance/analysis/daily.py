"""A journal that grows, analysed day by day (UTC): only days of which parts are new or changed, from these parts alone.

Every table is `NAME.parquet/day=2026-01-31/part-0.parquet`, one table with a column `day` for whoever reads it.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from freshkeeper.maintenance.analysis.analysis import AnalysisError, analyse
from freshkeeper.maintenance.analysis.journal_tables import Cut
from freshkeeper.maintenance.analysis.judging import DuckDB
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.files import atomic_file
from freshkeeper.maintenance.journal.journal import SCHEMAS, files

DAY_MS = 86_400_000
DIGESTS = "days"
"""Where the digest of every day is, with the parts that it was made of."""
ENDS = """SELECT min(try_cast(stats_min_value AS bigint)), max(try_cast(stats_max_value AS bigint))
    FROM parquet_metadata(?) WHERE path_in_schema = 't_ms'"""


@dataclass(frozen=True)
class Part:
    """A file of a table, and the days that it has rows of."""

    table: str
    file: Path
    days: range
    stamp: Sequence[object]
    """what changes when the file does"""

    def has(self, day: int) -> bool:
        """Return whether the day needs this part; earlier changes also decide whether copies were fresh that day."""
        return day in self.days or (self.table == "changes" and self.days[0] < day)


def analyse_daily(
    engine: Callable[[], DuckDB], run: str, out: str | None = None, target: float = 0.95, top: int = 20
) -> tuple[dict[str, Any], list[str]]:
    """Return the digest of every day by date, and the days that were analysed; write tables to `out` (RUN/daily)."""
    if "://" in run:
        raise ConfigError(f"{run}: journals are analysed day by day where this machine can list their parts")
    place, found, done = Path(out or f"{run}/daily").resolve(), {}, []
    every = [part for name in SCHEMAS for part in _parts(Path(run).resolve(), name)]
    days = {day for part in every if part.table == "evaluations" for day in part.days}
    if not days:
        raise AnalysisError(f"{run} cannot be analysed day by day: its evaluations.parquet has no times")
    for day in sorted(days):
        date = datetime.fromtimestamp(day * DAY_MS / 1000, UTC).date().isoformat()
        parts, file = [part for part in every if part.has(day)], place / DIGESTS / f"{date}.json"
        made_of = [target, top, *(part.stamp for part in parts)]
        before = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if before.get("made_of") != made_of:
            done.append(date)
            told = place / f".{date}"
            shutil.rmtree(told, ignore_errors=True)
            digest = analyse(engine(), run, str(told), target, top, only=_cuts(parts, day))
            if digest["budget"]:  # which every day has but one between others that has nothing
                _place(told, date)
            shutil.rmtree(told)
            before = {"made_of": made_of, "told": digest if digest["budget"] else None}
            with atomic_file(file) as text:
                text.write_text(json.dumps(before, indent=1), "utf-8")
        if before["told"] is not None:
            found[date] = before["told"]
    return found, done


def _parts(run: Path, name: str) -> Iterator[Part]:
    """Yield the parts of a table with the days in their footers; other files are left to a whole analysis."""
    for file in files(run / f"{name}.parquet"):
        with suppress(duckdb.Error):
            ((least, most),) = duckdb.execute(ENDS, [str(file)]).fetchall()
            if least is not None and most is not None:
                about, days = file.stat(), range(least // DAY_MS, most // DAY_MS + 1)
                yield Part(name, file, days, [name, file.name, about.st_size, about.st_mtime_ns])


def _cuts(parts: Sequence[Part], day: int) -> dict[str, Cut]:
    """Return the parts and rows of every table that a day needs."""
    found = {}
    for name in SCHEMAS:
        where = f"t_ms < {(day + 1) * DAY_MS}" + (f" AND t_ms >= {day * DAY_MS}" if name != "changes" else "")
        found[name] = Cut([part.file for part in parts if part.table == name], where)
    return found


def _place(told: Path, date: str) -> None:
    """Move the tables of a day into place, over earlier ones."""
    for table in told.glob("*.parquet"):
        to = told.parent / table.name / f"day={date}"
        shutil.rmtree(to, ignore_errors=True)
        to.parent.mkdir(exist_ok=True)
        table.rename(to)
