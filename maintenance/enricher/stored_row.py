"""Rows as stores keep them, and the error of a store that cannot be used."""

from typing import Any, NamedTuple

from freshkeeper.maintenance.base.errors import FreshkeeperError


class StoreError(FreshkeeperError):
    """The store cannot be reached, or refuses to work; it may again later."""


class StoredRow(NamedTuple):
    """A row with what was learned of it; times in ms since the epoch."""

    value: Any
    fetched: float
    doubt_from: float
    changes: int
    exposure: float
    reads: int
    since: float
