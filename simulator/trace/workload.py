"""Synthetic traces: the generator of 002's experiments with every knob, the paper's values being the defaults.

Time begins at 0. The first arrival is at t0, one longest change interval later, so that every SR with a fixed interval
has changed before t0 and a source can publish when; arrivals end by t0 + duration, changes one longest interval after
that, so that the next change after any evaluation is known. All laws are stationary: t0 is nothing special to an SR.

Edges, intervals, changes, arrivals, bursts and lives have random streams of their own: turning one knob leaves what the
others draw as it was, and settings can be compared in pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from freshkeeper.maintenance.base.arrays import Floats, Ids, Ints, spread
from freshkeeper.simulator.trace.trace import Changes, ChangeSchedule, Edges, Trace, TraceArrivals

BLOCK = 500_000
"""The approximate number of rows drawn at a time: it bounds memory, and changing it changes the trace of a seed."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Milliseconds = Annotated[int, Field(ge=1)]
Correlation = Annotated[float, Field(ge=-1, le=1)]


class Workload(BaseModel):
    """Settings of a synthetic trace."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sns: int = Field(default=50, ge=1, description="lookup keys")
    srs: int = Field(default=50, ge=1, description="cached entries")
    edges: int = Field(
        default=1000, ge=1, description="distinct edges between lookup keys and entries, drawn at random"
    )
    shared: bool = Field(
        default=True,
        description="true: several lookup keys may need one entry; false: each key has the same number of its own",
    )
    degree_skew: float = Field(
        default=0.0,
        ge=0,
        le=10,
        description="Zipf exponent of the cached entries' degrees: 0 is uniform; the paper's s is 1 − this",
    )
    change_law: Literal["fixed", "poisson", "beta", "gamma"] = Field(
        default="fixed",
        description="fixed: an interval per cached entry, uniform in the range; beta: fixed, but most intervals near "
        "the range's end, as Beta(50, 1); poisson, gamma: random gaps around a mean per entry, uniform in the range",
    )
    change_interval_ms: tuple[Milliseconds, Milliseconds] = Field(
        default=(100, 3000), description="least and greatest (mean) change interval of a cached entry"
    )
    gamma_shape: Positive = Field(
        default=2.0, description="shape of the gaps of the law gamma: 1 is Poisson, larger is more regular"
    )
    phases: Literal["random", "synchronised"] = Field(
        default="random", description="fixed intervals: a phase per cached entry, or all counted from one instant"
    )
    change_degree_correlation: Correlation = Field(
        default=0.0, description="rank correlation of a cached entry's change rate with its degree; ±1 is monotone"
    )
    arrival_interval_ms: tuple[Milliseconds, Milliseconds] = Field(
        default=(1000, 2000), description="least and greatest mean arrival interval of a lookup key; Poisson arrivals"
    )
    arrival_degree_correlation: Correlation = Field(
        default=0.0, description="rank correlation of a lookup key's arrival rate with its degree; ±1 is monotone"
    )
    modulation: tuple[Positive, ...] = Field(
        default=(1.0,),
        min_length=1,
        description="factors of the mean arrival intervals, one period each, again and again",
    )
    modulation_period_ms: Milliseconds = Field(
        default=1000, description="length of a period of the modulation, from t0 on"
    )
    bursts_per_minute: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="bursts, each of one lookup key, beside its other arrivals"
    )
    burst_size: int = Field(default=20, ge=1, description="arrivals of a burst")
    burst_ms: Milliseconds = Field(default=1000, description="length of a burst")
    duration_ms: Milliseconds = Field(
        default=50_000, description="time from the first arrival to the end: 50 steps of 1 s"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.edges > self.sns * self.srs:
            raise ValueError(f"edges is {self.edges}; {self.sns} × {self.srs} distinct edges are all that there are")
        if not self.shared and (self.edges != self.srs or self.srs % self.sns):
            raise ValueError(
                f"shared is false, with {self.sns} keys, {self.srs} entries and {self.edges} edges: there must be as "
                "many edges as entries, and the same number for each key"
            )
        for name in ("change_interval_ms", "arrival_interval_ms"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} is [{low}, {high}]; the least comes first")
        return self

    @property
    def t0(self) -> int:
        """The first arrival, in ms; as late as the longest interval between changes."""
        return self.change_interval_ms[1]

    @property
    def end(self) -> int:
        """The end of the changes in ms: the longest interval after the last arrival."""
        return self.t0 + self.duration_ms + self.change_interval_ms[1]


def generate(workload: Workload, seed: int) -> Trace:
    """Draw a trace; the same settings and seed give the same trace."""
    streams = _Streams.of(seed)
    population = _population(workload, streams)
    blocks = list(_arrivals(workload, population, streams))
    t_ms = np.concatenate([block.t_ms for block in blocks])
    arrivals = TraceArrivals(t_ms, np.concatenate([block.sn for block in blocks]))
    schedule = _schedule(workload, population.edges, streams)
    changes = _changes(workload, schedule, streams)
    fixed = workload.change_law in ("fixed", "beta")
    return Trace(
        arrivals=arrivals,
        edges=population.edges,
        changes=changes,
        sn_labels=np.arange(workload.sns),
        sr_labels=np.arange(workload.srs),
        schedule=schedule if fixed else ChangeSchedule(schedule.interval_ms),
    )


@dataclass(frozen=True)
class _Streams:
    """Independent random streams, one per thing that is drawn."""

    edges: np.random.Generator
    change_intervals: np.random.Generator
    changes: np.random.Generator
    arrival_intervals: np.random.Generator
    arrivals: np.random.Generator
    bursts: np.random.Generator

    @classmethod
    def of(cls, seed: int) -> "_Streams":
        return cls(*(np.random.Generator(np.random.PCG64(child)) for child in np.random.SeedSequence(seed).spawn(6)))


@dataclass(frozen=True, eq=False)
class _Population:
    """The lookup keys: their edges, and the mean arrival interval of each in ticks (see `_Clock`)."""

    edges: Edges
    interval: Floats


def _population(workload: Workload, streams: _Streams) -> _Population:
    if workload.shared:
        edges = draw_edges(streams.edges, workload.sns, workload.srs, workload.edges, workload.degree_skew)
    else:
        edges = own_edges(workload.sns, workload.srs)
    interval = streams.arrival_intervals.uniform(*workload.arrival_interval_ms, workload.sns)
    degree = np.bincount(edges.sn, minlength=workload.sns)
    interval = _correlated(streams.arrival_intervals, interval, degree, workload.arrival_degree_correlation)
    return _Population(edges, interval)


def _correlated(rng: np.random.Generator, intervals: Floats, degree: Ints, correlation: float) -> Floats:
    """Permute intervals so that rate and degree have this rank correlation, by a Gaussian copula."""
    size = intervals.size
    pearson = 2 * np.sin(np.pi * correlation / 6)
    scores, noise, ties = np.sort(rng.standard_normal(size)), rng.standard_normal(size), rng.random(size)
    mixed = np.empty(size)
    mixed[np.lexsort((ties, degree))] = pearson * scores
    mixed += np.sqrt(1 - min(1.0, pearson * pearson)) * noise
    result = np.empty(size)
    result[np.argsort(mixed)] = np.sort(intervals)[::-1]
    return result


def _schedule(workload: Workload, edges: Edges, streams: _Streams) -> ChangeSchedule:
    low, high = workload.change_interval_ms
    rng = streams.change_intervals
    if workload.change_law == "beta":
        drawn = low + (high - low) * rng.beta(50, 1, workload.srs)
    else:
        drawn = rng.integers(low, high, workload.srs, endpoint=True).astype(np.float64)
    degree = np.bincount(edges.sr, minlength=workload.srs)
    interval = _correlated(rng, drawn, degree, workload.change_degree_correlation).round().astype(np.int64)
    share = rng.random(workload.srs)
    if workload.phases == "synchronised":
        return ChangeSchedule(interval, rng.integers(high) % interval)
    return ChangeSchedule(interval, (share * interval).astype(np.int64))


def _changes(workload: Workload, schedule: ChangeSchedule, streams: _Streams) -> Changes:
    """Draw all changes from 0 to the end, sorted by one key each: time · SRs + SR."""
    interval, phase = schedule.interval_ms, schedule.phase_ms
    assert phase is not None
    blocks = np.cumsum(workload.end / interval) // BLOCK
    keys: list[Ints] = []
    for srs in np.split(np.arange(workload.srs), np.flatnonzero(np.diff(blocks)) + 1):
        if workload.change_law in ("fixed", "beta"):
            t_ms, sr = _ticks(interval[srs], phase[srs], workload.end)
        else:
            shape = workload.gamma_shape if workload.change_law == "gamma" else 1.0
            t_ms, sr = _renewals(streams.changes, interval[srs], shape, workload.end)
        keys.append(t_ms * workload.srs + srs[sr])
    merged = np.concatenate(keys)
    del keys
    merged.sort()
    return Changes(*_apart(merged, workload.srs))


def _ticks(interval: Ints, phase: Ints, end: int) -> tuple[Ints, Ints]:
    """Return phase + n·interval up to the end, for every SR."""
    count = (end - phase) // interval + 1
    sr = np.repeat(np.arange(count.size), count)
    return phase[sr] + spread(np.zeros_like(count), count) * interval[sr], sr


def _renewals(rng: np.random.Generator, interval: Ints, shape: float, end: int) -> tuple[Ints, Ints]:
    """Draw gaps of Gamma(shape) with the interval as mean; the first is the rest of a gap met at random."""
    now = rng.random(interval.size) * rng.gamma(shape + 1, 1 / shape, interval.size) * interval
    times, srs = [now.copy()], [np.arange(interval.size)]
    alive = np.flatnonzero(now <= end)
    while alive.size:
        expected = (end - now[alive]) / interval[alive]
        count = np.ceil(expected + 4 * np.sqrt(expected / shape) + 1).astype(np.int64)
        sr = np.repeat(alive, count)
        elapsed = np.cumsum(rng.gamma(shape, 1 / shape, sr.size) * interval[sr])
        before = np.append(0.0, elapsed)[np.cumsum(count) - count]
        time = elapsed - np.repeat(before - now[alive], count)
        times.append(time)
        srs.append(sr)
        now[alive] = time[np.cumsum(count) - 1]
        alive = alive[now[alive] <= end]
    time, sr = np.concatenate(times), np.concatenate(srs)
    kept = time <= end
    return time[kept].astype(np.int64), sr[kept]


def _arrivals(workload: Workload, population: _Population, streams: _Streams) -> Iterator[TraceArrivals]:
    """Yield Poisson arrivals block by block, sorted by one key each: time · SNs + SN."""
    rng, sns, clock = streams.arrivals, workload.sns, _Clock.of(workload)
    last = float(clock.ticks(np.array(float(workload.duration_ms))))
    given = np.append(_first(workload, population, rng), _bursts(workload, streams.bursts))
    given.sort()
    expected = float((last / population.interval).sum())
    bounds = np.linspace(0.0, last, int(expected // BLOCK) + 2)
    ends = np.searchsorted(given, (workload.t0 + np.ceil(clock.time(bounds)).astype(np.int64) + 1) * sns)
    ends[0] = 0
    for low, high, begin, end in zip(bounds[:-1], bounds[1:], ends[:-1], ends[1:], strict=True):
        sn = np.repeat(np.arange(sns), rng.poisson((high - low) / population.interval))
        ticks = low + rng.random(sn.size) * (high - low)
        t_ms = workload.t0 + np.ceil(clock.time(ticks)).astype(np.int64)
        keys = np.concatenate([given[begin:end], t_ms * sns + sn])
        keys.sort()
        yield TraceArrivals(*_apart(keys, sns))


def _first(workload: Workload, population: _Population, rng: np.random.Generator) -> int:
    """Draw the arrival at t0, as a key: it may be of any SN, by its rate."""
    rate = (1 / population.interval).cumsum()
    sn = min(int(np.searchsorted(rate, rng.random() * rate[-1], side="right")), rate.size - 1)
    return workload.t0 * rate.size + sn


def _bursts(workload: Workload, rng: np.random.Generator) -> Ints:
    """Draw all arrivals of bursts, as keys, up to the end of the trace."""
    number = rng.poisson(workload.bursts_per_minute * workload.duration_ms / 60_000)
    owner, start = rng.integers(workload.sns, size=number), rng.uniform(0, workload.duration_ms, number)
    sn = np.repeat(owner, workload.burst_size)
    time = np.repeat(start, workload.burst_size) + rng.random(sn.size) * workload.burst_ms
    keys: Ints = (workload.t0 + np.ceil(time).astype(np.int64)) * workload.sns + sn
    return keys[time < workload.duration_ms]


@dataclass(frozen=True, eq=False)
class _Clock:
    """Time after t0 in ticks: more ticks pass while the modulation shortens the intervals. One cycle is stored.

    λ0, the paper's expected arrival interval, becomes factor·λ0 in a period; in ticks it is λ0 throughout.
    """

    knots_ms: Floats
    knots: Floats

    @classmethod
    def of(cls, workload: Workload) -> "_Clock":
        length = workload.modulation_period_ms / np.array(workload.modulation)
        knots_ms = np.arange(length.size + 1.0) * workload.modulation_period_ms
        return cls(knots_ms, np.append(0.0, np.cumsum(length)))

    def ticks(self, time: Floats) -> Floats:
        """Return the ticks that have passed at a time."""
        cycles, rest = np.divmod(time, self.knots_ms[-1])
        passed: Floats = cycles * self.knots[-1] + np.interp(rest, self.knots_ms, self.knots)
        return passed

    def time(self, ticks: Floats) -> Floats:
        """Return the time at which so many ticks have passed."""
        cycles, rest = np.divmod(ticks, self.knots[-1])
        passed: Floats = cycles * self.knots_ms[-1] + np.interp(rest, self.knots, self.knots_ms)
        return passed


def _apart(keys: Ints, base: int) -> tuple[Ints, Ids]:
    """Split sorted keys into times and numbers."""
    return keys // base, (keys % base).astype(np.int32)


def draw_edges(rng: np.random.Generator, sns: int, srs: int, count: int, skew: float) -> Edges:
    """`count` distinct edges, each SR drawn by its Zipf weight; exact at any skew."""
    weight = rng.permutation(np.arange(1, srs + 1, dtype=np.float64) ** -skew)
    keys = _neighbours(rng, _degrees(rng, weight, sns, count), sns)
    keys = np.sort(keys % sns * srs + keys // sns)
    return Edges((keys // srs).astype(np.int32), (keys % srs).astype(np.int32))


def own_edges(sns: int, srs: int) -> Edges:
    """Return edges that give each SN the same number of SRs of its own."""
    sr = np.arange(srs, dtype=np.int32)
    return Edges(sr // (srs // sns), sr)


def _degrees(rng: np.random.Generator, weight: Floats, sns: int, count: int) -> Ints:
    """Draw the degree of each SR: `count` distinct pairs are drawn one after the other, by the weight of their SR.

    Drawing without replacement is a race: a pair arrives after Exp(weight), the first `count` win. So only what arrives
    by a time at which a few too many have arrived needs to be drawn, whatever the skew.
    """
    enough = min(count + 6 * np.sqrt(count) + 10, float(sns) * weight.size)
    share = _share_arrived(weight, enough / sns)
    while (arrived := rng.binomial(sns, share)).sum() < count:
        share = np.ones_like(share)
    sr = np.repeat(np.arange(weight.size), arrived)
    time = -np.log1p(-rng.random(sr.size) * share[sr]) / weight[sr]
    return np.bincount(sr[np.argpartition(time, count - 1)[:count]], minlength=weight.size)


def _share_arrived(weight: Floats, wanted: float) -> Floats:
    """1 − exp(−weight·t) for the t at which these sum up to `wanted`; Newton's steps climb the concave sum."""
    if wanted >= weight.size:
        return np.ones_like(weight)
    t = 0.0
    share = np.zeros_like(weight)
    while (missing := wanted - share.sum()) > 1e-3 * wanted:
        t += missing / (weight * (1 - share)).sum()
        share = -np.expm1(-weight * t)
    return share


def _neighbours(rng: np.random.Generator, degree: Ints, sns: int) -> Ints:
    """Draw `degree` distinct SNs per SR, as keys sr·sns + sn; beyond half of them, draw those to leave out."""
    mostly = degree > sns // 2
    drawn = np.where(mostly, sns - degree, degree)
    keys = np.empty(0, np.int64)
    missing = drawn
    while missing.any():
        sr = np.repeat(np.arange(degree.size), missing)
        keys = np.unique(np.concatenate([keys, sr * sns + rng.integers(sns, size=sr.size)]))
        missing = drawn - np.bincount(keys // sns, minlength=degree.size)
    every = (np.flatnonzero(mostly)[:, None] * sns + np.arange(sns)).ravel()
    return np.setxor1d(keys, every, assume_unique=True)
