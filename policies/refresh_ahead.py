"""`refresh-ahead`: a cache that renews what is in use before anybody has to wait; a baseline that sets no budget."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from freshkeeper.maintenance.base.arrays import Ints
from freshkeeper.policies.base import NEVER, Budget, Round, Scope, Selection
from freshkeeper.policies.lru import age
from freshkeeper.policies.ttl import Ttl, oldest_first


@dataclass
class _Reads:
    """The evaluation at which each entry was last in a window."""

    last: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def note(self, round: Round) -> Ints:
        """Note that the entries of this round are read; return the time of the last read of each."""
        lacking = round.srs - self.last.size
        if lacking > 0:
            self.last = np.append(self.last, np.full(lacking, NEVER))
        self.last[np.flatnonzero(round.candidates)] = round.now
        return self.last[: round.srs]


@dataclass(frozen=True)
class RefreshAhead(Ttl):
    """Every copy that is `ttl_ms` old and was read since it was fetched, also where nothing in the window needs it now.

    What nobody has read since its last fetch is let go, and fetched when it is read again, as `ttl` does. It spares
    readers the wait and costs what was renewed in vain; in a world where fetching takes no time it is no fresher.
    """

    name: ClassVar[str] = "refresh-ahead"
    scope: ClassVar[Scope] = Scope.ALL
    _reads: _Reads = field(default_factory=_Reads, init=False, repr=False, compare=False)

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        del budget, rng
        old, fetched = age(round), round.last_refresh
        in_use = (self._reads.note(round) > fetched) & (fetched != NEVER)
        return oldest_first(np.flatnonzero((round.candidates | in_use) & (old >= self.ttl_ms)), old, "renewed ahead")

    def state(self) -> dict[str, Ints]:
        """Return when each slot of the view was read last."""
        return {"read_at": self._reads.last}

    def restore(self, state: dict[str, Ints]) -> None:
        """Go on with the reads before a restart."""
        self._reads.last = state["read_at"]
