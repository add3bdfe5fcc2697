"""A journal that grows, analysed day by day (UTC): only days of which parts are new or changed, from these parts alone.

Every table is `NAME.parquet/day=2026-01-31/part-0.parquet`, one table with a column `day` for whoever reads it. A day
is analysed as a journal of its own: its parts are linked where they are the day's alone, and else cut at midnight.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from pyarrow import ArrowInvalid, parquet

from freshkeeper.maintenance.files import whole
from freshkeeper.maintenance.journal.journal import SCHEMAS, files
from freshkeeper.maintenance.journal.run_json import FILE
from freshkeeper.maintenance.pipeline.analysis.analysis import analyse
from freshkeeper.maintenance.pipeline.analysis.analysis_engine import Engine
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError
from freshkeeper.policies.errors import ConfigError

DAY_MS = 86_400_000
DIGESTS = "days"
"""Where the digest of every day is, with the parts that it was made of."""


@dataclass(frozen=True)
class Part:
    """A file of a table, and the instants that it has rows of."""

    table: str
    file: Path
    least: int
    most: int

    def has(self, day: int) -> bool:
        """Changes of earlier days tell, too, whether copies of that day were fresh."""
        return self.least < (day + 1) * DAY_MS and (self.table == "changes" or self.most >= day * DAY_MS)

    def within(self, day: int) -> bool:
        """All of it is needed, and nothing else is in it."""
        return (self.table == "changes" or self.least >= day * DAY_MS) and self.most < (day + 1) * DAY_MS

    def stamp(self) -> list[object]:
        """What changes when the file does."""
        about = self.file.stat()
        return [self.table, self.file.name, about.st_size, about.st_mtime_ns]


def analyse_daily(
    engine: Callable[[], Engine], run: str, out: str | None = None, target: float = 0.95, top: int = 20
) -> tuple[dict[str, Any], list[str]]:
    """The digest of every day by its date, and the days that had to be analysed; tables go to `out` (RUN/daily)."""
    if "://" in run:
        raise ConfigError(f"{run}: journals are analysed day by day where this machine can list their parts")
    parts = [part for name in SCHEMAS for part in _parts(Path(run).resolve(), name)]
    days = {day for part in parts if part.table == "evaluations" for day in _days(part)}
    if not days:
        raise AnalysisError(f"{run} cannot be analysed day by day: its evaluations.parquet has no times")
    place, found, done = Path(out or f"{run}/daily").resolve(), {}, []
    for day in sorted(days):
        date, own = (
            datetime.fromtimestamp(day * DAY_MS / 1000, UTC).date().isoformat(),
            [p for p in parts if p.has(day)],
        )
        about, file = [target, top, *(part.stamp() for part in own)], place / DIGESTS / f"{date}.json"
        before = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if before.get("made_of") != about:
            done.append(date)
            before = {"made_of": about, "told": _analysed(engine, Path(run), own, day, date, place, target, top)}
            with whole(file) as text:
                text.write_text(json.dumps(before, indent=1), "utf-8")
        if before["told"] is not None:
            found[date] = before["told"]
    return found, done


def _parts(run: Path, name: str) -> Iterable[Part]:
    """What the ends of the files say; what is no Parquet, or tells no times, is left to the analysis of the whole."""
    for file in files(run / f"{name}.parquet"):
        try:
            about = parquet.ParquetFile(file).metadata
        except (ArrowInvalid, OSError):
            continue
        groups = [about.row_group(n) for n in range(about.num_row_groups)]
        columns = [group.column(n) for group in groups for n in range(group.num_columns)]
        told = [column.statistics for column in columns if column.path_in_schema == "t_ms"]
        ranges = [(one.min, one.max) for one in told if one is not None and one.has_min_max]
        if ranges:
            yield Part(name, file, min(least for least, _ in ranges), max(most for _, most in ranges))


def _days(part: Part) -> range:
    return range(part.least // DAY_MS, part.most // DAY_MS + 1)


def _analysed(
    engine: Callable[[], Engine],
    run: Path,
    parts: list[Part],
    day: int,
    date: str,
    place: Path,
    target: float,
    top: int,
) -> dict[str, Any] | None:
    """The digest of one day, its tables put where they belong; None for a day between others that has nothing."""
    own, told = place / f".{date}", place / f".{date}.told"
    shutil.rmtree(own, ignore_errors=True)
    try:
        if not _cut(parts, day, own):
            return None
        if (run / FILE).exists():
            shutil.copy(run / FILE, own)
        digest = analyse(engine(), str(own), str(told), target, top)
        for table in told.glob("*.parquet"):
            to = place / table.name / f"day={date}"
            shutil.rmtree(to, ignore_errors=True)
            to.parent.mkdir(exist_ok=True)
            table.rename(to)
        return digest | {"run": str(run)}
    finally:
        shutil.rmtree(own, ignore_errors=True)
        shutil.rmtree(told, ignore_errors=True)


def _cut(parts: list[Part], day: int, own: Path) -> bool:
    """A journal of one day; tells whether it has any evaluation."""
    evaluations = 0
    for number, part in enumerate(parts):
        to = own / f"{part.table}.parquet" / f"part-{number:010}.parquet"
        to.parent.mkdir(parents=True, exist_ok=True)
        if part.within(day):
            to.symlink_to(part.file)
        else:
            first = "" if part.table == "changes" else f"t_ms >= {day * DAY_MS} AND "
            rows = duckdb.read_parquet(str(part.file)).filter(f"{first}t_ms < {(day + 1) * DAY_MS}")
            rows.write_parquet(str(to), compression="zstd")
        if part.table == "evaluations":
            evaluations += parquet.ParquetFile(to).metadata.num_rows
    return evaluations > 0
