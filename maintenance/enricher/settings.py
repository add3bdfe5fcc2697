"""What can be said of an enricher, checked when it is said."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from freshkeeper.maintenance.base import durations
from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, exact
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.cache.view.published import Published
from freshkeeper.maintenance.enricher.lookup_source import Lookup
from freshkeeper.maintenance.enricher.reserve import Reserve, TargetReserve
from freshkeeper.maintenance.fetching.endpoint import Price
from freshkeeper.maintenance.fetching.rate import Rate
from freshkeeper.policies.base import Policy
from freshkeeper.policies.registry import make

Missing: TypeAlias = Literal["fetch", "wait", "without"]
AHEAD = 32
"""Into so many parts the horizon is cut for planning."""
UNTOLD = 600_000
"""The horizon in ms, until one is learned."""
SHORTEST_STEP = 1000
"""Milliseconds between rounds, where the budget pays for a request in each."""
KNOWLEDGE: dict[str, Callable[[], ChangeModel]] = {"learned": Learned, "published": Published}


@dataclass(eq=False)
class EnricherSettings:
    """How rows are looked up and kept fresh; durations are text ("10m", "500ms") or milliseconds."""

    lookup: Lookup
    """from a list of keys to a mapping of rows; what is not in it has no row"""
    budget: str
    """requests in a period: "5/s", "300/min", "20000/day\""""
    expand: Callable[[Any], Any] | None = None
    """from a key to its entries, where several keys share those: `get_entries(key)` has their rows"""
    target: float | None = None
    """the share of answers that is to be fresh, as 0.95: the budget is then the most that is paid for it"""
    batch: int = 1
    """how many keys a request may have"""
    horizon: str | int | None = None
    """for how long a key that was asked for counts as needed, and how far a refresh is to pay; None: as long as keys
    take to come again, which is learned, from 10 minutes"""
    step: str | int | None = None
    """time between rounds of maintenance; as a rule 1 s, or as long as it takes until a request is paid"""
    missing: Missing = "fetch"
    """of a key that is not there: fetch it within the reserve, wait for it, or answer without"""
    reserve: float = 0.5
    """the share of the budget that is kept for keys that are not there; what they leave goes to refreshes"""
    timeout: str | int = "10s"
    """for how long `get` waits at most"""
    capacity: int = 100_000
    """how many rows are held; the least asked for go first"""
    policy: str | Policy = "plan"
    """what to fetch again"""
    knowledge: str | ChangeModel = "learned"
    """of changes: learned from what refreshes show, or published by the source (`Copy(row, modified=, expires=)`)"""
    price: Price | None = None
    """what a request costs, where that is not 1"""
    parallel: int = 8
    """requests at the same time"""
    audit: float = 0.0
    """the share of the budget that measures how fresh the answers are"""
    state: str | Path | None = None
    """a directory in which rows, what is known of their changes and the budget survive a restart or a kill"""
    name: str = "rows"
    """what it is called in logs and metrics"""
    metrics: str | None = None
    """where Prometheus finds its numbers: ":9100" """
    background: bool = True
    """whether rounds come by the clock; without, `tick(now)` makes them"""
    clock: Callable[[], int] | None = None
    """milliseconds since the epoch, where it is not the machine's clock"""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be, at once."""
        if not callable(self.lookup):
            raise ConfigError(f"lookup is a function from keys to a mapping of rows, not {self.lookup!r}")
        for name in ("batch", "capacity", "parallel"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise ConfigError(f"{name} is a whole number from 1 on, not {value!r}")
        if self.missing not in get_args(Missing):
            raise ConfigError(f"missing={self.missing!r}: {nearest(str(self.missing), list(get_args(Missing)))}")
        for name in ("reserve", "audit"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is a share of the budget from 0 up to 1, not {getattr(self, name)!r}")
        if self.price is not None and self.batch not in (1, self.price.batch):
            raise ConfigError(f"batch={self.batch} and a price for batches of {self.price.batch}: say it once")
        self.ledger()
        self.window(0, self.first_horizon)

    def rate(self) -> Fraction:
        """The budget in cost units per millisecond."""
        if not isinstance(self.budget, str):
            raise ConfigError(f'budget={self.budget!r}: so many requests in which period? write "{self.budget}/s"')
        try:
            rate = Rate.of(self.budget)
        except ConfigError:
            raise ConfigError(f'budget={self.budget!r} is no budget: write "5/s", "300/min" or "20000/day"') from None
        return Fraction(rate.requests) / Fraction(str(rate.period)) / 1000

    @property
    def every(self) -> int:
        """Milliseconds between rounds: as said, or as long as the budget takes to pay for a request."""
        if self.step is not None:
            return duration("step", self.step)
        return max(SHORTEST_STEP, -(-self._request.numerator // self._request.denominator))

    @property
    def _request(self) -> Fraction:
        """Milliseconds until a full request is paid."""
        return exact(self.pricing.paid(1, self.pricing.batch), "a price") / self.rate()

    @property
    def pricing(self) -> Price:
        """What requests cost: as said, or one each, for a batch of keys."""
        return self.price or Price(batch=self.batch)

    def rule(self) -> BudgetRule:
        """γ of every round, and a bank that holds the reserve, or a request if that is more."""
        return BudgetRule.of(self.rate() * self.every, bank=self._reserved)

    def ledger(self) -> Reserve:
        """Of the rounds, with the reserve for misses."""
        reserve = self._reserved if self.reserve and self.missing != "without" else Fraction(0)
        if self.target is None:
            return Reserve.of(self.rule(), reserve)
        return TargetReserve.towards(self.target, self.rule(), share=reserve)

    @property
    def _reserved(self) -> Fraction:
        """Whole requests, so that nothing is left over that pays for none."""
        request = exact(self.pricing.paid(1, self.pricing.batch), "a price")
        share = exact(self.reserve) * self.rate() * self.every
        return max(1, math.ceil(share / request)) * request if request else share

    @property
    def first_horizon(self) -> int:
        """The one that is said, or until one is learned, in ms."""
        return UNTOLD if self.horizon is None else duration("horizon", self.horizon)

    def window(self, start: int, horizon: int) -> WindowSpec:
        """What was asked for within the horizon, planned ahead in parts of it; rounds come between its instants too."""
        return WindowSpec(horizon, max(1, -(-horizon // AHEAD)), start, grid=False)

    def planned(self) -> Policy:
        """The policy; what it looks ahead is the horizon."""
        if not isinstance(self.policy, str):
            return self.policy
        return make(self.policy, {"windows": 1} if self.policy in ("plan", "gain") else {})

    def believed(self) -> ChangeModel:
        """A model of changes that knows nothing yet."""
        if not isinstance(self.knowledge, str):
            return self.knowledge
        if self.knowledge not in KNOWLEDGE:
            raise ConfigError(f"knowledge={self.knowledge!r}: {nearest(self.knowledge, list(KNOWLEDGE))}")
        return KNOWLEDGE[self.knowledge]()

    def settings(self) -> dict[str, Any]:
        """The settings alone, to make another one of them."""
        return {field.name: getattr(self, field.name) for field in fields(EnricherSettings)}


def duration(name: str, written: str | int) -> int:
    """Milliseconds, of what was written."""
    return durations.duration(f"{name}={written!r}", str(written))


def is_asynchronous(lookup: Lookup) -> bool:
    """Whether it has to be awaited."""
    if getattr(lookup, "asynchronous", False):
        return True
    return inspect.iscoroutinefunction(lookup) or inspect.iscoroutinefunction(type(lookup).__call__)
