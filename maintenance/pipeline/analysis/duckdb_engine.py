"""The analysis in this process alone: no Java, no start-up time."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from freshkeeper.maintenance.journal.journal import files
from freshkeeper.maintenance.pipeline.analysis.answer_pieces import (
    batches,
    columns_of,
    judged_piece,
    judged_whole,
    shares,
)
from freshkeeper.maintenance.pipeline.analysis.judging import Parts
from freshkeeper.maintenance.pipeline.analysis.known import Known


class DuckDB:
    """Pieces of answers side by side in threads, everything else on DuckDB."""

    name = "duckdb"
    failures: tuple[type[Exception], ...] = ()

    def near(self, path: str) -> Path:
        """It is."""
        return Path(path)

    def columns(self, path: str) -> list[str]:
        """Of all parts."""
        return columns_of(files(Path(path)))

    def judged(self, path: str, known: Known, moment: str) -> Iterator[Parts]:
        """As many pieces at once as there are cores."""
        cores = os.cpu_count() or 1
        pieces = shares(batches(files(Path(path)), moment), 4 * cores)
        with ThreadPoolExecutor(cores) as pool:
            yield from judged_whole(known, list(pool.map(partial(judged_piece, known, moment), pieces)))

    def deliver(self, made: Path, path: str) -> None:
        """What is written is where it should be."""

    def close(self) -> None:
        """Nothing is kept."""
