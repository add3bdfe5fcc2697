"""How long parts of a journal are kept: a service that goes on for months would fill its disk with them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from freshkeeper.maintenance.base.files import writing
from freshkeeper.maintenance.journal.journal import files


@dataclass(frozen=True)
class Retention:
    """Parts go with those of the same number in all tables, the oldest first; the last one stays."""

    age: int | None = None
    """milliseconds since they were written; None: for ever"""
    largest: int | None = None
    """bytes of all parts; None: as many as there are"""
    clock: Callable[[], float] = time.time

    def drop(self, directory: Path, tables: Sequence[str]) -> None:
        """Let go of what is too old, or too much."""
        if self.age is None and self.largest is None:
            return
        parts: dict[str, list[Path]] = {}
        for file in sorted((one for name in tables for one in files(directory / f"{name}.parquet")), key=_number):
            parts.setdefault(_number(file), []).append(file)
        size = sum(file.stat().st_size for each in parts.values() for file in each)
        for each in list(parts.values())[:-1]:
            if not self._is_over(each, size):
                return
            size -= sum(file.stat().st_size for file in each)
            for file in each:
                with writing(file):
                    file.unlink()

    def _is_over(self, part: Sequence[Path], size: int) -> bool:
        written = max(file.stat().st_mtime for file in part)
        old = self.age is not None and (self.clock() - written) * 1000 > self.age
        return old or (self.largest is not None and size > self.largest)


def _number(file: Path) -> str:
    return file.name
