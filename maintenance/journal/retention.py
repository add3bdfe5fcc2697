"""Retention of journal parts: without a limit a service would fill its disk over months."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.journal.journal import files


@dataclass(frozen=True)
class Retention:
    """Removes the oldest parts, those of one number in all tables together; the last one stays."""

    age: int | None = None
    """the maximal age of a part in ms; None: no limit"""
    largest: int | None = None
    """the maximal size of all parts in bytes; None: no limit"""
    clock: Callable[[], float] = time.time

    def drop(self, directory: Path, tables: Sequence[str]) -> None:
        """Remove parts that are too old or too many."""
        if self.age is None and self.largest is None:
            return
        parts: dict[str, list[Path]] = {}
        for name in tables:
            for file in files(directory / f"{name}.parquet"):
                parts.setdefault(file.name, []).append(file)
        sizes = {number: _bytes_of(part) for number, part in parts.items()}
        total = sum(sizes.values())
        for number in sorted(parts)[:-1]:
            if not self._is_over(parts[number], total):
                return
            total -= sizes[number]
            for file in parts[number]:
                with writing(file):
                    file.unlink()

    def _is_over(self, part: Sequence[Path], size: int) -> bool:
        written = max(file.stat().st_mtime for file in part)
        old = self.age is not None and (self.clock() - written) * 1000 > self.age
        return old or (self.largest is not None and size > self.largest)


def _bytes_of(part: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in part)
