"""A journal that grows, analysed day by day (UTC): only days of which parts are new or changed, from these parts alone.

Every table is `NAME.parquet/day=2026-01-31/part-0.parquet`, one table with a column `day` for whoever reads it. A day
is analysed as a journal of its own: its parts are linked where they are the day's alone, and else cut at midnight.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from freshkeeper.maintenance.files import whole
from freshkeeper.maintenance.journal.journal import SCHEMAS, files
from freshkeeper.maintenance.journal.run_json import FILE
from freshkeeper.maintenance.pipeline.analysis.analysis import analyse
from freshkeeper.maintenance.pipeline.analysis.duckdb_engine import DuckDB
from freshkeeper.maintenance.pipeline.analysis.engine_choice import rows_of
from freshkeeper.maintenance.pipeline.analysis.journal_tables import AnalysisError
from freshkeeper.policies.errors import ConfigError

DAY_MS = 86_400_000
DIGESTS = "days"
"""Where the digest of every day is, with the parts that it was made of."""
ENDS = """SELECT min(try_cast(stats_min_value AS bigint)), max(try_cast(stats_max_value AS bigint))
    FROM parquet_metadata(?) WHERE path_in_schema = 't_ms'"""


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


@dataclass(frozen=True)
class Day:
    """Its number since 1970, and the parts that it is analysed from."""

    number: int
    parts: list[Part]

    @property
    def date(self) -> str:
        """In UTC."""
        return datetime.fromtimestamp(self.number * DAY_MS / 1000, UTC).date().isoformat()

    def cut(self, own: Path) -> bool:
        """Make a journal of this day alone; tells whether it has any evaluation."""
        for number, part in enumerate(self.parts):
            to = own / f"{part.table}.parquet" / f"part-{number:010}.parquet"
            to.parent.mkdir(parents=True, exist_ok=True)
            if part.within(self.number):
                to.symlink_to(part.file)
            else:
                first = "" if part.table == "changes" else f"t_ms >= {self.number * DAY_MS} AND "
                rows = duckdb.read_parquet(str(part.file)).filter(f"{first}t_ms < {(self.number + 1) * DAY_MS}")
                rows.write_parquet(str(to), compression="zstd")
        return rows_of(own, "evaluations") > 0


def analyse_daily(
    engine: Callable[[], DuckDB], run: str, out: str | None = None, target: float = 0.95, top: int = 20
) -> tuple[dict[str, Any], list[str]]:
    """The digest of every day by its date, and the days that had to be analysed; tables go to `out` (RUN/daily)."""
    if "://" in run:
        raise ConfigError(f"{run}: journals are analysed day by day where this machine can list their parts")
    place, found, done = Path(out or f"{run}/daily").resolve(), {}, []
    for day in _days(Path(run).resolve()):
        made_of = [target, top, *(part.stamp() for part in day.parts)]
        file = place / DIGESTS / f"{day.date}.json"
        before = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if before.get("made_of") != made_of:
            done.append(day.date)
            before = {"made_of": made_of, "told": _analysed(engine, Path(run), day, place, target, top)}
            with whole(file) as text:
                text.write_text(json.dumps(before, indent=1), "utf-8")
        if before["told"] is not None:
            found[day.date] = before["told"]
    return found, done


def _days(run: Path) -> list[Day]:
    parts = [part for name in SCHEMAS for part in _parts(run, name)]
    spans = [range(part.least // DAY_MS, part.most // DAY_MS + 1) for part in parts if part.table == "evaluations"]
    if not spans:
        raise AnalysisError(f"{run} cannot be analysed day by day: its evaluations.parquet has no times")
    return [
        Day(day, [part for part in parts if part.has(day)]) for day in sorted({day for span in spans for day in span})
    ]


def _parts(run: Path, name: str) -> Iterable[Part]:
    """What the ends of the files say; what is no Parquet, or tells no times, is left to the analysis of the whole."""
    for file in files(run / f"{name}.parquet"):
        with suppress(duckdb.Error):
            ((least, most),) = duckdb.execute(ENDS, [str(file)]).fetchall()
            if least is not None and most is not None:
                yield Part(name, file, least, most)


def _analysed(
    engine: Callable[[], DuckDB], run: Path, day: Day, place: Path, target: float, top: int
) -> dict[str, Any] | None:
    """The digest of one day, its tables put where they belong; None for a day between others that has nothing."""
    made = place / f".{day.date}"
    own, told = made / "journal", made / "told"
    shutil.rmtree(made, ignore_errors=True)
    try:
        if not day.cut(own):
            return None
        if (run / FILE).exists():
            shutil.copy(run / FILE, own)
        digest = analyse(engine(), str(own), str(told), target, top)
        for table in told.glob("*.parquet"):
            to = place / table.name / f"day={day.date}"
            shutil.rmtree(to, ignore_errors=True)
            to.parent.mkdir(exist_ok=True)
            table.rename(to)
        return digest | {"run": str(run)}
    finally:
        shutil.rmtree(made, ignore_errors=True)
