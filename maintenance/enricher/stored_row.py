"""Records that engines and stores exchange, and the error of a store that cannot be used."""

from typing import Any, NamedTuple

from freshkeeper.maintenance.base.errors import FreshkeeperError


class StoreError(FreshkeeperError):
    """The store cannot be reached, or refuses to work; it may again later."""


class StoredRow(NamedTuple):
    """A row with what was learned of it; times in ms since the epoch."""

    value: Any
    fetched: float
    doubt_from: float
    changes: float
    exposure: float
    reads: int
    since: float


class BucketRule(NamedTuple):
    """The income and the capacity of a shared bucket, in cost units."""

    rate: float
    """per millisecond"""
    capacity: float
    initial: float
    """what is in a bucket that does not exist yet"""


class LeaseRequest(NamedTuple):
    """The tokens that a process asks for, and those that it returns. Each process has one lease at a time."""

    least: float = 0.0
    """with less than this, the process wants nothing"""
    most: float = 0.0
    reserve: float = 0.0
    """what has to stay in the bucket"""
    unspent: float = 0.0
    """what is left of the last lease; negative: what was spent while the store could not be reached"""
    price: float | None = None
    """the base of the price as this process knows it, for processes that join"""


class Lease(NamedTuple):
    """Tokens that a process may spend until its lease ends, and the state of the bucket."""

    tokens: float
    level: float
    """what is left in the bucket"""
    rate: float
    capacity: float
    price: float | None
    """the base of the price as some process knew it last"""
    processes: int
    """how many processes use the bucket, as far as is known"""
