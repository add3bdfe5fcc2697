"""Reads and requests of an enricher, as they are handed from one part to the other."""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from freshkeeper.maintenance.enricher.row import CachedRow
from freshkeeper.maintenance.fetching.endpoint import Copy


@dataclass(frozen=True)
class ReadOptions:
    """Demands of one read beyond the cache's own rule."""

    max_age: float | None = None
    """milliseconds"""
    min_freshness: float | None = None
    waits: bool = True
    """whether the reader waits for a fetch"""


@dataclass(eq=False)
class Flight:
    """A key that is being fetched, or waits for its turn."""

    key: Hashable
    is_miss: bool
    future: "Future[CachedRow[Any]]" = field(default_factory=Future)
    sent: bool = False
    cancelled: bool = False
    waiters: int = 0
    elsewhere_until: float = 0.0
    """until when another process may take to fetch the key"""
    invalidated: bool = False
    """whether the row was invalidated since the request was sent, so that its reply may be too old"""
    hinted_at: float | None = None
    """when the row may have changed since the request was sent, as a hint says"""


Outcomes = dict[Hashable, Copy]


class Reply(NamedTuple):
    """The outcome of a request for each of its keys."""

    outcomes: Outcomes
    refused: bool = False
    """whether the source wants no request for now: no key is to blame, and all may be asked for again"""
    cost: float | None = None
    """what the request cost, where that is not its price"""
    unchanged: bool = False
    """whether the source said that nothing has changed, and did not send the rows again"""


class Sender(Protocol):
    """Sends requests to the source; the engine gives it one after the other, as the budget allows."""

    can_wait: bool
    """whether requests may wait for the budget; if not, a key that cannot be sent at once has an error"""

    def ready(self) -> bool:
        """Return whether the source takes a request now: free workers, rate limit, circuit breaker."""
        ...

    def wait(self) -> float:
        """Return after how many milliseconds to try again, where the source takes no request now."""
        ...

    def why_not(self) -> str:
        """Return in words why the source takes no request now."""
        ...

    def send(self, keys: Sequence[Hashable], done: Callable[[Reply], None], proven: bool) -> None:
        """Send one request and call `done` with its reply, now or later, from any thread.

        `proven` keys were answered before: if they fail, the source is to blame, and not the keys.
        """
        ...

    def wake(self, after: float) -> None:
        """Call the engine's `pump` after so many milliseconds: requests wait for the budget or for company."""
        ...
