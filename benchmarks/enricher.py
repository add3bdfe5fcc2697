"""The cache for plain keys: right reads beside the best TTL cache, what a hit costs, and how much memory it takes.

    python benchmarks/enricher.py                  # all of it, about three minutes
    python benchmarks/enricher.py --only hits      # right, hits or memory
    python benchmarks/enricher.py --trace DIR      # a recorded trace as well: arrivals, edges and changes

Right reads: nothing is known in advance, the TTL is the best one in hindsight, and both are compared at the requests
that were spent after a fifth of the time.
"""

import argparse
import bisect
import csv
import gzip
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from cachetools import TTLCache
from stopwatch import ratios, show

from freshkeeper import Enricher

Reads = Sequence[tuple[float, Any]]
Changes = dict[Any, list[float]]


def synthetic(keys: int, reads: int, span: float, slow: float, sigma: float, seed: int) -> tuple[Reads, Changes]:
    """Zipf reads of keys whose change rates are log-normal around one change in `slow` ms."""
    rng = np.random.default_rng(seed)
    share = rng.permutation(1 / np.arange(1, keys + 1))
    rates = np.exp(rng.normal(np.log(1 / slow), sigma, keys))
    changes = {k: sorted(rng.uniform(0, span, rng.poisson(min(rates[k] * span, 1e5))).tolist()) for k in range(keys)}
    times = np.sort(rng.uniform(0, span, reads)).tolist()
    return list(zip(times, rng.choice(keys, reads, p=share / share.sum()).tolist(), strict=True)), changes


def recorded(directory: Path) -> tuple[Reads, Changes]:
    """The reads and changes of a trace: an arrival reads every entry of its key."""

    def table(name: str) -> Iterable[list[str]]:
        with gzip.open(directory / f"{name}.csv.gz", "rt") as file:
            yield from list(csv.reader(file))[1:]

    edges: dict[str, list[str]] = defaultdict(list)
    changes: Changes = defaultdict(list)
    for key, entry in table("edges"):
        edges[key].append(entry)
    for row in table("changes"):
        changes[row[1]].append(float(row[0]))
    arrivals = sorted((float(t), key) for t, key in table("arrivals"))
    return [(t, entry) for t, key in arrivals for entry in edges[key]], {k: sorted(v) for k, v in changes.items()}


def version_of(changes: Changes) -> Callable[[Any, float], int]:
    """How often a key had changed by a time."""
    return lambda key, now: bisect.bisect_right(changes.get(key, ()), now)


def with_ttl(ttl: float, reads: Reads, changes: Changes) -> tuple[float, float]:
    """Requests per read and the share of right reads of a TTL cache whose reads wait."""
    version, warm = version_of(changes), reads[0][0] + (reads[-1][0] - reads[0][0]) / 5
    fetched: dict[Any, float] = {}
    requests = right = counted = 0
    for now, key in reads:
        stale = key not in fetched or now - fetched[key] >= ttl
        if stale:
            fetched[key] = now
        if now >= warm:
            counted += 1
            requests += stale
            right += version(key, fetched[key]) == version(key, now)
    return requests / counted, right / counted


def with_enricher(budget: float, bank_ms: float, reads: Reads, changes: Changes, on_stale: Any) -> tuple[float, float]:
    """The same of an Enricher with so many requests per read, on the clock of the trace."""
    version, begin, end = version_of(changes), reads[0][0], reads[-1][0]
    warm, clock, requests = begin + (end - begin) / 5, [begin], [0]

    def lookup(keys: list[Any]) -> dict[Any, int]:
        requests[0] += 1
        return {key: version(key, clock[0]) for key in keys}

    rate = f"{budget * len(reads) / (end - begin) * 86_400_000:.6f}/day"
    enricher: Enricher[Any, int] = Enricher(
        lookup, rate, bank=bank_ms / 1000, on_stale=on_stale, background=False, clock=lambda: clock[0]
    )
    right = counted = before = 0
    for now, key in reads:
        clock[0] = now
        if now >= warm and not counted:
            before = requests[0]
        row = enricher.get(key)
        if now >= warm:
            counted += 1
            right += row.age is not None and row.value == version(key, now)
    return (requests[0] - before) / counted, right / counted


def right_reads(name: str, cases: Sequence[tuple[Reads, Changes]], bank: float | None) -> dict[str, float]:
    """A row of the table for each budget; the mean over the cases."""
    rows: list[list[str]] = []
    found: dict[str, float] = {}
    for budget in (0.1, 0.2, 0.27, 0.3, 0.4):
        waits, serves, ttls, spent = [], [], [], []
        for reads, changes in cases:
            span = reads[-1][0] - reads[0][0]
            frontier = sorted(with_ttl(ttl, reads, changes) for ttl in np.geomspace(span / 3000, span, 14))
            cost, right = with_enricher(budget, bank or span / 50, reads, changes, "wait")
            _, served = with_enricher(budget, bank or span / 50, reads, changes, "serve")
            costs, shares = zip(*frontier, strict=True)
            ttls.append(float(np.interp(cost, np.array(costs), np.array(shares))))
            waits.append(right)
            serves.append(served)
            spent.append(cost)
        means = [float(np.mean(each)) for each in (spent, ttls, waits, serves)]
        rows.append([f"{budget:.2f}", f"{means[0]:.3f}", *(f"{100 * one:.1f}" for one in means[1:])])
        found[f"{name}_{budget}_wait_minus_ttl"] = 100 * (means[2] - means[1])
    show(f"{name}: right reads in %, {len(cases)} seeds", ["granted", "spent", "best TTL", "wait", "serve"], rows)
    return found


def hits() -> dict[str, float]:
    """What a hit costs beside cachetools' TTLCache with a lock, and what maintenance costs."""
    rows: list[list[str]] = []
    found: dict[str, float] = {}
    for size in (10_000, 100_000):
        keys = [f"k{n}" for n in range(size)]
        enricher: Enricher[str, dict[str, str]] = Enricher(
            lambda wanted: {key: {"row": key} for key in wanted}, "100/s", batch=500, bank=10_000, capacity=2 * size
        )
        for key in keys:
            enricher.put(key, {"row": key})
        cache: TTLCache[str, dict[str, str]] = TTLCache(2 * size, 600)
        lock = RLock()
        for key in keys:
            cache[key] = {"row": key}

        def locked(key: str, cache: "TTLCache[str, dict[str, str]]" = cache, lock: RLock = lock) -> dict[str, str]:
            with lock:
                return cache[key]

        wanted = np.random.default_rng(1).choice(keys, 200_000).tolist()
        for key in wanted:
            enricher.get(key)
        ours, theirs = (min(_per_call(call, wanted) for _ in range(5)) for call in (enricher.get, locked))
        latencies = _latencies(enricher, wanted)
        before, cpu = enricher.stats().requests, time.process_time()
        time.sleep(3)
        idle = (time.process_time() - cpu) / 3
        enricher.close()
        rows.append(
            [
                f"{size:,}", f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}", f"{latencies:.1f}",
                f"{100 * idle:.2f} %", f"{enricher.stats().requests - before}",
            ]
        )  # fmt: skip
        found |= {f"hit_by_ttl_cache_{size}": ours / theirs, f"hit_us_{size}": ours}
    columns = ["rows", "µs a hit", "TTLCache", "ratio", "p99 µs", "of a core", "requests meanwhile"]
    show("A hit, with maintenance running", columns, rows)
    return found


def _per_call(call: Callable[[str], object], keys: Sequence[str]) -> float:
    began = time.process_time()
    for key in keys:
        call(key)
    return (time.process_time() - began) / len(keys) * 1e6


def _latencies(enricher: Enricher[str, Any], keys: Sequence[str]) -> float:
    took = np.empty(len(keys))
    for n, key in enumerate(keys):
        began = time.perf_counter_ns()
        enricher.get(key)
        took[n] = time.perf_counter_ns() - began
    return float(np.percentile(took, 99)) / 1000


def memory(rows: int) -> dict[str, float]:
    """Bytes for each key beside the row itself and the key."""
    keys, row = list(range(rows)), {"row": 1}
    changed = [{"row": version} for version in range(2)]
    tracemalloc.start()
    enricher: Enricher[int, Any] = Enricher(lambda wanted: dict.fromkeys(wanted, row), "5/s", capacity=rows)
    for version in range(2):
        for key in keys:
            enricher.put(key, changed[version] if key % 2 else row)
    size = tracemalloc.get_traced_memory()[0] / rows
    tracemalloc.stop()
    enricher.close()
    show("Memory", ["rows", "bytes a key beside the row"], [[f"{rows:,}", f"{size:.0f}"]])
    return {"bytes_per_key": size}


def main() -> None:
    """Print the tables, and the ratios as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["right", "hits", "memory"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000, help="for memory")
    parser.add_argument("--trace", type=Path, help="a directory with arrivals, edges and changes")
    chosen = parser.parse_args()
    found: dict[str, float] = {}
    if chosen.only in (None, "right"):
        seeds = range(1, chosen.seeds + 1)
        found |= right_reads("zipf", [synthetic(10_000, 180_000, 600_000, 60_000, 1.5, s) for s in seeds], None)
        found |= right_reads("shop", [synthetic(5_000, 100_000, 86_400_000, 21_600_000, 1.6, s) for s in seeds], None)
        if chosen.trace:
            found |= right_reads(chosen.trace.name, [recorded(chosen.trace)], 86_400_000)
    if chosen.only in (None, "hits"):
        found |= hits()
    if chosen.only in (None, "memory"):
        found |= memory(chosen.rows)
    ratios(found)


if __name__ == "__main__":
    main()
