"""The answer: the least budget with which each policy keeps the target, and the needs of caches without a budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from freshkeeper.maintenance.base.stats import Estimate
from freshkeeper.simulator.budget.budget_searches import BudgetSearches, Progress
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.search import least_budget, then_sample_around
from freshkeeper.simulator.experiment.point import Point
from freshkeeper.simulator.experiment.run_parts import task_of
from freshkeeper.simulator.experiment.ttl_caches import ONCE, REFRESH_AHEAD, TTL, UNCACHED, Caches, Reads

TOLERATED_EXTRA_REQUESTS = 0.03
"""A TTL cache counts as making as many requests up to this share more: it must fetch what it lacks."""
SHARE_OF_TTL = 0.6
"""Where a search begins: policies need between a third and all of the requests of a TTL cache."""


@dataclass(frozen=True)
class Requirement:
    """The requests that one policy or cache needs for the target."""

    curve: str
    budgeted: bool
    point: Point | None
    """None where it never gets there"""
    nearest: Point
    """the same, or the freshest point that was tried"""
    ttl: Point | None = None
    """the TTL cache with as many requests as the nearest point, or the one with the fewest"""
    ahead: Estimate | None = None
    """by how much the nearest is fresher than that; None where no TTL cache makes so few"""


@dataclass(frozen=True)
class BudgetAnswer:
    """The answer to a question about budgets."""

    question: Question
    needed: list[Requirement]
    curves: Mapping[str, Sequence[Point]]
    arrivals: int
    keys: int
    evaluations: int
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Requirement | None:
        """The policy that reaches the target with the fewest requests, to three digits; the freshest of several."""
        there = [one for one in self.needed if one.budgeted and one.point is not None]
        points = ((float(f"{one.nearest.requests:.3g}"), -one.nearest.freshness.mean, one) for one in there)
        return min(points, key=lambda each: each[:2], default=(0.0, 0.0, None))[2]

    def of(self, curve: str) -> Requirement:
        """Return what one policy or cache needs."""
        return next(one for one in self.needed if one.curve == curve)


def answer(
    question: Question, jobs: int = 1, progress: Progress | None = None, notes: Sequence[str] = ()
) -> BudgetAnswer:
    """Answer a question; `progress` is called with every measured budget."""
    any_budget = question.with_budget(question.policies[0], 1.0)
    tasks = [task_of(any_budget, 0, seed) for seed in any_budget.seed_list]
    caches = Caches([Reads.of(task) for task in tasks], tasks[0].warm_up, question.draws_traces)
    ttl = caches.fresh(TTL, question.target)
    guess = SHARE_OF_TTL * (ttl or caches.uncached.point(UNCACHED, 0.0)).requests
    titles = [policy.title for policy in question.policies]
    searches = BudgetSearches(question, tasks[0].warm_up, progress)
    most = float(ceil(caches.most))
    by_title = {title: then_sample_around(least_budget(question.target, guess, most), most) for title in titles}
    least = searches.search(by_title, jobs)
    needed = [_of_policy(searches, caches, title, least[title]) for title in titles]
    curves = {name: caches.curve(name) for name in (REFRESH_AHEAD, TTL)}
    curves |= {title: searches.points(title) for title in titles}
    curves |= {UNCACHED: [caches.uncached.point(UNCACHED, 0.0)], ONCE: [caches.once.point(ONCE, float(caches.longest))]}
    needed += [
        _of_cache(curves, TTL, ttl),
        _of_cache(curves, REFRESH_AHEAD, caches.fresh(REFRESH_AHEAD, question.target)),
    ]
    for name in (UNCACHED, ONCE):
        enough = curves[name][0].freshness.mean >= question.target
        needed.append(_of_cache(curves, name, curves[name][0] if enough else None))
    trace = tasks[0].trace
    return BudgetAnswer(
        question=question,
        needed=needed,
        curves=curves,
        arrivals=len(trace.arrivals),
        keys=trace.sns,
        evaluations=tasks[0].evaluations,
        notes=list(notes),
    )


def _of_policy(searches: BudgetSearches, caches: Caches, title: str, budget: float | None) -> Requirement:
    points = searches.points(title)
    freshest = max(points, key=lambda point: point.freshness.mean)
    nearest = next((point for point in points if point.knob == budget), freshest)
    rival, ttl = caches.spending(nearest.requests)
    as_many = ttl.requests <= nearest.requests * (1 + TOLERATED_EXTRA_REQUESTS)
    requirement = Requirement(title, budgeted=True, point=None, nearest=nearest, ttl=ttl)
    if budget is not None:
        requirement = replace(requirement, point=nearest)
    if as_many:
        requirement = replace(requirement, ahead=searches.measured[title, nearest.knob].ahead(rival))
    return requirement


def _of_cache(curves: Mapping[str, Sequence[Point]], name: str, point: Point | None) -> Requirement:
    return Requirement(name, False, point, point or max(curves[name], key=lambda one: one.freshness.mean))
