"""The cache for plain keys: right reads beside the best TTL cache, what a hit costs, and how much memory it takes.

    python benchmarks/enricher.py                         # all of it, about fifteen minutes
    python benchmarks/enricher.py --only hits             # right, held-out, hits or memory
    python benchmarks/enricher.py --trace DIR --bank 24   # a recorded trace as well: arrivals, edges and changes

Right reads: nothing is known in advance, and the TTL is the best one in hindsight. `more` is what reads that wait have
more than it at the requests that were spent, and at those that were granted; a budget is requests per read. `held-out`
are traces that no setting was chosen by, but for two (read_traces.py).
"""

import argparse
import resource
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import RLock, Thread
from typing import Any

import numpy as np
from cachetools import TTLCache
from read_traces import HELD_OUT, HOUR, Trace, recorded, shop, ttl_frontier, with_enricher, zipf
from stopwatch import ratios, show

from freshkeeper import Enricher

MAX_BYTES_PER_KEY = 300
MAX_TRACED_ROWS = 1_000_000
BUDGETS = (0.1, 0.2, 0.27, 0.3, 0.4)
COLUMNS = ["granted", "spent", "TTL", "wait", "more", "TTL at granted", "more", "serve", "spent"]


def right_reads(name: str, traces: Iterable[Trace], budgets: Sequence[float]) -> dict[str, float]:
    """Print a row for each budget, the mean over the traces; return by how much waiting reads beat the best TTL."""
    sums = np.zeros((len(budgets), 6))
    replayed = 0
    for trace in traces:
        replayed += 1
        best_ttl = ttl_frontier(trace)
        for row, budget in zip(sums, budgets, strict=True):
            wait, serve = (with_enricher(trace, budget, on_stale) for on_stale in ("wait", "serve"))
            right = (best_ttl(wait.requests), wait.right, best_ttl(budget), serve.right)
            row += (wait.requests, *(100 * each for each in right), serve.requests)
    found: dict[str, float] = {}
    rows = []
    for budget, means in zip(budgets, sums / replayed, strict=True):
        spent, ttl, wait_right, granted_ttl, serve_right, served = means
        more, granted = wait_right - ttl, wait_right - granted_ttl
        shares = f"{ttl:.1f}", f"{wait_right:.1f}", f"{more:+.1f}", f"{granted_ttl:.1f}", f"{granted:+.1f}"
        rows.append([f"{budget:.2f}", f"{spent:.3f}", *shares, f"{serve_right:.1f}", f"{served:.3f}"])
        found |= {f"{name}_{budget}_wait": wait_right, f"{name}_{budget}_more": more}
    show(f"{name}: right reads in %, mean of {replayed}", COLUMNS, rows)
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
        single = Enricher(dict.fromkeys, "100/s", bank=10_000, capacity=2 * size)
        for key in keys:
            single.put(key, None)
        cpu = time.process_time()
        refresh(single, keys, seconds=3)
        maintenance = (time.process_time() - cpu) / 3
        requests = single.stats().requests
        single.close()
        refreshing = Thread(target=refresh, args=(enricher, keys, 3))
        refreshing.start()
        latencies = min(_latencies(enricher, wanted) for _ in range(3))
        refreshing.join()
        enricher.close()
        rows.append(
            [
                f"{size:,}", f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}", f"{latencies:.1f}",
                f"{100 * maintenance:.2f} %", f"{requests / 3:.0f}",
            ]
        )  # fmt: skip
        found |= {f"hit_by_ttl_cache_{size}": ours / theirs, f"hit_us_{size}": ours}
    columns = ["rows", "µs a hit", "TTLCache", "ratio", "p99 µs", "of a core", "requests/s"]
    show("A hit, with maintenance running", columns, rows)
    return found


def refresh(enricher: Enricher[str, Any], keys: Sequence[str], seconds: float) -> None:
    """Demand fresh rows, 100 a second: each is a request."""
    until, n = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        n += 1
        enricher.get(keys[37 * n % len(keys)], max_age=0)
        time.sleep(max(0.0, until - seconds + n / 100 - time.monotonic()))


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
    """Bytes for each key beside the row itself and the key; many rows are measured by the process, which is quicker."""
    keys, row = list(range(rows)), {"row": 1}
    changed = [{"row": version} for version in range(2)]
    traced = rows <= MAX_TRACED_ROWS
    before = 0 if traced else _resident_bytes()
    if traced:
        tracemalloc.start()
    enricher: Enricher[int, Any] = Enricher(lambda wanted: dict.fromkeys(wanted, row), "5/s", capacity=rows)
    for version in range(2):
        for key in keys:
            enricher.put(key, changed[version] if key % 2 else row)
    size = ((tracemalloc.get_traced_memory()[0] if traced else _resident_bytes()) - before) / rows
    tracemalloc.stop()
    enricher.close()
    show("Memory", ["rows", "bytes a key beside the row"], [[f"{rows:,}", f"{size:.0f}"]])
    if size > MAX_BYTES_PER_KEY:
        raise SystemExit(f"{size:.0f} bytes a key beside the row: at most {MAX_BYTES_PER_KEY} are permitted")
    return {"bytes_per_key": size}


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Print the tables, and the ratios as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["right", "held-out", "hits", "memory"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000, help="for memory")
    parser.add_argument("--trace", type=Path, action="append", default=[], help="a directory of a recorded trace")
    parser.add_argument("--bank", type=float, help="hours that unspent budget keeps (default: a fiftieth of the trace)")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS, help="requests per read")
    chosen = parser.parse_args()
    found: dict[str, float] = {}
    seeds = range(1, chosen.seeds + 1)
    if chosen.only in (None, "right"):
        found |= right_reads("zipf", map(zipf, seeds), chosen.budgets)
        found |= right_reads("shop", map(shop, seeds), chosen.budgets)
    for directory in chosen.trace:
        trace = recorded(directory, None if chosen.bank is None else chosen.bank * HOUR)
        found |= right_reads(directory.name, [trace], chosen.budgets)
    if chosen.only in (None, "held-out"):
        for name, make in HELD_OUT.items():
            found |= right_reads(name, map(make, seeds), chosen.budgets)
    if chosen.only in (None, "hits"):
        found |= hits()
    if chosen.only in (None, "memory"):
        found |= memory(chosen.rows)
    ratios(found)


if __name__ == "__main__":
    main()
