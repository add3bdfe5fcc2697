"""Enrichers on a clock that a test moves, which call the lookup in the thread that reads."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lookup_tables import START, Table

from freshkeeper import Enricher

Make = Callable[..., Enricher[Any, Any]]


class Clock:
    """Milliseconds since the epoch, moved by hand."""

    def __init__(self) -> None:
        self.ms = float(START)

    def __call__(self) -> float:
        return self.ms

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.ms += 1000 * seconds


@pytest.fixture
def clock() -> Clock:
    """A clock at START."""
    return Clock()


@pytest.fixture
def table() -> Table:
    """Rows a to j."""
    return Table()


@pytest.fixture
def make(table: Table, clock: Clock) -> Iterator[Make]:
    """Make enrichers of the table; they are closed with the test."""
    made: list[Enricher[Any, Any]] = []

    def _make(**settings: Any) -> Enricher[Any, Any]:
        defaults: dict[str, Any] = {"lookup": table, "budget": "10/s", "background": False, "clock": clock}
        enricher: Enricher[Any, Any] = Enricher(**(defaults | settings))
        made.append(enricher)
        return enricher

    yield _make
    for enricher in made:
        enricher.close()
