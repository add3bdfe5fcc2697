"""The remote of the simulated world: background data that changes on its own, as a source that answers when asked.

A value is the time of its last change, so two copies are equal exactly where nothing changed between them. Changes
need no events of their own: nobody can see a change before looking, so the data is brought up to date when it is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from maintenance.service.endpoint import Copy, Expanded, Fetched, Key, Price
from maintenance.view.changes import UNKNOWN
from maintenance.view.schedule import BEFORE
from policies.arrays import Ints
from policies.base import Graph
from simulator.truth import Schedule


@dataclass(eq=False)
class Remote:
    """One request per key. `tells_modified` and `tells_expiry` are what a source of published knowledge tells."""

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
        """The versions of these SRs at `now`."""
        self.requests += len(keys)
        cost = len(keys) * (self.price.per_request + self.price.per_key)
        return Fetched(self._copies(keys, now), cost, len(keys))

    def expand(self, sn: Key, now: int) -> Expanded:
        """The SRs that an SN needs, with their versions."""
        self.requests += 1
        assert isinstance(sn, int)
        keys = self.graph.inputs(sn).tolist()
        copies = dict(zip(keys, self._copies(keys, now), strict=True))
        return Expanded(copies, self.price.per_request + self.price.per_key, 1)

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
