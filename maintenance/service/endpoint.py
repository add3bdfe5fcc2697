"""The seam to a source: fetch SRs by key, or all that belongs to an SN; say what it cost and what failed.

An endpoint never raises for a key that fails: it says so in the result, and the request is paid for all the same.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from maintenance.view.changes import UNKNOWN

Key = Hashable


@dataclass(frozen=True)
class Price:
    """What a source charges, in cost units."""

    per_request: float = 1.0
    per_key: float = 0.0


@dataclass(frozen=True)
class Copy:
    """One SR as the source has it now; a copy without an error is good."""

    value: object = None
    modified: int = UNKNOWN
    expires: int = UNKNOWN
    error: str | None = None


@dataclass(frozen=True)
class Fetched:
    """What came of fetching some SRs: a copy for each key, in the order asked, and what it cost."""

    copies: Sequence[Copy]
    spent: float
    requests: int


@dataclass(frozen=True)
class Expanded:
    """What came of fetching an SN: its SRs with their copies; `error` where that failed."""

    copies: dict[Key, Copy] = field(default_factory=dict)
    spent: float = 0.0
    requests: int = 0
    error: str | None = None


class Endpoint(Protocol):
    """One source of background data."""

    price: Price

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        """The present copies of these SRs."""
        ...

    def expand(self, sn: Key, now: int) -> Expanded:
        """The SRs that belong to an SN, with their present copies."""
        ...
