"""An engine's side of a store: the shared bucket, rows to write, and what to do when the store is away."""

import logging
import math
from collections.abc import Hashable
from dataclasses import dataclass, field

from freshkeeper.maintenance.enricher.stored_row import StoredRow, StoreError
from freshkeeper.maintenance.enricher.stores import BucketRule, RowStore
from freshkeeper.maintenance.enricher.token_bucket import MISS_RESERVE, TokenBucket

LOGGER = logging.getLogger("freshkeeper")
SYNC_MS = 20.0
"""The level of a shared bucket is read at most so often."""
RETRY_MS = 5000.0
"""A store that failed is tried again after so long."""
MEMBERS_MS = 3000.0
MAX_DIRTY_ROWS = 500


@dataclass(eq=False)
class SharedState:
    """A store with its failures: no method raises, and while it is away rows and budget are this process's."""

    store: RowStore
    name: str
    processes: int = 1
    """how many share the store, as far as is known"""
    away_until: float = 0.0
    dirty: dict[Hashable, StoredRow] = field(default_factory=dict)

    def bucket(self, local: TokenBucket) -> "SharedBucket":
        """Return the shared bucket in the place of one of this process alone."""
        return SharedBucket(
            local.rate, local.capacity, local.level, local.filled_at, state=self, initial=local.level
        )  # fmt: skip

    def available(self, now: float) -> bool:
        """Return whether the store is to be asked."""
        return now >= self.away_until

    def load(self, key: Hashable, newer_than: float, now: float) -> StoredRow | None:
        """Return a newer copy that another process fetched."""
        if not self.available(now):
            return None
        try:
            return self.store.load(key, newer_than)
        except TypeError:  # a key that cannot be written cannot be there
            return None
        except StoreError as error:
            self.fail(error, now)
            return None

    def keep(self, key: Hashable, row: StoredRow, now: float) -> None:
        """Write a row soon."""
        self.dirty[key] = row
        if len(self.dirty) >= MAX_DIRTY_ROWS:
            self.flush(now)

    def flush(self, now: float) -> None:
        """Write the rows that are not written yet."""
        if not self.dirty or not self.available(now):
            return
        rows, self.dirty = self.dirty, {}
        try:
            self.store.save(rows.items())
        except StoreError as error:
            self.dirty = rows | self.dirty
            self.fail(error, now)
        except TypeError:
            self._save_one_by_one(rows, now)

    def remove(self, key: Hashable, now: float) -> None:
        """Drop a row everywhere."""
        self.dirty.pop(key, None)
        try:
            self.store.remove(key)
        except TypeError:
            return
        except StoreError as error:
            self.fail(error, now)

    def fail(self, error: StoreError, now: float) -> None:
        """Go on without the store for a while."""
        self.away_until = now + RETRY_MS
        LOGGER.warning(
            "%s: the store cannot be used (%s): for %d s this process goes on with its own rows and 1/%d of the budget",
            self.name, error, RETRY_MS // 1000, self.processes,
        )  # fmt: skip

    def _save_one_by_one(self, rows: dict[Hashable, StoredRow], now: float) -> None:
        refused: TypeError | None = None
        for key, row in rows.items():
            try:
                self.store.save([(key, row)])
            except TypeError as error:
                refused = error
            except StoreError as error:
                self.fail(error, now)
                return
        if refused is not None:
            LOGGER.warning("%s: some rows are not in the store: %s", self.name, refused)


@dataclass(eq=False)
class SharedBucket(TokenBucket):
    """A bucket that lives in a store; while that is away, a part of the budget as large as this process's share."""

    state: SharedState | None = None
    initial: float = 0.0
    _synced: float = float("-inf")
    _counted: float = float("-inf")

    def fill(self, now: float) -> float:
        """Read the level; return the income since it was last read."""
        state = self._state()
        if not state.available(now):
            self.rate, whole = self.rate / state.processes, self.rate
            try:
                return super().fill(now)
            finally:
                self.rate = whole
        if now - self._synced < SYNC_MS:
            return 0.0
        income = self.rate * max(0.0, now - self.filled_at)
        try:
            if now - self._counted > MEMBERS_MS:
                state.processes, self._counted = state.store.members(now), now
            self.level = state.store.level(self._rule())
        except StoreError as error:
            self._cut_off(error, now)
            return 0.0
        self._synced = self.filled_at = now
        self.retries = min(max(1.0, 0.1 * self.capacity), self.retries + 0.1 * income)
        return income

    def take(self, cost: float, miss: bool = False) -> bool:
        """Spend in one transaction of the store."""
        state, now = self._state(), self.filled_at
        if not state.available(now):
            return super().take(cost, miss)
        reserve = 0.0 if miss else min(MISS_RESERVE * self.capacity, max(self.capacity - cost, 0.0))
        try:
            taken = state.store.take(self._rule(), cost, reserve)
        except StoreError as error:
            self._cut_off(error, now)
            return super().take(cost, miss)
        if taken:
            self.level = max(0.0, self.level - cost)
            self.spent += cost
        else:
            self.level = min(self.level, max(cost - 1e-6, 0.0))
        return taken

    def give_back(self, cost: float) -> None:
        """Return the cost of a request that was not sent, to the store."""
        state = self._state()
        try:
            state.store.take(self._rule(), -cost, -math.inf)
        except StoreError as error:
            self._cut_off(error, self.filled_at)
        super().give_back(cost)

    def _cut_off(self, error: StoreError, now: float) -> None:
        """Go on with this process's share of what was last seen in the bucket."""
        state = self._state()
        state.fail(error, now)
        self.level /= state.processes
        self.filled_at = now

    def _rule(self) -> BucketRule:
        return BucketRule(self.rate, self.capacity, self.initial)

    def _state(self) -> SharedState:
        assert self.state is not None
        return self.state
