"""The analysis in this process alone: no Java, no start-up time."""

from collections.abc import Iterator
from pathlib import Path

from freshkeeper.maintenance.journal.journal import files
from freshkeeper.maintenance.pipeline.analysis import judging
from freshkeeper.maintenance.pipeline.analysis.analysis_database import Database
from freshkeeper.maintenance.pipeline.analysis.judging import Judge, Parts


class DuckDB:
    """An engine: where tables are and where answers are judged. Spark is one as well, and departs from this one."""

    name = "duckdb"
    failures: tuple[type[Exception], ...] = ()
    """What it raises, beside what DuckDB does."""

    def near(self, path: str) -> Path:
        """A file or a directory where this process can read it; there need be none."""
        return Path(path)

    def columns(self, database: Database, name: str, path: str) -> list[str]:
        """Of a table of the run, which is `raw_NAME` from now on; none where nothing is there."""
        return database.parquet(f"raw_{name}", files(self.near(path)))

    def judged(self, path: str, judge: Judge) -> Iterator[Parts]:
        """All answers at a path: one slice after another, each on all cores."""
        parts = files(Path(path))
        return judge.judged(parts, judge.slices(parts, judging.SLICE))

    def deliver(self, made: Path, path: str) -> None:
        """Put a finished directory where this process cannot."""

    def close(self) -> None:
        """Let go of what was kept."""


def located(path: str) -> str:
    """A path that an engine understands wherever its processes were started; what names a file system stays."""
    return path if "://" in path else str(Path(path).resolve())
