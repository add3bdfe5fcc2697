"""The settings of an enricher, read and checked once."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias, get_args

from freshkeeper.maintenance.base.durations import to_ms
from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.fetching.rate_limiter import Limit, Rate

OnStale: TypeAlias = Literal["wait", "serve"]
OnMiss: TypeAlias = Literal["wait", "null", "error"]
Seconds: TypeAlias = float | timedelta | str
"""A duration: seconds, a timedelta, or text such as "500ms"."""

MIN_BANK_MS = 60_000.0
_RATE = re.compile(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*/\s*(\d{0,12})\s*([a-z]+)\s*", re.IGNORECASE | re.ASCII)


def milliseconds(name: str, duration: Seconds) -> float:
    """Return a duration in milliseconds; raise ConfigError if it is none or negative.

    >>> milliseconds("max_wait", 2.5), milliseconds("max_wait", "500ms")
    (2500.0, 500.0)
    """
    try:
        if isinstance(duration, timedelta):
            found = duration.total_seconds() * 1000
        elif isinstance(duration, str):
            found = float(to_ms(duration))
        else:
            found = float(duration) * 1000
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}={duration!r}: {error}") from None
    if not found >= 0:
        raise ConfigError(f"{name}={duration!r}: a duration is 0 seconds or longer")
    return found


@dataclass(frozen=True)
class BudgetRate:
    """Requests per time: "5/s", "0.5/s", "30/min", "20000/day"."""

    per_ms: float
    unit_ms: float

    @classmethod
    def of(cls, written: object) -> "BudgetRate":
        """Read a budget; raise ConfigError if it is none."""
        if not isinstance(written, str):
            raise ConfigError(f'budget={written!r}: how many requests in which period? Write budget="{written}/s"')
        found = _RATE.fullmatch(written)
        try:
            unit = float(to_ms(f"{found[2] or 1}{found[3]}")) if found else 0.0
        except ValueError:
            unit = 0.0
        if not found or not unit or not float(found[1]):
            raise ConfigError(f'budget={written!r} is no rate: write "5/s", "0.5/s", "30/min" or "20000/day"')
        return cls(float(found[1]) / unit, unit)


@dataclass(frozen=True, kw_only=True)
class EnricherSettings:
    """The settings by which an enricher spends its budget and answers its readers; made by `Enricher`."""

    budget: str
    bank: Seconds | None
    rate_limit: str | None
    target: float | None
    batch: int
    price: Price | None
    on_stale: OnStale
    on_miss: OnMiss
    max_wait: Seconds
    stale_if_error: bool
    capacity: int
    parallel: int
    audit: float

    def __post_init__(self) -> None:
        for name in ("batch", "capacity", "parallel"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}={value!r}: write a whole number from 1 on")
        _check_choice("on_stale", self.on_stale, get_args(OnStale))
        _check_choice("on_miss", self.on_miss, get_args(OnMiss))
        if not 0 <= self.audit < 1:
            raise ConfigError(f"audit={self.audit!r}: write a share of the budget from 0 up to 1")
        if self.target is not None and not 0 < self.target < 1:
            raise ConfigError(f"target={self.target!r}: write a share of right answers, such as 0.95")
        if self.price is not None and self.batch not in (1, self.price.batch):
            raise ConfigError(f"batch={self.batch} and a price for batches of {self.price.batch}: give one of them")
        self.rate, self.bank_ms, self.max_wait_ms  # noqa: B018  # wrong ones are refused here

    @property
    def rate(self) -> BudgetRate:
        """The budget."""
        return BudgetRate.of(self.budget)

    @property
    def bank_ms(self) -> float:
        """The time that unspent budget keeps, in ms (default: the budget's own unit, at least a minute)."""
        if self.bank is None:
            return max(self.rate.unit_ms, MIN_BANK_MS)
        return milliseconds("bank", self.bank)

    @property
    def max_wait_ms(self) -> float:
        """The longest time that a read waits, in ms."""
        return milliseconds("max_wait", self.max_wait)

    @property
    def pricing(self) -> Price:
        """The cost of requests (default: 1 each)."""
        return self.price or Price(batch=self.batch)

    @property
    def bucket_capacity(self) -> float:
        """The capacity of the bucket in cost units: the bank, and never less than one full request."""
        full_request = self.pricing.paid(1, self.pricing.batch)
        return max(self.rate.per_ms * self.bank_ms, full_request, 1e-9)

    def limits(self) -> list[Limit]:
        """Return the rate limit of the source, if there is one."""
        return [] if self.rate_limit is None else [Limit(Rate.of(self.rate_limit))]


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}={value!r}: {nearest(str(value), list(choices))}")
