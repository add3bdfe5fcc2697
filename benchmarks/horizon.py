"""How fresh rows are with the horizon that an enricher learns, beside horizons that are said, at three paces.

200 keys are asked for once in a second, a minute or an hour, at random or regularly, and change once in half to ten
such times; the budget is a request for every five reads. Percent of the rows that were answered with what the source
had, after the first third, by which a horizon has been learned.
"""

import argparse
from itertools import product

import numpy as np
from stopwatch import show

from freshkeeper import Enricher
from freshkeeper.maintenance.base.arrays import Floats, Ints

KEYS, REUSES, SEEDS = 200, {"1s": 60, "1m": 12, "1h": 12}, 3
PACES = {"1s": (1000, "40/s"), "1m": (60_000, "40/min"), "1h": (3_600_000, "40/h")}
HORIZONS = ("10s", "1m", "10m", "1h", "6h", None)


def asked(rng: np.random.Generator, pace: int, lasts: int, regular: bool) -> tuple[Ints, Ints]:
    """When which key is asked for."""
    times, keys = [], []
    for key in range(KEYS):
        number = 2 * lasts // pace + 20
        gaps = np.full(number, pace) if regular else rng.exponential(pace, number)
        at = (rng.uniform(0, pace) if regular else 0) + np.cumsum(gaps)
        times.append(at[at < lasts])
        keys.append(np.full(times[-1].size, key))
    when = np.concatenate(times).astype(np.int64) + 1
    order = np.argsort(when, kind="stable")
    return when[order], np.concatenate(keys)[order]


def right(pace: str, regular: bool, horizon: str | None, seed: int) -> float:
    """The share of answers that were as the source has them."""
    mean, budget = PACES[pace]
    lasts, rng = mean * REUSES[pace], np.random.default_rng(seed)
    intervals = np.exp(rng.uniform(np.log(mean / 2), np.log(mean * 10), KEYS))
    changes: list[Floats] = [np.cumsum(rng.exponential(each, int(2 * lasts / each) + 20)) for each in intervals]
    clock, good = [1], []

    def versions(keys: list[int]) -> dict[int, int]:
        return {key: int(np.searchsorted(changes[key], clock[0])) for key in keys}

    with Enricher(versions, budget, horizon=horizon, background=False, clock=lambda: clock[0]) as enricher:
        enricher.tick(1)
        due = 1 + enricher.every
        for at, key in zip(*(each.tolist() for each in asked(rng, mean, lasts, regular)), strict=True):
            for round_at in range(due, at + 1, enricher.every):
                clock[0] = round_at
                enricher.tick(round_at)
                due = round_at + enricher.every
            clock[0] = at
            found = enricher.get(key).value == versions([key])[key]
            if at > lasts / 3:
                good.append(found)
    return float(np.mean(good))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = []
    for pace, regular in product(PACES, (False, True)):
        shares = [[100 * right(pace, regular, horizon, seed) for seed in range(SEEDS)] for horizon in HORIZONS]
        name = f"every {pace}, {'regularly' if regular else 'at random'}"
        rows.append([name, *(f"{np.mean(each):.1f}" for each in shares)])
    show("Percent of answers that were right, by horizon", ["asked for", *(h or "learned" for h in HORIZONS)], rows)
