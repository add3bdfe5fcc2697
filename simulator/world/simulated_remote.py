"""The remote of the simulated world: background data that changes on its own, as a source that answers when asked.

A value is the time of its last change, so two copies are equal exactly where nothing changed between them. Changes
need no events of their own: nobody can see a change before looking, so the data is brought up to date when it is read.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.cache.view.schedule import BEFORE
from freshkeeper.maintenance.fetching.dispatcher import LIMITER_PATIENCE_S
from freshkeeper.maintenance.fetching.endpoint import Copy, Expanded, Fetched, Key, Price
from freshkeeper.maintenance.fetching.function_source import FunctionSource
from freshkeeper.maintenance.fetching.key_fetcher import KeyFetcher
from freshkeeper.policies.base import Graph
from freshkeeper.simulator.world.truth import Schedule


@dataclass(eq=False)
class SimulatedRemote:
    """A simulated source with one request per key.

    `tells_modified` and `tells_expiry` make it publish dates, for knowledge: published.
    """

    schedule: Schedule
    graph: Graph
    tells_modified: bool = False
    tells_expiry: bool = False
    price: Price = field(default_factory=Price)
    requests: int = 0
    _read_at: int | None = None
    _versions: Ints | None = None
    _expiries: Ints | None = None

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        """Return the versions of these SRs at `now`."""
        self.requests += len(keys)
        return Fetched(self._copies(keys, now), len(keys) * self.price.of(1), len(keys))

    def expand(self, sn: Key, now: int) -> Expanded:
        """Return the SRs that an SN needs, with their versions."""
        self.requests += 1
        assert isinstance(sn, int)
        keys = self.graph.inputs(sn).tolist()
        copies = dict(zip(keys, self._copies(keys, now), strict=True))
        return Expanded(copies, self.price.of(1), 1)

    def _copies(self, keys: Sequence[Key], now: int) -> list[Copy]:
        if self._read_at != now or self._versions is None:
            self._read_at, self._versions = now, self.schedule.last_change(now)
            self._expiries = self.schedule.next_change(now) if self.tells_expiry else None
        numbers = np.array(keys, dtype=np.int64)
        values: list[int] = self._versions[numbers].tolist()
        dates = [value if value > BEFORE else UNKNOWN for value in values]
        modified = dates if self.tells_modified else [UNKNOWN] * len(values)
        expires = [UNKNOWN] * len(values) if self._expiries is None else self._expiries[numbers].tolist()
        return [Copy(*copy) for copy in zip(values, modified, expires, strict=True)]


@dataclass(eq=False)
class RequestPace:
    """The pace of requests to the remote, as production's dispatcher has it: a rate limit, and a number at once.

    Of a rate r at most ⌊r⌋ requests start in any stretch of ⌊r⌋/r seconds; below 1, one in any 1/r seconds.
    """

    requests_per_second: float | None = None
    concurrency: int | None = None
    busy: int = 0
    """requests under way"""
    _started: deque[float] = field(init=False)
    """the last ones that count, in ms"""

    def __post_init__(self) -> None:
        rate = self.requests_per_second or 1.0
        self._most = max(1, int(rate))
        self._period = 1000 * self._most / rate
        self._started = deque(maxlen=self._most)

    def room(self, now: int) -> float:
        """Return the number of requests that may start within a dispatcher's patience."""
        if self.concurrency is not None and self.busy >= self.concurrency:
            return 0
        if self.requests_per_second is None:
            return float("inf")
        since = now + 1000 * LIMITER_PATIENCE_S - self._period
        return self._most - sum(start > since for start in self._started)

    def wait(self, now: float) -> float:
        """Return in how many ms the next request may start; infinity beyond a dispatcher's patience."""
        if self.requests_per_second is None or len(self._started) < self._most:
            return 0.0
        wait = max(0.0, self._started[0] + self._period - now)
        return wait if wait <= 1000 * LIMITER_PATIENCE_S else float("inf")

    def start(self, at: float) -> None:
        """Record the start of a request, now or in the future."""
        self._started.append(at)


def paced_fetcher(remote: SimulatedRemote, pace: RequestPace) -> KeyFetcher[FunctionSource]:
    """Return a fetcher that sends a request for each key, as fast as the pace allows."""
    price = remote.price
    source = FunctionSource(remote.fetch, remote.expand)
    return KeyFetcher(source, price, room=lambda now: pace.room(now) * price.key_price)
