"""An engine's side of a store: the shared bucket, rows to write, and what to do when the store is away."""

import logging
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.stored_row import BucketRule, Lease, LeaseRequest, StoredRow, StoreError
from freshkeeper.maintenance.enricher.stores import LEASE_MS, RowStore
from freshkeeper.maintenance.enricher.token_bucket import MISS_RESERVE, TokenBucket

LOGGER = logging.getLogger("freshkeeper")
SYNC_MS = 100.0
"""The level of a shared bucket and the log of invalidations are read at most so often."""
RETRY_MS = 5000.0
"""A store that failed is tried again after so long."""
MAX_DIRTY_ROWS = 500
MAX_SHARE = 0.5
"""A lease beyond the cost of one request is at most this part of what a process would get if all took the same."""
T = TypeVar("T")


@dataclass(eq=False)
class SharedState:
    """A store with its failures: no method raises, and while it is away rows and budget are this process's."""

    store: RowStore
    name: str
    now: Callable[[], float]
    processes: int = 1
    """how many share the store, as far as is known"""
    price: float | None = None
    """the base of the price: that of other processes at first, then this one's"""
    why_away: str | None = None
    away_until: float = 0.0
    dirty: dict[Hashable, StoredRow] = field(default_factory=dict)
    invalid: dict[Hashable, float] = field(default_factory=dict)
    """keys to invalidate when the store is back"""
    bucket: "SharedBucket" = field(init=False)
    _polled: float = float("-inf")

    def open_bucket(self, local: TokenBucket) -> "SharedBucket":
        """Return the shared bucket in the place of one of this process alone."""
        self.bucket = SharedBucket(local.rate, local.capacity, local.level, local.filled_at, state=self)
        self.bucket.open()
        return self.bucket

    def after_fork(self) -> None:
        """Begin anew in a forked child: the lease is the parent's."""
        self.store.after_fork()
        self.bucket.after_fork()

    def invalidated(self) -> list[Hashable]:
        """Return the keys that other processes have invalidated of late."""
        now = self.now()
        if now - self._polled < SYNC_MS:
            return []
        self._polled = now
        return self.attempt(self.store.invalidated, [])

    def close(self) -> None:
        """Write what is not written yet, and use the store no more."""
        self.flush()
        self.away_until = math.inf
        self.store.close()

    def available(self) -> bool:
        """Return whether the store is to be asked."""
        return not self.away_until or self.now() >= self.away_until

    def attempt(self, call: Callable[[], T], otherwise: T) -> T:
        """Return what a call of the store returns; if the store cannot be used, go on without it for a while."""
        if not self.available():
            return otherwise
        try:
            found = call()
        except StoreError as error:
            self.why_away = str(error)
            self.away_until = self.now() + RETRY_MS
            LOGGER.warning(
                "%s: the store cannot be used (%s): for %d s this process goes on with its own rows and 1/%d of the "
                "budget", self.name, error, RETRY_MS // 1000, self.processes,
            )  # fmt: skip
            return otherwise
        if self.away_until:
            self.away_until, self.why_away = 0.0, None
            LOGGER.warning("%s: the store can be used again", self.name)
        return found

    def load(self, newer_than: Mapping[Hashable, float]) -> dict[Hashable, StoredRow]:
        """Return newer copies that other processes have fetched."""
        try:
            return self.attempt(lambda: self.store.load(newer_than), {})
        except TypeError:  # a key that cannot be written cannot be there
            if len(newer_than) == 1:
                return {}
            return {key: row for one in newer_than for key, row in self.load({one: newer_than[one]}).items()}

    def keep(self, key: Hashable, row: StoredRow) -> None:
        """Write a row soon."""
        self.dirty[key] = row
        if len(self.dirty) >= MAX_DIRTY_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is not written yet."""
        if self.invalid:
            invalid, self.invalid = self.invalid, {}
            for key, at in invalid.items():
                self.invalidate(key, at)
        if not self.dirty or not self.available():
            return
        rows, self.dirty = self.dirty, {}
        try:
            self.attempt(lambda: self.store.save(rows.items()), None)
        except TypeError:
            self._save_one_by_one(rows)
        if self.away_until:
            self.dirty = dict(list((rows | self.dirty).items())[-MAX_DIRTY_ROWS:])

    def invalidate(self, key: Hashable, at: float) -> None:
        """Drop a row everywhere, now or when the store is back."""
        self.dirty.pop(key, None)
        self.invalid[key] = at
        try:
            self.attempt(lambda: self.store.invalidate([key], at), None)
        except TypeError:  # a key that cannot be written was never there
            del self.invalid[key]
        if self.available():
            self.invalid.pop(key, None)

    def claim(self, newer_than: Mapping[Hashable, float], for_ms: float) -> Sequence[Hashable]:
        """Return the keys that no other process fetches or has fetched; the store keeps them for this one."""
        try:
            return self.attempt(lambda: self.store.claim(newer_than, for_ms), list(newer_than))
        except TypeError:
            return list(newer_than)

    def release(self, keys: Sequence[Hashable]) -> None:
        """Let other processes fetch these keys."""
        try:
            self.attempt(lambda: self.store.release(keys), None)
        except TypeError:
            return

    def _save_one_by_one(self, rows: dict[Hashable, StoredRow]) -> None:
        refused: TypeError | None = None
        for key, row in rows.items():
            try:
                self.attempt(lambda key=key, row=row: self.store.save([(key, row)]), None)  # type: ignore[misc]
            except TypeError as error:
                refused = error
        if refused is not None:
            LOGGER.warning("%s: some rows are not in the store: %s", self.name, refused)


@dataclass(eq=False)
class SharedBucket(TokenBucket):
    """A bucket in a store, of which this process holds a lease; while the store is away, its share of the income."""

    state: SharedState = field(kw_only=True)
    leased: float = 0.0
    """tokens of the lease that are left; negative: a debt, for what was spent while the store was away"""
    _lease_ends: float = 0.0
    _synced: float = float("-inf")
    _pace: float = 0.0
    """cost units that this process spends per ms, of late"""
    _paced: tuple[float, float] = (0.0, 0.0)
    """when the pace was measured, and what had been spent by then"""
    _away: bool = False

    def open(self) -> None:
        """Begin to share the bucket; a store that is away now may have any number of users, so it is an error."""
        try:
            self.state.store.configure(BucketRule(self.rate, self.capacity, self.level))
        except StoreError as error:
            raise ConfigError(f"store: {error}") from error
        self._renew(0.0, 0.0, 0.0)

    def fill(self, now: float) -> float:
        """Read the level; return the income since it was last read."""
        if not self.state.available():
            return self._fill_alone(now)
        if now - self._synced < SYNC_MS and not self._away:
            return 0.0
        income = self.rate * max(0.0, now - self.filled_at)
        if self._renew(0.0, self.leased, 0.0) is None:
            return self._fill_alone(now)
        self.filled_at = now
        self.retries = min(max(1.0, 0.1 * self.capacity), self.retries + 0.1 * income)
        return income

    def take(self, cost: float, miss: bool = False) -> bool:
        """Spend from the lease; where it is not enough, lease more."""
        now = self.state.now()
        reserve = 0.0 if miss else min(MISS_RESERVE * self.capacity, max(self.capacity - cost, 0.0))
        held = now < self._lease_ends and cost <= self.leased and self.level >= reserve
        if not held and self.state.available():
            share = MAX_SHARE * self.level / self.state.processes
            lease = self._renew(cost, max(cost, min(self._pace * LEASE_MS, share)), reserve)
            held = lease is not None and cost <= self.leased + 1e-9
            if not held and lease is not None:
                return False
        if not held:
            held = super().take(cost, miss)
            self.leased -= cost if held else 0.0
            return held
        self.leased -= cost
        self.spent += cost
        return True

    def affords(self, cost: float, miss: bool) -> bool:
        return super().affords(cost if self._away else cost - self.leased, miss)

    def wait(self, cost: float) -> float:
        if self._away:
            return super().wait(cost) * self.state.processes
        return super().wait(cost - self.leased)

    def give_back(self, cost: float) -> None:
        self.leased += cost
        self.spent -= cost
        if self._away:
            self.level += cost

    def resize(self, rate: float, capacity: float) -> None:
        super().resize(rate, capacity)
        self.state.attempt(lambda: self.state.store.configure(BucketRule(rate, capacity, 0.0)), None)

    def after_fork(self) -> None:
        """Begin without the parent's lease."""
        self.leased = self._lease_ends = 0.0
        self._synced = float("-inf")

    def _renew(self, least: float, most: float, reserve: float) -> Lease | None:
        """Return what is left of the lease, and take another one."""
        now = self.state.now()
        if now - self._paced[0] > SYNC_MS:
            pace = (self.spent - self._paced[1]) / (now - self._paced[0])
            self._pace += 0.5 * (pace - self._pace)
            self._paced = now, self.spent
        request = LeaseRequest(least, most, reserve, self.leased, self.state.price)
        lease = self.state.attempt(lambda: self.state.store.lease(request), None)
        if lease is None and self.state.available():
            # The store has lost the bucket. A new one begins empty, for what was in the old one may have been spent.
            self.leased = 0.0
            rule = BucketRule(self.rate, self.capacity, 0.0)
            self.state.attempt(lambda: self.state.store.configure(rule), None)
            lease = self.state.attempt(lambda: self.state.store.lease(request._replace(unspent=0.0)), None)
        if lease is None:
            self._cut_off(now)
            return None
        self._away = False
        self._synced, self._lease_ends = now, now + LEASE_MS
        self.leased, self.level = lease.tokens, lease.level
        self.rate, self.capacity = lease.rate, lease.capacity
        self.state.processes = lease.processes
        if self.state.price is None:
            self.state.price = lease.price
        return lease

    def _cut_off(self, now: float) -> None:
        """Go on with the lease and this process's share of the income; its spending is settled later."""
        if not self._away:
            self._away = True
            # Other processes may still reach the store, and spend what was seen in the bucket.
            self.level = self.level if self.state.processes == 1 else 0.0
            if now < self._lease_ends:
                self.level += self.leased
            self.filled_at = now

    def _fill_alone(self, now: float) -> float:
        self._cut_off(now)
        rate = self.rate
        self.rate = rate / self.state.processes
        try:
            return super().fill(now)
        finally:
            self.rate = rate
