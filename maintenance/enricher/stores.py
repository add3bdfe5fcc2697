"""Stores keep rows and the budget beyond one process: the interface, and rows as they are stored.

A store is shared by the processes that use the same rows. It holds the bucket, so that all of them together never
spend more than the budget; the rows with what was learned of them, so that what one process fetched is a hit in the
others and after a restart; and short claims, so that two processes do not fetch the same key at the same time.
"""

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from freshkeeper.maintenance.base.plain_values import tagged, untagged
from freshkeeper.maintenance.enricher.stored_row import StoredRow


@dataclass(frozen=True)
class BucketRule:
    """The income and the capacity of a shared bucket, in cost units."""

    rate: float
    """per millisecond"""
    capacity: float
    initial: float


class RowStore(Protocol):
    """Rows and the budget of one enricher, shared by several processes or kept over a restart."""

    def load(self, key: Hashable, newer_than: float) -> StoredRow | None:
        """Return a row that was fetched later than that, if there is one."""
        ...

    def save(self, rows: Iterable[tuple[Hashable, StoredRow]]) -> None:
        """Write rows; an older copy never replaces a newer one."""
        ...

    def remove(self, key: Hashable) -> None:
        """Drop a row."""
        ...

    def claim(self, keys: Sequence[Hashable], until: float, now: float) -> list[Hashable]:
        """Claim keys for a fetch of this process; return those that no other process is fetching."""
        ...

    def release(self, keys: Sequence[Hashable]) -> None:
        """Give claims back."""
        ...

    def level(self, rule: BucketRule) -> float:
        """Return what is in the bucket now, by the clock of the store."""
        ...

    def take(self, rule: BucketRule, cost: float, reserve: float) -> bool:
        """Take `cost` out of the bucket if at least `reserve` stays in it."""
        ...

    def members(self, now: float) -> int:
        """Note that this process is there; return how many are."""
        ...

    def after_fork(self) -> None:
        """Begin anew in a forked child."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


def encode(value: object) -> str:
    """Return a key or a row as JSON; raise TypeError for a value that is not plain."""
    return json.dumps(_tagged(value), separators=(",", ":"), allow_nan=True)


def decode(text: str) -> Any:
    """Return the value that was encoded."""
    return _untagged(json.loads(text))


def _tagged(value: object) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_tagged(part) for part in value]}
    found = tagged(value, _tagged)
    if found is None:
        raise TypeError(
            f"a store keeps text, numbers, dates, bytes, lists, tuples and dicts, not {type(value).__name__}"
        )
    return found


def _untagged(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_untagged(part) for part in value["tuple"])
    return untagged(value, _untagged)
