"""Searches for the budgets of all policies at once, in the simulated world and in several processes."""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.run_without_journal import run_without_journal
from freshkeeper.simulator.budget.search import Search
from freshkeeper.simulator.experiment.experiment import worker_processes
from freshkeeper.simulator.experiment.experiment_config import Experiment
from freshkeeper.simulator.experiment.point import EvaluationSeries, MeasuredPoint, Point
from freshkeeper.simulator.experiment.run_parts import task_of

Progress = Callable[[Point], None]
Candidate = tuple[str, float]
"""A policy, by its title, and a budget."""


class SameProcessExecutor(Executor):
    """An executor that runs everything at once in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call the function, and return its result as a finished future."""
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@dataclass(eq=False)
class BudgetSearches:
    """The searches of all policies, and the measured budgets."""

    question: Question
    warm_up: int
    progress: Progress | None = None
    measured: dict[Candidate, MeasuredPoint] = field(default_factory=dict)
    _parts: dict[Candidate, dict[int, EvaluationSeries]] = field(default_factory=dict)

    def points(self, title: str) -> list[Point]:
        """Return the measured points of one policy, by budget."""
        mine = sorted(budget for name, budget in self.measured if name == title)
        return [self.measured[title, budget].point(title, budget) for budget in mine]

    def search(self, searches: Mapping[str, Search], jobs: int) -> dict[str, float | None]:
        """Run all searches to their ends, and return the least budget of each."""
        found: dict[str, float | None] = {}
        waiting: dict[Future[EvaluationSeries], tuple[Candidate, int]] = {}
        with SameProcessExecutor() if jobs == 1 else worker_processes(jobs) as pool:
            for title, search in searches.items():
                waiting |= self._advance(pool, title, search, next(search))
            while waiting:
                for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                    (title, budget), seed = waiting.pop(done)
                    if not self._add((title, budget), seed, done.result()):
                        continue
                    try:
                        wanted = searches[title].send(self.measured[title, budget].share)
                        waiting |= self._advance(pool, title, searches[title], wanted)
                    except StopIteration as end:
                        found[title] = end.value
        return found

    def _advance(
        self, pool: Executor, title: str, search: Search, budget: float
    ) -> "dict[Future[EvaluationSeries], tuple[Candidate, int]]":
        """Submit the next budget of a search, skipping those measured before; raise StopIteration at its end."""
        while (title, budget) in self.measured:
            budget = search.send(self.measured[title, budget].share)
        return self._submit(pool, title, budget)

    def _submit(
        self, pool: Executor, title: str, budget: float
    ) -> "dict[Future[EvaluationSeries], tuple[Candidate, int]]":
        policy = next(one for one in self.question.policies if one.title == title)
        asked = self.question.with_budget(policy, budget)
        return {pool.submit(_try, asked, seed): ((title, budget), seed) for seed in asked.seed_list}

    def _add(self, what: Candidate, seed: int, came: EvaluationSeries) -> bool:
        """Record the result of one seed; return True when all seeds have reported."""
        parts = self._parts.setdefault(what, {})
        parts[seed] = came
        seeds = self.question.experiment.seed_list
        if len(parts) < len(seeds):
            return False
        self.measured[what] = MeasuredPoint([parts[one] for one in seeds], self.warm_up, self.question.draws_traces)
        if self.progress is not None:
            self.progress(self.measured[what].point(*what))
        return True


def _try(experiment: Experiment, seed: int) -> EvaluationSeries:
    return run_without_journal(task_of(experiment, 0, seed), experiment.policies[0])
