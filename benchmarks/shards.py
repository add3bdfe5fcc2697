"""A graph in 100 shards under one budget: one choice of all, one price found by rounds of counts, or a share for each.

Shards keep their own views. With a *price* each refreshes what is worth at least that; the price is the one at which
all of them together refresh what the budget pays for. A coordinator finds it by asking how many entries are worth how
much, 16 prices at a time, beginning at the last evaluation's. What is equal at the price is left to the next
evaluation, so that a price never spends more than the budget. Freshness is expected, the mean over evaluations.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from stopwatch import ratios, show

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.cache.view.learned import exponential
from freshkeeper.policies.base import Knowledge, Round, Structure
from freshkeeper.policies.gain import Gain
from freshkeeper.policies.ranked import NO

SHARDS, ENTRIES, EVALUATIONS, STEP, HORIZON, AT_ONCE = 100, 1_000, 60, 1_000, 4, 16
POLICY = Gain(expect=False, windows=1)
Choice = Callable[[Floats, int], Ints]


@dataclass
class Price:
    """Finds the price by counts; remembers where it was, and how many messages it took."""

    last: float = 1.0
    rounds: list[int] = field(default_factory=list)

    def __call__(self, scores: Floats, most: int) -> Ints:
        """What is worth the price in any shard."""
        shards = np.sort(scores.reshape(SHARDS, -1), axis=1)
        low, high, asked = 0.0, np.inf, 0
        grid = self.last * 2.0 ** np.linspace(-1, 1, AT_ONCE)
        while asked < 12:
            asked += 1
            counts = sum(shard.size - np.searchsorted(shard, grid) for shard in shards)
            enough = counts <= most
            low = max(low, float(grid[~enough].max(initial=0.0)))
            high = min(high, float(grid[enough].min(initial=np.inf)))
            if enough.any() and counts[enough].max() >= 0.995 * most:
                break
            top = high if np.isfinite(high) else low * 2.0**AT_ONCE
            grid = np.geomspace(max(low, top / 2.0**AT_ONCE), top, AT_ONCE + 2)[1:-1]
        self.last = high
        self.rounds.append(asked)
        return np.flatnonzero(scores >= high)


def global_choice(scores: Floats, most: int) -> Ints:
    """The best of all."""
    best = np.argpartition(-scores, most)[:most]
    return best[scores[best] > NO]


def shared(shares: Floats) -> Choice:
    """The best of every shard, each with a share of the budget."""

    def chosen(scores: Floats, most: int) -> Ints:
        money = np.floor(most * shares).astype(int)
        money[np.argsort(-(most * shares - money))[: most - money.sum()]] += 1
        parts = scores.reshape(SHARDS, -1)
        best = [
            np.argsort(-part)[:n] + ENTRIES * shard for shard, (part, n) in enumerate(zip(parts, money, strict=True))
        ]
        rows = np.concatenate(best)
        return rows[scores[rows] > NO]

    return chosen


def world(skew: float) -> tuple[Floats, Floats]:
    """Demand and change rates: shards differ in popularity by a power law, entries in both, heavy-tailed."""
    rng = np.random.default_rng(1)
    popularity = rng.permutation((1.0 + np.arange(SHARDS)) ** -skew)
    demand = np.repeat(popularity / popularity.mean(), ENTRIES) * rng.lognormal(0.0, 1.0, SHARDS * ENTRIES)
    return demand, np.exp(rng.uniform(np.log(1e-6), np.log(1e-3), SHARDS * ENTRIES))


def freshness(choose: Choice, demand: Floats, rates: Floats, most: int) -> tuple[float, float]:
    """Of the answers, expected; and refreshes per evaluation."""
    refreshed = np.full(demand.size, -30 * STEP)
    fresh, spent = [], []
    for k in range(EVALUATIONS):
        now = k * STEP
        beliefs = exponential(rates, now + STEP * np.arange(HORIZON), refreshed, False)
        ahead = demand[:, None] * (1.0 - np.arange(HORIZON) / HORIZON)
        round = Round(
            ahead, beliefs.refreshed, beliefs.kept, np.ones(demand.size), refreshed, no_structure,
            lambda: np.empty(0), knowledge=Knowledge.RATES, now=now,
        )  # fmt: skip
        chosen = choose(POLICY.score(round), most)
        assert chosen.size <= most, f"{chosen.size} refreshes, {most} paid for"
        refreshed[chosen] = now
        kept = beliefs.kept[:, 0].copy()
        kept[chosen] = 1.0
        fresh.append(float(demand @ kept / demand.sum()))
        spent.append(chosen.size)
    return float(np.mean(fresh[EVALUATIONS // 10 :])), float(np.mean(spent))


def no_structure() -> Structure:
    """Scores are of each entry by itself."""
    raise AssertionError


def report(most: int) -> None:
    """A table for shards that are alike, and for those that are not."""
    rows, named = [], {}
    for skew in (0.0, 1.0):
        demand, rates = world(skew)
        by_demand = demand.reshape(SHARDS, -1).sum(axis=1) / demand.sum()
        price = Price()
        ways: dict[str, Choice] = {
            "one choice": global_choice, "one price": price,
            "equal shares": shared(np.full(SHARDS, 1 / SHARDS)), "shares by demand": shared(by_demand),
        }  # fmt: skip
        found = {name: freshness(way, demand, rates, most) for name, way in ways.items()}
        asked = 1 + float(np.mean(price.rounds))
        messages = {
            "one choice": f"{SHARDS} with {most:,} candidates each",
            "one price": f"{asked * SHARDS:,.0f}, small",
        }
        for name, (fresh, spent) in found.items():
            lost = 100 * (found["one choice"][0] - fresh)
            rows.append(
                [f"skew {skew:g}: {name}", f"{fresh:.4f}", f"{lost:.2f}", f"{spent:,.0f}", messages.get(name, "0")]
            )
            named[f"{name.replace(' ', '_')}_lost_at_skew_{skew:g}"] = lost
        named[f"rounds_at_skew_{skew:g}"] = float(np.mean(price.rounds))
    show(f"{SHARDS} shards of {ENTRIES:,} entries, γ = {most:,}, gain, known rates",
         ["", "freshness", "points lost", "refreshes", "messages per evaluation"], rows)  # fmt: skip
    ratios(named)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=1_000)
    report(parser.parse_args().budget)
