"""Enrichers whose rounds come when a test says so."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lookup_tables import START, Table

from freshkeeper import Enricher


@pytest.fixture
def table() -> Table:
    """Rows a to j."""
    return Table()


@pytest.fixture
def make(table: Table) -> Iterator[Callable[..., Enricher]]:
    """Enrichers of the table that had their first round."""
    made = []

    def _make(**settings: Any) -> Enricher:
        enricher = Enricher(settings.pop("lookup", table), settings.pop("budget", "4/s"), background=False, **settings)
        made.append(enricher)
        enricher.tick(START)
        return enricher

    yield _make
    for enricher in made:
        enricher.close()
