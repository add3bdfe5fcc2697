"""Stores keep rows and the budget beyond one process: the interface, and rows as they are stored.

A store is shared by the processes that use the same rows. It holds the bucket, so that all of them together never
spend more than the budget; the rows with what was learned of them, so that what one process fetched is a hit in the
others and after a restart; short claims, so that two processes do not fetch the same key at the same time; and a log
of the keys that were invalidated.
"""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from freshkeeper.maintenance.base.plain_values import tagged, untagged
from freshkeeper.maintenance.enricher.stored_row import BucketRule, Lease, LeaseRequest, StoredRow

LEASE_MS = 1000.0
"""A process may spend the tokens of a lease for so long; then they are gone, unless it returns them."""
MEMBER_MS = 10_000.0
"""A process that was not heard of for so long no longer counts."""
MAX_INVALIDATIONS = 10_000
"""The log of invalidated keys has about so many entries; a process that missed more keeps some rows for too long."""


class RowStore(Protocol):
    """Rows and the budget of one enricher, shared by several processes or kept over a restart.

    Methods raise StoreError if the store cannot be used now, and TypeError for a key or row that cannot be written.
    """

    def load(self, newer_than: Mapping[Hashable, float]) -> dict[Hashable, StoredRow]:
        """Return the rows among these keys that were fetched later than the time given for each."""
        ...

    def save(self, rows: Iterable[tuple[Hashable, StoredRow]]) -> None:
        """Write rows; an older copy never replaces a newer one, nor a row that was invalidated since."""
        ...

    def invalidate(self, keys: Sequence[Hashable], at: float) -> None:
        """Drop the rows that were fetched until then, and tell the other processes."""
        ...

    def invalidated(self) -> list[Hashable]:
        """Return the keys that other processes have invalidated since the last call."""
        ...

    def claim(self, newer_than: Mapping[Hashable, float], for_ms: float) -> list[Hashable]:
        """Claim keys for a fetch of this process; return those that no other process fetches, or has fetched since."""
        ...

    def release(self, keys: Sequence[Hashable]) -> None:
        """Give claims back."""
        ...

    def configure(self, rule: BucketRule) -> None:
        """Set income and capacity of the bucket, and make it if there is none."""
        ...

    def lease(self, request: LeaseRequest) -> Lease | None:
        """Take tokens out of the bucket, by the clock of the store; return None if there is no bucket (any more).

        Between `least` and `most` tokens are granted, or none. Tokens that are leased count as being in the bucket
        until they are spent or LEASE_MS are over, so that bucket and leases together never hold more than its capacity,
        and no more than capacity + rate · t is spent in any time t.
        """
        ...

    def after_fork(self) -> None:
        """Begin anew in a forked child."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


def grant(request: LeaseRequest, level: float, income: float, room: float) -> tuple[float, float]:
    """Return the tokens that a bucket grants, and what is left in it; stores that run no Python say the same."""
    level = min(room, level + income + request.unspent)
    free = level - request.reserve
    tokens = min(request.most, free) if request.most > 0 and free >= request.least - 1e-9 else 0.0
    return tokens, level - tokens


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
