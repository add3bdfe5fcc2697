"""Where the answers of a run are judged: in this process or on a cluster. Whatever else an analysis reads is small."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from freshkeeper.maintenance.pipeline.analysis.judging import Parts
from freshkeeper.maintenance.pipeline.analysis.known import Known


class UnreadableError(Exception):
    """A file that is there and is no Parquet."""


class Engine(Protocol):
    """Reads answers once, side by side, and knows the file systems that runs lie on."""

    @property
    def name(self) -> str:
        """As people call it."""
        ...

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What it raises."""
        ...

    def near(self, path: str) -> Path:
        """A file or a directory where this process can read it; there need be none."""
        ...

    def columns(self, path: str) -> list[str]:
        """Of the answers at a path; none where nothing is there."""
        ...

    def judged(self, path: str, known: Known, moment: str) -> Iterator[Parts]:
        """All answers at a path judged, piece by piece; `moment` is the column by which evaluations differ."""
        ...

    def deliver(self, made: Path, path: str) -> None:
        """Put a finished directory where this process cannot."""
        ...

    def close(self) -> None:
        """Let go of what was kept."""
        ...


def located(path: str) -> str:
    """A path that an engine understands wherever its processes were started; what names a file system stays."""
    return path if "://" in path else str(Path(path).resolve())
