"""Reads and changes by key, synthetic and recorded, and what a TTL cache and an Enricher make of them.

A trace is a list of (milliseconds, key), and for each key the sorted times of its changes. All caches are counted after
a fifth of the time. The families beside `zipf` and `shop` were made to judge with, not to choose settings by; but for
`imports` and `days`, which stood beside bike-week when the constants of the price were chosen.
"""

import bisect
import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from freshkeeper import Enricher

HOUR = 3_600_000.0
DAY = 24 * HOUR
WARM_UP = 0.2
Reads = Sequence[tuple[float, Any]]
Changes = Mapping[Any, Sequence[float]]


@dataclass(frozen=True)
class Trace:
    """Reads and changes, and how long unspent budget keeps."""

    reads: Reads
    changes: Changes
    bank: float

    @property
    def span(self) -> float:
        """Milliseconds from the first read to the last."""
        return self.reads[-1][0] - self.reads[0][0]

    def version(self, key: Any, now: float) -> int:
        """Return how often a key had changed by a time."""
        return bisect.bisect_right(self.changes.get(key, ()), now)


@dataclass(frozen=True)
class Outcome:
    """Requests per read and the share of right reads, after the warm-up."""

    requests: float
    right: float


def zipf(seed: int) -> Trace:
    """300 reads a second of 10,000 keys for ten minutes."""
    return log_normal(seed, keys=10_000, reads=180_000, span=600_000, interval=60_000, sigma=1.5)


def shop(seed: int) -> Trace:
    """100,000 reads of 5,000 keys in a day."""
    return log_normal(seed, keys=5_000, reads=100_000, span=DAY, interval=6 * HOUR, sigma=1.6)


def log_normal(seed: int, *, keys: int, reads: int, span: float, interval: float, sigma: float) -> Trace:
    """Zipf reads of keys whose change rates are log-normal around one change in `interval`."""
    rng = np.random.default_rng(seed)
    share = rng.permutation(1 / np.arange(1, keys + 1))
    rates = np.exp(rng.normal(np.log(1 / interval), sigma, keys))
    changes = _poisson(rng, rates, span)
    times = np.sort(rng.uniform(0, span, reads))
    return Trace(_pairs(times, rng.choice(keys, reads, p=share / share.sum())), changes, span / 50)


def clocks(seed: int) -> Trace:
    """Rows that change at equal intervals, each at its own."""
    rng = np.random.default_rng(300 + seed)
    times, keys = _zipf_reads(rng, 2000, 60_000, DAY)
    intervals, phases = np.exp(rng.normal(np.log(3 * HOUR), 1, 2000)), rng.uniform(0, 1, 2000)
    changes = {n: np.arange(phases[n] * intervals[n], DAY, intervals[n]).tolist() for n in range(2000)}
    return Trace(_pairs(times, keys), changes, DAY / 50)


def imports(seed: int) -> Trace:
    """Four days of reads by day, and imports every night that change most rows at once; the bank is a day."""
    rng, span = np.random.default_rng(400 + seed), 4 * DAY
    times, keys = _zipf_reads(rng, 2000, 60_000, span, exponent=0.8, busy=_daytime(0.1))
    nights = np.arange(5 * HOUR, span, DAY)
    changes = {}
    for key in range(2000):
        own = rng.uniform(0, span, rng.poisson(span / (3 * DAY))).tolist()
        changes[key] = sorted(own + [t + rng.uniform(0, 300_000) for t in nights if rng.random() < 0.6])
    return Trace(_pairs(times, keys), changes, DAY)


def days(seed: int) -> Trace:
    """Five days in which reads and changes swing together by the hour; the bank is a day."""
    rng, span, busy = np.random.default_rng(500 + seed), 5 * DAY, _daytime(0.05)
    times, keys = _zipf_reads(rng, 1000, 60_000, span, exponent=0.9, busy=busy)
    changes = {}
    for key, rate in enumerate(np.exp(rng.normal(np.log(1 / (3 * HOUR)), 1.2, 1000))):
        drawn = rng.uniform(0, span, rng.poisson(rate * span))
        changes[key] = sorted(drawn[rng.uniform(0, 1, len(drawn)) < busy(drawn)].tolist())
    return Trace(_pairs(times, keys), changes, DAY)


def coupled(seed: int) -> Trace:
    """Every other read changes its row, a minute later on average."""
    rng = np.random.default_rng(600 + seed)
    times, keys = _zipf_reads(rng, 1000, 60_000, DAY, exponent=0.8)
    caused: dict[int, list[float]] = {key: [] for key in range(1000)}
    for time, key in zip(times.tolist(), keys.tolist(), strict=True):
        if rng.random() < 0.5:
            caused[key].append(time + rng.exponential(60_000) + 1)
    own = _poisson(rng, np.full(1000, 1 / (6 * HOUR)), DAY)
    return Trace(_pairs(times, keys), {key: sorted(caused[key] + own[key]) for key in caused}, DAY / 50)


def rotating(seed: int) -> Trace:
    """Every four hours other keys are popular."""
    rng = np.random.default_rng(700 + seed)
    parts = [_zipf_reads(rng, 1500, 10_000, 4 * HOUR) for _ in range(6)]
    times = np.concatenate([each + n * 4 * HOUR for n, (each, _) in enumerate(parts)])
    keys = np.concatenate([(each + n * 700) % 5000 for n, (_, each) in enumerate(parts)])
    rates = np.exp(rng.normal(np.log(1 / (3 * HOUR)), 1.5, 5000))
    return Trace(_pairs(times, keys), _poisson(rng, rates, DAY), DAY / 50)


def uniform(seed: int) -> Trace:
    """Keys that are all read alike."""
    rng = np.random.default_rng(800 + seed)
    times, keys = _zipf_reads(rng, 2000, 60_000, DAY, exponent=0.0)
    return Trace(_pairs(times, keys), _poisson(rng, np.exp(rng.normal(np.log(1 / (4 * HOUR)), 1, 2000)), DAY), DAY / 50)


def newcomers(seed: int) -> Trace:
    """Every tenth read is of a key that was never read before, nor will be."""
    rng = np.random.default_rng(900 + seed)
    times, keys = _zipf_reads(rng, 2000, 60_000, DAY)
    keys = np.where(rng.uniform(size=60_000) < 0.1, 100_000 + np.arange(60_000), keys)
    return Trace(
        _pairs(times, keys), _poisson(rng, np.exp(rng.normal(np.log(1 / (3 * HOUR)), 1.3, 2000)), DAY), DAY / 50
    )


HELD_OUT: dict[str, Callable[[int], Trace]] = {
    trace.__name__: trace for trace in (clocks, imports, days, coupled, rotating, uniform, newcomers)
}


def recorded(directory: Path, bank: float | None) -> Trace:
    """Read a trace of arrivals, edges and changes; an arrival reads every entry of its key."""

    def table(name: str) -> Iterable[list[str]]:
        with gzip.open(directory / f"{name}.csv.gz", "rt") as file:
            yield from list(csv.reader(file))[1:]

    edges: dict[str, list[str]] = defaultdict(list)
    changes: dict[str, list[float]] = defaultdict(list)
    for key, entry in table("edges"):
        edges[key].append(entry)
    for row in table("changes"):
        changes[row[1]].append(float(row[0]))
    arrivals = sorted((float(t), key) for t, key in table("arrivals"))
    reads = [(t, entry) for t, key in arrivals for entry in edges[key]]
    keeps = (reads[-1][0] - reads[0][0]) / 50 if bank is None else bank
    return Trace(reads, {key: sorted(times) for key, times in changes.items()}, keeps)


def with_ttl(trace: Trace, ttl: float) -> Outcome:
    """Replay a TTL cache whose reads wait."""
    warm = trace.reads[0][0] + WARM_UP * trace.span
    fetched: dict[Any, float] = {}
    requests = right = counted = 0
    for now, key in trace.reads:
        stale = key not in fetched or now - fetched[key] >= ttl
        if stale:
            fetched[key] = now
        if now >= warm:
            counted += 1
            requests += stale
            right += trace.version(key, fetched[key]) == trace.version(key, now)
    return Outcome(requests / counted, right / counted)


def ttl_frontier(trace: Trace) -> Callable[[float], float]:
    """Return the right reads of the best TTL in hindsight, as a function of the requests per read."""
    ttls = np.geomspace(trace.span / 3000, trace.span, 14)
    outcomes = sorted((outcome.requests, outcome.right) for outcome in (with_ttl(trace, ttl) for ttl in ttls))
    requests, right = (np.array(each) for each in zip(*outcomes, strict=True))
    return lambda wanted: float(np.interp(wanted, requests, right))


def with_enricher(trace: Trace, budget: float, on_stale: Any = "wait") -> Outcome:
    """Replay an Enricher that may make `budget` requests per read, on the clock of the trace."""
    begin = trace.reads[0][0]
    warm, clock, requests = begin + WARM_UP * trace.span, [begin], [0]

    def lookup(keys: list[Any]) -> dict[Any, int]:
        requests[0] += 1
        return {key: trace.version(key, clock[0]) for key in keys}

    rate = f"{budget * len(trace.reads) / trace.span * DAY:.6f}/day"
    enricher: Enricher[Any, int] = Enricher(
        lookup, rate, bank=trace.bank / 1000, on_stale=on_stale, background=False, clock=lambda: clock[0]
    )
    right = counted = before = 0
    for now, key in trace.reads:
        clock[0] = now
        if now >= warm and not counted:
            before = requests[0]
        row = enricher.get(key)
        if now >= warm:
            counted += 1
            right += row.age is not None and row.value == trace.version(key, now)
    enricher.close()
    return Outcome((requests[0] - before) / counted, right / counted)


def _zipf_reads(
    rng: np.random.Generator,
    keys: int,
    reads: int,
    span: float,
    *,
    exponent: float = 1.0,
    busy: "Callable[[np.ndarray], np.ndarray] | None" = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw times and keys; `busy` is the relative pace of reads at a time, at most 1."""
    share = rng.permutation(1 / np.arange(1, keys + 1) ** exponent)
    times = rng.uniform(0, span, reads)
    if busy is not None:
        drawn = rng.uniform(0, span, 8 * reads)
        times = drawn[rng.uniform(0, 1, len(drawn)) < busy(drawn)][:reads]
    return np.sort(times), rng.choice(keys, len(times), p=share / share.sum())


def _daytime(least: float) -> "Callable[[np.ndarray], np.ndarray]":
    return lambda times: least + (1 - least) * np.maximum(0, np.sin(2 * np.pi * times / DAY))


def _poisson(rng: np.random.Generator, rates: np.ndarray, span: float) -> dict[int, list[float]]:
    counts = (rng.poisson(min(rate * span, 1e5)) for rate in rates)
    return {key: sorted(rng.uniform(0, span, count).tolist()) for key, count in enumerate(counts)}


def _pairs(times: np.ndarray, keys: np.ndarray) -> Reads:
    return list(zip(times.tolist(), keys.tolist(), strict=True))
