"""The budget of an enricher: a token bucket that nothing can overdraw, and the price that spends it well."""

import math
from dataclasses import dataclass, field

MISS_RESERVE = 0.05
"""The last part of the bucket is for keys that are not in the cache."""
RETRY_SHARE = 0.1
"""Keys that failed get at most this share of the budget, so that a thousand of them cost the others little."""
MIN_PRICE, MAX_PRICE = 1e-3, 20.0
MIN_BASE, MAX_BASE = 0.02, 5.0


@dataclass(eq=False)
class TokenBucket:
    """Cost units that may be spent now: they come in at a fixed rate and keep as long as the bucket has room."""

    rate: float
    """cost units per millisecond"""
    capacity: float
    level: float
    filled_at: float
    """the time up to which income is in the level, in ms"""
    spent: float = 0.0
    retries: float = 1.0
    """what may be spent on keys that failed"""

    def fill(self, now: float) -> float:
        """Pay in what is due; return it."""
        income = self.rate * max(0.0, now - self.filled_at)
        self.filled_at = max(now, self.filled_at)
        self.level = min(self.capacity, self.level + income)
        self.retries = min(max(1.0, RETRY_SHARE * self.capacity), self.retries + RETRY_SHARE * income)
        return income

    def take(self, cost: float, miss: bool = False) -> bool:
        """Spend `cost` if it is there; a refresh leaves the reserve for misses untouched."""
        if not self.affords(cost, miss):
            return False
        self.level -= cost
        self.spent += cost
        return True

    def affords(self, cost: float, miss: bool) -> bool:
        """Return whether `take` would succeed now."""
        reserve = 0.0 if miss else min(MISS_RESERVE * self.capacity, max(self.capacity - cost, 0.0))
        return self.level - cost >= reserve - 1e-9

    def give_back(self, cost: float) -> None:
        """Return what a request would have cost that was not sent."""
        self.level = min(self.capacity, self.level + cost)
        self.spent -= cost

    def wait(self, cost: float) -> float:
        """Return the milliseconds until a miss of this cost can be paid."""
        missing = cost - self.level
        return 0.0 if missing <= 0 else missing / self.rate

    def resize(self, rate: float, capacity: float) -> None:
        """Change income and capacity; what is in the bucket stays, as far as there is room."""
        self.rate, self.capacity = rate, capacity
        self.level = min(self.level, capacity)


@dataclass(eq=False)
class PriceController:
    """The price of a request in right reads: a steep function of the bucket's level around a base that drifts slowly.

    An empty bucket makes requests dear and a full one makes them cheap, so that all is spent where it is worth most,
    and nothing overflows as long as anything is worth a request. With a `target` the price follows the probability
    that answers are right instead, as far as the bucket allows.
    """

    steepness: float = 1.0
    drift: float = 0.2
    target: float | None = None
    base: float = 1.0
    target_price: float = MIN_PRICE
    price: float = field(init=False)

    def __post_init__(self) -> None:
        self.price = self.base

    def update(self, bucket: TokenBucket, income: float) -> float:
        """Return the price after so much income."""
        fill = bucket.level / bucket.capacity
        step = min(income / bucket.capacity, 1.0)
        self.base *= math.exp(self.drift * (0.5 - fill) * 2.0 * step)
        self.base = min(max(self.base, MIN_BASE), MAX_BASE)
        price = self.base * math.exp(self.steepness * (0.5 - fill) * 2.0)
        if self.target is not None:
            price = max(price, self.target_price)
        self.price = min(max(price, MIN_PRICE), MAX_PRICE)
        return self.price

    def answered(self, reads: float, believed: float) -> None:
        """Follow a target: `reads` answers were right with this probability on average."""
        if self.target is None or reads <= 0:
            return
        step = min(0.02 * reads, 1.0)
        self.target_price *= math.exp(step * (believed - self.target) * 4.0)
        self.target_price = min(max(self.target_price, MIN_PRICE), MAX_PRICE)
