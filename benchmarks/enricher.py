"""What enriching an event costs: a hit beside cachetools' TTLCache in the same run, and how long `get` takes at worst.

Asked for: 100,000 events a second on one core when all is cached; a hit at most 5 times TTLCache's; 99 % of `get`
within 50 µs while rounds of maintenance run, which are told with their length, for 10,000 and for 100,000 rows.
"""

import argparse
import time
from collections.abc import Callable, Hashable
from itertools import cycle

import numpy as np
from cachetools import TTLCache
from stopwatch import ratios, show

from freshkeeper import Enricher
from freshkeeper.maintenance.base.arrays import Floats

EVENTS = 200_000


def lookup(keys: list[Hashable]) -> dict[Hashable, object]:
    """Every key has a row, which changes twice a minute."""
    return {key: {"id": key, "version": time.time() // 30} for key in keys}


def filled(rows: int) -> tuple[Enricher, list[str]]:
    """An enricher that holds so many rows, with its rounds running."""
    keys = [f"product-{n}" for n in range(rows)]
    enricher = Enricher(lookup, budget="1000/s", batch=100, capacity=2 * rows, reserve=0.9)
    while any(row.value is None for row in enricher.get_many(keys)):
        time.sleep(0.5)
    return enricher, keys


def asked(keys: list[str], events: int = EVENTS) -> list[str]:
    """Keys as events ask for them, some far more often than others."""
    rng = np.random.default_rng(0)
    numbers = (len(keys) * rng.random(events) ** 3).astype(int)
    return [keys[n] for n in numbers]


def processor_seconds(run: Callable[[], None]) -> float:
    """Of this thread, at best of three: other threads and processes take none of it."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        run()
        taken.append(time.thread_time() - began)
    return min(taken)


def per_hit(get: Callable[[str], object], wanted: list[str]) -> float:
    """Microseconds of processor time, the loop around it included."""

    def run() -> None:
        for key in wanted:
            get(key)

    return 1e6 * processor_seconds(run) / len(wanted)


def joined(enricher: Enricher, wanted: list[str]) -> float:
    """Events through `join` in a second of processor time."""
    events = [{"product_id": key} for key in wanted]

    def run() -> None:
        for _event, _row in enricher.join(events, key="product_id"):
            pass

    return len(events) / processor_seconds(run)


def latencies(enricher: Enricher, wanted: list[str], lasting: float, pause: float) -> Floats:
    """Microseconds of each `get`, for so many seconds, with a pause between two."""
    taken, until = [], time.perf_counter() + lasting
    for key in cycle(wanted):
        if pause:
            time.sleep(pause)
        began = time.perf_counter_ns()
        enricher.get(key)
        ended = time.perf_counter_ns()
        taken.append(ended - began)
        if ended > until * 1e9:
            break
    return np.array(taken) / 1000


def measured(rows: int, lasting: float) -> tuple[list[str], float, float]:
    """A row of the table, and what is asked for."""
    enricher, keys = filled(rows)
    wanted = asked(keys)
    cache: TTLCache[str, object] = TTLCache(2 * rows, 3600)
    for key in keys:
        cache[key] = lookup([key])[key]
    hit, ttl, rate = per_hit(enricher.get, wanted), per_hit(cache.__getitem__, wanted), joined(enricher, wanted)
    tight, paced = latencies(enricher, wanted, lasting, 0), latencies(enricher, wanted, lasting, 1e-4)
    rounds = enricher.counts.decide_ms
    enricher.close()
    worst = [f"{np.percentile(each, 99):.0f} / {np.percentile(each, 99.9):.0f}" for each in (tight, paced)]
    shown = [f"{rows:,}", f"{hit:.2f}", f"{ttl:.2f}", f"{hit / ttl:.1f}", f"{rate:,.0f}", *worst, f"{rounds:.0f}"]
    return shown, hit / ttl, float(np.percentile(paced, 99))


def main() -> None:
    """The table, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="10000,100000", help="how many rows are held, with commas")
    parser.add_argument("--seconds", type=float, default=8, help="for how long latencies are measured")
    given = parser.parse_args()
    found, table = {}, []
    for rows in map(int, given.rows.split(",")):
        shown, found[f"hit_by_ttl_{rows}"], found[f"p99_us_{rows}"] = measured(rows, given.seconds)
        table.append(shown)
    columns = [
        "rows",
        "µs a hit",
        "TTLCache",
        "ratio",
        "events/s",
        "get p99 / p99.9 µs",
        "10,000 a second",
        "ms a choice",
    ]
    show("Enriching events when all is cached", columns, table)
    ratios(found)


if __name__ == "__main__":
    main()
