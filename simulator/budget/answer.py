"""The answer: the least budget with which each policy keeps the target, beside what caches without a budget need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.search import least_budget, with_a_curve
from freshkeeper.simulator.budget.tries import Progress, Tries
from freshkeeper.simulator.experiment.point import Point
from freshkeeper.simulator.experiment.run_parts import task_of
from freshkeeper.simulator.experiment.ttl_caches.cache_reads import Reads
from freshkeeper.simulator.experiment.ttl_caches.caches import AHEAD, ONCE, TTL, UNCACHED, Caches
from freshkeeper.simulator.report.intervals import Estimate

TRIFLE = 0.03
"""More requests than this is no longer as many: a cache that fetches what it lacks cannot ask less than that."""
SHARE_OF_TTL = 0.6
"""Where a search begins: policies were seen to need between a third and all of what a TTL cache does."""


@dataclass(frozen=True)
class Needed:
    """What one policy or cache needs for the target."""

    curve: str
    budgeted: bool
    point: Point | None
    """None where it never gets there"""
    nearest: Point
    """the same, or the freshest one that was tried"""
    ttl: Point | None = None
    """the TTL cache that makes as many requests as the nearest, or the one that makes fewest of all"""
    ahead: Estimate | None = None
    """by how much the nearest is fresher than that; None where no TTL cache makes so few"""


@dataclass(frozen=True)
class Answer:
    """All that was found."""

    question: Question
    needed: list[Needed]
    curves: Mapping[str, Sequence[Point]]
    arrivals: int
    keys: int
    evaluations: int
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Needed | None:
        """The policy that gets there with the fewest requests, to three digits; of several the freshest."""
        there = [one for one in self.needed if one.budgeted and one.point is not None]
        points = ((float(f"{one.nearest.requests:.3g}"), -one.nearest.freshness.mean, one) for one in there)
        return min(points, key=lambda each: each[:2], default=(0.0, 0.0, None))[2]

    def of(self, curve: str) -> Needed:
        """What one of them needs."""
        return next(one for one in self.needed if one.curve == curve)


def answer(question: Question, jobs: int = 1, progress: Progress | None = None, notes: Sequence[str] = ()) -> Answer:
    """Find it; `progress` hears of every budget that was tried."""
    any_budget = question.with_budget(question.policies[0], 1.0)
    tasks = [task_of(any_budget, 0, seed) for seed in any_budget.seed_list]
    caches = Caches([Reads.of(task) for task in tasks], tasks[0].warm_up, question.drawn)
    ttl = caches.fresh(TTL, question.target)
    guess = SHARE_OF_TTL * (ttl or caches.uncached.point(UNCACHED, 0.0)).requests
    titles = [policy.title for policy in question.policies]
    tries = Tries(question, tasks[0].warm_up, progress)
    most = float(ceil(caches.most))
    searches = {title: with_a_curve(least_budget(question.target, guess, most), most) for title in titles}
    found = tries.search(searches, jobs)
    needed = [_of_policy(tries, caches, title, found[title]) for title in titles]
    curves = {name: caches.curve(name) for name in (AHEAD, TTL)} | {title: tries.points(title) for title in titles}
    curves |= {UNCACHED: [caches.uncached.point(UNCACHED, 0.0)], ONCE: [caches.once.point(ONCE, float(caches.longest))]}
    needed += [_of_cache(curves, TTL, ttl), _of_cache(curves, AHEAD, caches.fresh(AHEAD, question.target))]
    for name in (UNCACHED, ONCE):
        enough = curves[name][0].freshness.mean >= question.target
        needed.append(_of_cache(curves, name, curves[name][0] if enough else None))
    trace = tasks[0].trace
    return Answer(question, needed, curves, len(trace.arrivals), trace.sns, tasks[0].evaluations, list(notes))


def _of_policy(tries: Tries, caches: Caches, title: str, budget: float | None) -> Needed:
    points = tries.points(title)
    freshest = max(points, key=lambda point: point.freshness.mean)
    nearest = next((point for point in points if point.knob == budget), freshest)
    rival, ttl = caches.spending(nearest.requests)
    as_many = ttl.requests <= nearest.requests * (1 + TRIFLE)
    ahead = tries.known[title, nearest.knob].ahead(rival) if as_many else None
    return Needed(title, True, None if budget is None else nearest, nearest, ttl, ahead)


def _of_cache(curves: Mapping[str, Sequence[Point]], name: str, point: Point | None) -> Needed:
    return Needed(name, False, point, point or max(curves[name], key=lambda one: one.freshness.mean))
