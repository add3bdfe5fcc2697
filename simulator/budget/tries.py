"""Budgets tried in the simulated world: the searches of all policies at once, in the processes of the machine."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context
from typing import Any

from freshkeeper.simulator.budget.played import played
from freshkeeper.simulator.budget.question import Question
from freshkeeper.simulator.budget.search import Search
from freshkeeper.simulator.experiment.experiment import follow_parent
from freshkeeper.simulator.experiment.experiment_config import Experiment
from freshkeeper.simulator.experiment.point import EvaluationSeries, MeasuredPoint, Point
from freshkeeper.simulator.experiment.run_parts import task_of

Progress = Callable[[Point], None]
Try = tuple[str, float]
"""A policy, by its title, and a budget."""


class Here(Executor):
    """Does what is submitted at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Give what came of it as a future that is done."""
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@dataclass(eq=False)
class Tries:
    """All budgets that were tried, and what came of them."""

    question: Question
    warm_up: int
    progress: Progress | None = None
    known: dict[Try, MeasuredPoint] = field(default_factory=dict)
    _parts: dict[Try, dict[int, EvaluationSeries]] = field(default_factory=dict)

    def points(self, title: str) -> list[Point]:
        """Those of one policy, by budget."""
        mine = sorted(budget for name, budget in self.known if name == title)
        return [self.known[title, budget].point(title, budget) for budget in mine]

    def search(self, searches: Mapping[str, Search], jobs: int) -> dict[str, float | None]:
        """Let all searches run to their ends; gives what each found."""
        found: dict[str, float | None] = {}
        waiting: dict[Future[EvaluationSeries], tuple[Try, int]] = {}
        with _executor(jobs) as pool:
            for title, search in searches.items():
                waiting |= self._asked(pool, title, search, next(search))
            while waiting:
                for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                    (title, budget), seed = waiting.pop(done)
                    if not self._add((title, budget), seed, done.result()):
                        continue
                    try:
                        wanted = searches[title].send(self.known[title, budget].share)
                        waiting |= self._asked(pool, title, searches[title], wanted)
                    except StopIteration as end:
                        found[title] = end.value
        return found

    def _asked(
        self, pool: Executor, title: str, search: Search, budget: float
    ) -> "dict[Future[EvaluationSeries], tuple[Try, int]]":
        """Try what a search wants; what was tried before is told at once; StopIteration where that is all."""
        while (title, budget) in self.known:
            budget = search.send(self.known[title, budget].share)
        return self._submit(pool, title, budget)

    def _submit(self, pool: Executor, title: str, budget: float) -> "dict[Future[EvaluationSeries], tuple[Try, int]]":
        policy = next(one for one in self.question.policies if one.title == title)
        asked = self.question.with_budget(policy, budget)
        return {pool.submit(_try, asked, seed): ((title, budget), seed) for seed in asked.seed_list}

    def _add(self, what: Try, seed: int, came: EvaluationSeries) -> bool:
        """One seed more; tells whether that were all."""
        parts = self._parts.setdefault(what, {})
        parts[seed] = came
        seeds = self.question.experiment.seed_list
        if len(parts) < len(seeds):
            return False
        self.known[what] = MeasuredPoint([parts[one] for one in seeds], self.warm_up, self.question.drawn)
        if self.progress is not None:
            self.progress(self.known[what].point(*what))
        return True


def _try(experiment: Experiment, seed: int) -> EvaluationSeries:
    return played(task_of(experiment, 0, seed), experiment.policies[0])


@contextmanager
def _executor(jobs: int) -> Iterator[Executor]:
    """Processes, which end with this one however it ends."""
    if jobs == 1:
        yield Here()
        return
    others = active_children()
    with ProcessPoolExecutor(jobs, get_context("spawn"), follow_parent) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                if child not in others:
                    child.terminate()
            raise
