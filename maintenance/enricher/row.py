"""Rows, as lookups return them and as enrichers give them to readers."""

import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.endpoint import Copy

if TYPE_CHECKING:
    # A default lets type checkers take `Enricher(lambda keys: ...)` as an enricher of anything.
    from typing_extensions import TypeVar as DefaultTypeVar

    K = DefaultTypeVar("K", bound=Hashable, default=Any)
    V = DefaultTypeVar("V", default=Any)
else:
    K, V = TypeVar("K", bound=Hashable), TypeVar("V")


class RowError(FreshkeeperError):
    """Raised where nothing is known of a key; the message says why.

    >>> from freshkeeper import CachedRow, RowError
    >>> try:
    ...     CachedRow.failed("the source is down").require()
    ... except RowError as error:
    ...     print(error)
    the source is down
    """


class CachedRow(NamedTuple, Generic[V]):
    """The row of a key, how likely it still is what the source has, and how old it is.

    >>> from freshkeeper import CachedRow
    >>> CachedRow({"name": "pen"}, freshness=0.98, age=1.5, hit=True).value["name"]
    'pen'
    """

    value: V
    """what the lookup returned; None where the source has no such key, or where nothing is known (freshness 0)"""
    freshness: float
    """the probability that the source still has this; 0 where nothing is known"""
    age: float | None
    """seconds since it was fetched; None where nothing is known"""
    hit: bool
    """whether it was in the cache"""
    error: str | None = None
    """why nothing is known, or why an old row could not be fetched again"""

    @classmethod
    def failed(cls, error: str) -> "CachedRow[Any]":
        """Return the row of a key of which nothing is known."""
        return CachedRow(None, 0.0, None, False, error)

    def require(self) -> V:
        """Return the value, or raise RowError with the reason if nothing is known.

        >>> from freshkeeper import CachedRow
        >>> CachedRow({"name": "pen"}, freshness=1.0, age=0.0, hit=False).require()
        {'name': 'pen'}
        """
        if self.age is None:
            raise RowError(self.error or "nothing is known of this key")
        return self.value


def again(row: CachedRow[V]) -> CachedRow[V]:
    """Return a row that was just fetched as a later read of the same batch gets it."""
    return row if row.hit or row.error is not None else row._replace(hit=True)


@dataclass(frozen=True)
class Row(Generic[V]):
    """A row with what the source says of its validity, for lookups to return.

    >>> from freshkeeper import Row
    >>> Row({"price": 2}, modified=1_700_000_000_000).value
    {'price': 2}
    """

    value: V
    modified: int | datetime | None = None
    """when the row last changed: a datetime, or milliseconds since the epoch"""
    expires: int | datetime | None = None
    """until when the source promises that the row holds"""

    def as_copy(self) -> Copy:
        """Return the row as sources tell it."""
        return Copy(self.value, epoch_ms(self.modified), epoch_ms(self.expires))


def epoch_ms(time: float | datetime | None) -> int:
    """Return milliseconds since the epoch; a datetime without a time zone is in UTC, None is unknown."""
    if isinstance(time, datetime):
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return math.floor(aware.timestamp() * 1000)
    return UNKNOWN if time is None else int(time)


def fingerprint(value: object) -> int:
    """Return a number up to 255 that is the same for equal rows, taken when a row is fetched.

    Rows are compared by it, so that a row that its user has changed in place does not count as changed at the source,
    and a row whose comparison fails (arrays of numpy) can be compared. Only what is learned depends on it: one change
    in 256 counts as none. Python has integers of this size once and for all, larger ones take 32 bytes a row.
    """
    digest = hashlib.blake2b(digest_size=1)
    try:
        _feed(digest.update, value, 0)
    except Exception as error:  # a row that cannot be read counts as unchanged for as long as it fails alike
        digest.update(repr(type(error)).encode())
    return digest.digest()[0]


MAX_DEPTH = 50


def _feed(update: Any, value: object, depth: int) -> None:
    """Hash a value; equal dicts in another order and equal sets are alike, 1 and 1.0 too, as == says."""
    if depth > MAX_DEPTH:
        update(b"...")
    elif isinstance(value, str):
        update(b"s" + value.encode("utf-8", "surrogatepass") + b"\0")
    elif isinstance(value, bool | int | float | complex):
        update(b"n" + repr(hash(value)).encode() + b"\0")
    elif isinstance(value, bytes | bytearray | memoryview):
        update(b"b" + bytes(value) + b"\0")
    elif isinstance(value, Mapping):
        update(b"{")
        for key in sorted(value, key=repr):
            _feed(update, key, depth + 1)
            _feed(update, value[key], depth + 1)
        update(b"}")
    elif isinstance(value, Set):
        update(b"<" + b",".join(sorted(repr(part).encode("utf-8", "surrogatepass") for part in value)) + b">")
    elif isinstance(value, Sequence):
        update(b"[")
        for part in value:
            _feed(update, part, depth + 1)
        update(b"]")
    elif hasattr(value, "tobytes") and hasattr(value, "shape"):
        array: Any = value
        update(b"a" + repr((array.shape, str(getattr(array, "dtype", "")))).encode() + array.tobytes())
    else:
        _feed_object(update, value, depth)


def _feed_object(update: Any, value: object, depth: int) -> None:
    fields = getattr(value, "__dict__", None)
    update(b"o" + type(value).__qualname__.encode() + b"\0")
    if fields:
        _feed(update, fields, depth + 1)
    else:
        update(repr(value).encode("utf-8", "surrogatepass") + b"\0")
