"""An Enricher played on a log of reads by the log's own clock, and the least budget that keeps a target."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, floor, log, log10

from freshkeeper.maintenance.base.durations import to_ms
from freshkeeper.maintenance.enricher.enricher import Enricher
from freshkeeper.maintenance.enricher.settings import OnStale
from freshkeeper.simulator.budget.plain_caches import staleness_log
from freshkeeper.simulator.budget.read_log import ReadLog
from freshkeeper.simulator.budget.sheet import PERIODS

BANKS_PER_LOG = 7.5
"""Unspent budget keeps for at most this part of the log, so that the log shows what a budget does in the long run."""
BANKS = ("1s", "2s", "5s", "10s", "30s", "1m", "2m", "5m", "10m", "30m", "1h", "3h", "6h", "12h", "1d")
SAME_LEVEL = 0.03
"""The bucket begins as full as it ends, up to this part of it: a budget that lives on savings is none."""
MAX_REPEATS = 3
CLOSE = 1.01
"""The search ends when a budget is enough and one this much smaller is not."""
MAX_TRIES = 12
EXCESS = 0.002
"""A budget that keeps the target by no more than this is not searched below."""
DEFAULT_CAPACITY = 100_000
CHUNK = 20_000
"""Reads between two calls that report progress."""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class EnricherRun:
    """The counts of an Enricher with a budget on a log."""

    budget: float
    """requests a millisecond"""
    requests: int
    right: int
    waited: int
    missing: int
    """reads of keys that were not there, and for which the budget had nothing left"""
    reads: int
    level: float
    """how full the bucket was in the end, as a share"""

    @property
    def fresh(self) -> float:
        """The part of the reads that an Enricher answered rightly."""
        return self.right / self.reads


@dataclass(eq=False)
class EnricherRuns:
    """Runs of an Enricher on one log; each budget is played once."""

    log: ReadLog
    per: str = "day"
    on_stale: OnStale = "wait"
    progress: Callable[[int, float], None] | None = None
    """is called with the number of runs before, and the share of this one that is done"""
    finished: int = 0
    _runs: dict[str, EnricherRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        longest = self.log.span / BANKS_PER_LOG
        self.bank = next((bank for bank in reversed(BANKS) if to_ms(bank) <= longest), BANKS[0])
        self.capacity = max(DEFAULT_CAPACITY, round(_rounded_up(len(set(self.log.keys)))))

    def line(self, run: EnricherRun) -> str:
        """Return the line of Python that makes the Enricher of a run."""
        words = [f'budget="{self.rate(run.budget)}"', f'bank="{self.bank}"']
        if self.on_stale != "wait":
            words.append(f'on_stale="{self.on_stale}"')
        if self.capacity != DEFAULT_CAPACITY:
            words.append(f"capacity={self.capacity:_}")
        return f"Enricher(lookup, {', '.join(words)})"

    def rate(self, budget: float) -> str:
        """Write a budget (requests a ms) as an Enricher takes it, rounded up to three digits."""
        return f"{_rounded_up(budget * PERIODS[self.per]):.15g}/{self.per}"

    def run(self, budget: float, level: float = 0.5) -> EnricherRun:
        """Play an Enricher with a budget whose bucket begins as full as it ends."""
        rate = self.rate(budget)
        if rate not in self._runs:
            for _ in range(MAX_REPEATS):
                found = self._play(rate, level)
                if abs(found.level - level) <= SAME_LEVEL:
                    break
                level = found.level
            self._runs[rate] = found
        return self._runs[rate]

    def all_runs(self) -> list[EnricherRun]:
        """Return all runs so far, by their requests."""
        return sorted(self._runs.values(), key=lambda run: run.requests)

    def least(self, target: float, guess: float) -> EnricherRun | None:
        """Find the least budget that keeps the target, from a guess on; None if no budget does."""
        low: EnricherRun | None = None
        high: EnricherRun | None = None
        most = 40 * len(self.log.times) / self.log.span
        budget = min(guess, most)
        for _ in range(MAX_TRIES):
            near = high or low
            run = self.run(budget, near.level if near else 0.5)
            if run.fresh >= target:
                high = run
            else:
                low = run
            if high is None:
                if budget >= most or (near is not None and run.requests < 1.01 * near.requests):
                    return None
                budget = min(budget * 1.6, most)
            elif high.fresh < target + EXCESS or (low is not None and high.budget <= CLOSE * low.budget):
                break
            elif low is None:
                budget = high.budget / 1.6
            else:
                budget = _between(low, high, target)
        return high

    def _play(self, rate: str, level: float) -> EnricherRun:
        log, clock = self.log, [self.log.times[0]]
        requests = 0

        def lookup(keys: list[str]) -> dict[str, int]:
            nonlocal requests
            requests += 1
            now = clock[0]
            return {key: log.version(key, now) for key in keys}

        enricher: Enricher[str, int] = Enricher(
            lookup,
            rate,
            bank=self.bank,
            on_stale=self.on_stale,
            capacity=self.capacity,
            background=False,
            clock=lambda: clock[0],
        )
        bucket = enricher._engine.bucket
        bucket.level = level * bucket.capacity
        right = missing = 0
        get, reads = enricher.get, len(log.times)
        for done, (now, key, version) in enumerate(zip(log.times, log.keys, log.versions, strict=True), 1):
            clock[0] = now
            row = get(key)
            if row.value == version:
                right += 1
            elif row.age is None:
                missing += 1
            if not done % CHUNK and self.progress is not None:
                self.progress(self.finished, done / reads)
        stats = enricher.stats()
        self.finished += 1
        return EnricherRun(
            budget=enricher.settings.rate.per_ms,
            requests=requests,
            right=right,
            # With requests in the reading thread each of them is waited for, unless the old row is served.
            waited=requests if self.on_stale == "wait" else stats.misses,
            missing=missing,
            reads=reads,
            level=bucket.level / bucket.capacity,
        )


def _between(low: EnricherRun, high: EnricherRun, target: float) -> float:
    """Return the next budget: where wrong reads, as a power of the budget, would be just few enough."""
    width = log(high.budget / low.budget)
    wrong = [staleness_log(each) for each in (low.fresh, target, high.fresh)]
    share = (wrong[0] - wrong[1]) / (wrong[0] - wrong[2]) if wrong[0] > wrong[2] else 0.5
    # Not too near to either end, so that the bracket shrinks; a little above, where the target is rather kept.
    share = min(max(share + 0.02, 0.1), 0.9)
    return low.budget * exp(share * width)


def _rounded_up(number: float) -> float:
    """Round up to three digits."""
    unit = 10.0 ** (floor(log10(number)) - 2)
    return -floor(-number / unit + 1e-9) * unit
