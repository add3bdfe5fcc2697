"""Engines of analysis as tests ask for them."""

from collections.abc import Callable
from dataclasses import dataclass

from freshkeeper.maintenance.analysis.judging import DuckDB


@dataclass(frozen=True)
class MadeEngine:
    """Makes an engine, a new one for each analysis."""

    name: str
    make: Callable[[], DuckDB]

    def __call__(self) -> DuckDB:
        return self.make()
