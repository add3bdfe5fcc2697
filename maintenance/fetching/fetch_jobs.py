"""Fetch jobs of one instant, carried out together: all are decided, all requests go out, then all are waited for.

A job is a generator that pauses while its requests are on their way. No job has a thread: the thread that began it
resumes it, and requests are under way meanwhile because their executors have threads.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")
IsReady: TypeAlias = Callable[[], bool]
Pending: TypeAlias = Generator[IsReady | None, None, T]
"""A generator with a result. It yields a function that returns whether resuming it would no longer wait, if known."""


class FetchJob(Protocol):
    """The fetches of one instant from one source, for all queries that need them."""

    failure: Exception | None
    """why there is no result; whoever needs the result raises it"""

    def prepare_round(self, now: int) -> None:
        """Find what is needed and what its refreshes are worth; other jobs may want the same budget."""
        ...

    def decide(self, now: int) -> None:
        """Choose what to fetch; nothing is sent yet."""
        ...

    def run(self, now: int) -> Pending[None]:
        """Send the requests, pause while they are on their way, and store the replies."""
        ...


@dataclass(eq=False)
class RunningJob:
    """A job whose requests are on their way."""

    job: FetchJob
    work: Pending[None]
    ready: IsReady | None = None

    @property
    def waits(self) -> bool:
        """True if resuming the job would wait, as far as that is known."""
        return self.ready is not None and not self.ready()

    def resume(self) -> bool:
        """Resume the job, waiting if need be; return False when it is done."""
        try:
            self.ready = next(self.work)
        except StopIteration:
            return False
        except Exception as error:
            self.job.failure = error
            return False
        return True


def fetch_all(jobs: Iterable[FetchJob], now: int) -> None:
    """Carry out all jobs of one instant."""
    running = begin_all(jobs, now)
    while running:
        running = [one for one in running if one.resume()]


def begin_all(jobs: Iterable[FetchJob], now: int) -> list[RunningJob]:
    """Prepare and decide all jobs of one instant, then send their requests; return the jobs that have to wait."""
    unique = list(dict.fromkeys(jobs))
    for job in unique:
        job.failure = None
        _guard(job, job.prepare_round, now)
    for job in unique:
        if job.failure is None:
            _guard(job, job.decide, now)
    running = [RunningJob(job, job.run(now)) for job in unique if job.failure is None]
    return [one for one in running if one.resume()]


def run_until_complete(work: Pending[T]) -> T:
    """Run a generator to its end and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def _guard(job: FetchJob, step: Callable[[int], None], now: int) -> None:
    """Run a step of a job; a job that fails leaves the others alone."""
    try:
        step(now)
    except Exception as error:
        job.failure = error
