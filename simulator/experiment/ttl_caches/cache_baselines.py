"""Caches without a budget on the trace of one task, as baselines for its policies.

They need no simulated world, so they take a fraction of the time of a policy.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from freshkeeper.maintenance.analysis.headline import seed_headline
from freshkeeper.simulator.experiment.point import MeasuredPoint
from freshkeeper.simulator.experiment.task import Task
from freshkeeper.simulator.experiment.ttl_caches.cache_reads import Reads
from freshkeeper.simulator.experiment.ttl_caches.caches import ONCE, REFRESH_AHEAD, TTL, UNCACHED, Caches

MOST_READ = 20_000_000
"""SRs in the window, summed over evaluations, up to which caches are worked out: they are held in memory."""
HALVINGS = 8
"""Bisections of the TTL; the rest is a negligible number of requests."""


@dataclass(frozen=True)
class Cache:
    """The results of one cache with one seed, over the evaluations that count."""

    policy: str
    ttl_ms: float | None
    freshness: float
    pooled: float
    requests: float


def cache_baselines(task: Task) -> tuple[list[dict[str, Any]], str]:
    """Return the four caches as plain data, or none and the reason."""
    if not task.setting.experiment.baselines:
        return [], "they were not asked for"
    if not task.setting.experiment.remote.instantaneous:
        return [], "they are worked out only for a source that answers at once and never fails"
    if most_read(task) > MOST_READ:
        return [], "they would take long; name them with --policy ttl,refresh-ahead,no-cache,fetch-once"
    caches = Caches([Reads.of(task)], task.warm_up, drawn=True, halvings=HALVINGS)
    if not caches.once.series[0].answers[task.warm_up :].any():
        return [], "no evaluation that counts has answers"
    return [asdict(cache) for cache in _caches(caches, float(task.setting.rule.per_evaluation))], ""


def _caches(caches: Caches, budget: float) -> list[Cache]:
    """Return no-cache and fetch-once, and between them caches with the TTL that so many requests allow."""
    ttl_ms = caches.affording(budget)
    return [
        _cache(UNCACHED, None, caches.uncached),
        _cache(TTL, ttl_ms, caches.lasting(TTL, ttl_ms)),
        _cache(REFRESH_AHEAD, ttl_ms, caches.lasting(REFRESH_AHEAD, ttl_ms)),
        _cache(ONCE, None, caches.once),
    ]


def _cache(name: str, ttl_ms: float | None, found: MeasuredPoint) -> Cache:
    (series,) = found.series
    counts = np.arange(series.answers.size) >= found.warm_up
    # As for policies: the mean over evaluations, which the paper reports.
    freshness = seed_headline(series.fresh, series.answers, counts).freshness
    return Cache(name, ttl_ms, freshness, found.share, found.requests)


def most_read(task: Task) -> int:
    """Return an upper bound of the reads of all windows: arrivals times windows, or edges times evaluations."""
    chosen, trace = task.setting.experiment, task.trace
    windows = -(-chosen.window // chosen.step)
    needed = int(np.diff(task.graph.sn_start)[trace.arrivals.sn].sum())
    return min(windows * needed, trace.edges.sn.size * task.evaluations)
