"""A journal that grows, analysed day by day (UTC): only days of which parts are new or changed, from these parts alone.

Every table is `NAME.parquet/day=2026-01-31/part-0.parquet`, one table with a column `day` for whoever reads it. A day
is analysed as a journal of its own: its parts are linked where they are the day's alone, and else cut at midnight.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
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
from freshkeeper.maintenance.pipeline.analysis.engine_choice import DuckDB, rows_of
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
    stamp: Sequence[object]
    """what changes when the file does"""

    def needed(self, day: int) -> tuple[int, int]:
        """From when on and until when a day wants it: earlier changes tell, too, whether copies were fresh then."""
        return (-(2**62) if self.table == "changes" else day * DAY_MS), (day + 1) * DAY_MS

    def has(self, day: int) -> bool:
        """Whether the day wants anything of it."""
        first, end = self.needed(day)
        return self.least < end and self.most >= first

    def cut(self, day: int, to: Path) -> None:
        """What the day wants of it: a link where that is all there is."""
        first, end = self.needed(day)
        to.parent.mkdir(parents=True, exist_ok=True)
        if first <= self.least and self.most < end:
            to.symlink_to(self.file)
        else:
            rows = duckdb.read_parquet(str(self.file)).filter(f"t_ms >= {first} AND t_ms < {end}")
            rows.write_parquet(str(to), compression="zstd")


def analyse_daily(
    engine: Callable[[], DuckDB], run: str, out: str | None = None, target: float = 0.95, top: int = 20
) -> tuple[dict[str, Any], list[str]]:
    """The digest of every day by its date, and the days that had to be analysed; tables go to `out` (RUN/daily)."""
    if "://" in run:
        raise ConfigError(f"{run}: journals are analysed day by day where this machine can list their parts")
    place, found, done = Path(out or f"{run}/daily").resolve(), {}, []
    every = [part for name in SCHEMAS for part in _parts(Path(run).resolve(), name)]
    spans = [range(part.least // DAY_MS, part.most // DAY_MS + 1) for part in every if part.table == "evaluations"]
    if not spans:
        raise AnalysisError(f"{run} cannot be analysed day by day: its evaluations.parquet has no times")
    for day in sorted({day for span in spans for day in span}):
        parts, file = [part for part in every if part.has(day)], place / DIGESTS / f"{_date(day)}.json"
        made_of = [target, top, *(part.stamp for part in parts)]
        before = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if before.get("made_of") != made_of:
            done.append(_date(day))
            before = {"made_of": made_of, "told": _analysed(engine, Path(run), day, parts, place, target, top)}
            with whole(file) as text:
                text.write_text(json.dumps(before, indent=1), "utf-8")
        if before["told"] is not None:
            found[_date(day)] = before["told"]
    return found, done


def _date(day: int) -> str:
    """In UTC, of its number since 1970."""
    return datetime.fromtimestamp(day * DAY_MS / 1000, UTC).date().isoformat()


def _parts(run: Path, name: str) -> Iterable[Part]:
    """What the ends of the files say; what is no Parquet, or tells no times, is left to the analysis of the whole."""
    for file in files(run / f"{name}.parquet"):
        with suppress(duckdb.Error):
            ((least, most),) = duckdb.execute(ENDS, [str(file)]).fetchall()
            if least is not None and most is not None:
                about = file.stat()
                yield Part(name, file, least, most, [name, file.name, about.st_size, about.st_mtime_ns])


def _analysed(
    engine: Callable[[], DuckDB], run: Path, day: int, parts: list[Part], place: Path, target: float, top: int
) -> dict[str, Any] | None:
    """The digest of one day, its tables put where they belong; None for a day between others that has nothing."""
    made = place / f".{_date(day)}"
    own, told = made / "journal", made / "told"
    shutil.rmtree(made, ignore_errors=True)
    try:
        for number, part in enumerate(parts):
            part.cut(day, own / f"{part.table}.parquet" / f"part-{number:010}.parquet")
        if not rows_of(own, "evaluations"):
            return None
        if (run / FILE).exists():
            shutil.copy(run / FILE, own)
        digest = analyse(engine(), str(own), str(told), target, top)
        for table in told.glob("*.parquet"):
            to = place / table.name / f"day={_date(day)}"
            shutil.rmtree(to, ignore_errors=True)
            to.parent.mkdir(exist_ok=True)
            table.rename(to)
        return digest | {"run": str(run)}
    finally:
        shutil.rmtree(made, ignore_errors=True)
