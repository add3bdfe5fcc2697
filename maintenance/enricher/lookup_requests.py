"""Requests of an enricher: a user's lookup, run in the thread that reads or in threads of its own."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from freshkeeper.maintenance.base.errors import FreshkeeperError
from freshkeeper.maintenance.enricher.flights import Outcomes, Reply
from freshkeeper.maintenance.enricher.learned_rate import LearnedRate
from freshkeeper.maintenance.enricher.row import K, Row, V
from freshkeeper.maintenance.enricher.workers import Alarm, Workers
from freshkeeper.maintenance.fetching.endpoint import Copy, error_text
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, kind_of
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter

DEFAULT_PAUSE_S = 1.0
"""A source that refuses a request without saying for how long is left alone for so long."""
POLL_MS, MIN_POLL_MS = 50.0, 5.0
"""A source that takes no request now is tried again within these times."""
Rows: TypeAlias = Mapping[Any, Any]
Lookup: TypeAlias = Callable[[list[K]], Mapping[K, V | Row[V]]] | Callable[[list[K]], Awaitable[Mapping[K, V | Row[V]]]]
"""From keys to their rows; a row may be a `Row`, which says since when or until when it holds."""


class RetryAfter(FreshkeeperError):  # noqa: N818  # lookups raise it to say when, not that something is wrong
    """Raised by a lookup whose source wants no request for some seconds.

    >>> from freshkeeper import RetryAfter
    >>> RetryAfter(2).seconds
    2.0
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the source wants no request for {seconds:g} s")
        self.seconds = float(seconds)


class UnchangedRows(dict[Any, Any]):
    """Rows of which the source says that they have not changed since they were fetched, and what that cost."""

    def __init__(self, rows: Rows, cost: float | None) -> None:
        super().__init__(rows)
        self.cost = cost


def pause_of(error: BaseException) -> float | None:
    """Return for how many seconds a source wants no request, if its error says so."""
    if isinstance(error, RetryAfter):
        return error.seconds
    wait = getattr(error, "wait", None)
    if isinstance(wait, int | float):
        return float(wait)
    limited = isinstance(error, FetchError) and kind_of(str(error)) == "limited"
    return DEFAULT_PAUSE_S if limited else None


def is_asynchronous(lookup: Callable[..., Any]) -> bool:
    """Return whether a lookup has to be awaited."""
    if getattr(lookup, "asynchronous", False):
        return True
    return inspect.iscoroutinefunction(lookup) or inspect.iscoroutinefunction(type(lookup).__call__)


@dataclass(eq=False)
class LookupSender(ABC):
    """Sends requests to one lookup, within its rate limit, its pauses and its circuit breaker."""

    lookup: Callable[[list[Any]], Any]
    limiter: RateLimiter
    parallel: int = 8
    can_wait: bool = True
    name: str = "rows"
    learned_rate: LearnedRate = field(default_factory=LearnedRate)
    running: int = 0
    _lock: Lock = field(default_factory=Lock)
    """guards `running`: requests end in threads of their own"""

    def ready(self) -> bool:
        """Return whether a request may go now."""
        return (
            self.running < self.parallel and self.limiter.room() > 0 and self.learned_rate.ready(self.limiter.clock())
        )

    def wait(self) -> float:
        """Return for how many milliseconds no request may go, as far as it is known."""
        return min(max(self.learned_rate.wait(self.limiter.clock()) * 1000, MIN_POLL_MS), POLL_MS)

    def why_not(self) -> str:
        """Return why no request may go now."""
        if self.running >= self.parallel:
            return f"all {self.parallel} requests to source {self.name!r} are under way"
        now, learned = self.limiter.clock(), self.learned_rate
        if learned.ready(now):
            return f"source {self.name!r}: {self.limiter.why()}"
        if now < learned.paused_until:
            return f"source {self.name!r}: {learned.why}; paused for {learned.paused_until - now:.0f} s"
        return f"source {self.name!r}: {learned.why}; since then {learned.rate:.2g} requests are sent a second"

    def send(self, keys: Sequence[Hashable], done: Callable[[Reply], None], proven: bool) -> None:
        """Send one request and call `done` with its reply."""
        self.limiter.take()
        self.learned_rate.take()
        with self._lock:
            self.running += 1
        self._begin(list(keys), lambda result: self._finish(keys, result, done, proven))

    @abstractmethod
    def wake(self, after: float) -> None:
        """Wake the engine in so many milliseconds."""

    @abstractmethod
    def _begin(self, keys: list[Hashable], replied: "Callable[[Callable[[], Any]], None]") -> None:
        """Call the lookup and hand a function that returns its result, or raises what it raised, to `replied`."""

    def _finish(
        self, keys: Sequence[Hashable], result: Callable[[], Any], done: Callable[[Reply], None], proven: bool
    ) -> None:
        with self._lock:
            self.running -= 1
        try:
            found = result()
            outcomes = read_rows(keys, found)
        except BaseException as error:  # whatever a lookup raises costs its own keys, and nothing else
            text = str(error) if isinstance(error, RetryAfter) else error_text(error)
            outcomes = {key: Copy(error=text) for key in keys}
            wait = pause_of(error)
            if wait is not None:
                self.limiter.failed(wait)
                self.learned_rate.refused(self.limiter.clock(), wait, str(error))
            elif proven:  # a breaker that opens for keys that always fail would shut out the others
                self.limiter.failed()
            done(Reply(outcomes, refused=wait is not None))
        else:
            self.limiter.succeeded()
            self.learned_rate.accepted(self.limiter.clock())
            unchanged = isinstance(found, UnchangedRows)
            done(Reply(outcomes, cost=found.cost if unchanged else None, unchanged=unchanged))


@dataclass(eq=False)
class InlineSender(LookupSender):
    """Calls the lookup in the thread that reads; nothing can wait."""

    can_wait: bool = False

    def wake(self, after: float) -> None:
        """No read waits, so nothing has to be woken."""

    def _begin(self, keys: list[Hashable], replied: Callable[[Callable[[], Any]], None]) -> None:
        future: Future[Any] = Future()
        try:
            future.set_result(self.lookup(keys))
        except BaseException as error:
            future.set_exception(error)
            replied(future.result)  # also after Ctrl-C nothing counts as under way
            if not isinstance(error, Exception):
                raise
            return
        replied(future.result)


@dataclass(eq=False)
class ThreadSender(LookupSender):
    """Calls the lookup in daemon threads."""

    pump: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        self._workers = Workers(self.parallel, self.name)
        self._alarm = Alarm(lambda: self.pump(), f"{self.name}-alarm")

    def restart(self) -> None:
        """Begin anew in a forked child, where no thread lives on."""
        self.running = 0
        self._lock = Lock()
        self.__post_init__()

    def wake(self, after: float) -> None:
        """Wake the engine from the alarm's thread."""
        self._alarm.set(after / 1000)

    def _begin(self, keys: list[Hashable], replied: Callable[[Callable[[], Any]], None]) -> None:
        future = self._workers.submit(self.lookup, keys)
        future.add_done_callback(lambda done: replied(done.result))


def read_rows(keys: Sequence[Hashable], found: object) -> Outcomes:
    """Return an outcome for each key from what a lookup returned; a key that is not in it has no row (None)."""
    if not isinstance(found, Mapping):
        raise TypeError(f"a lookup returns a mapping from keys to rows, not {type(found).__name__}")
    if found and not any(key in found for key in keys):
        wanted, got = keys[0], next(iter(found))
        raise TypeError(
            f"the lookup was asked for {wanted!r} ({type(wanted).__name__}) and returned only other keys, such as "
            f"{got!r} ({type(got).__name__}): return the keys as they were given"
        )
    return {key: as_copy(found.get(key)) for key in keys}


def as_copy(row: object) -> Copy:
    """Return a row of a lookup with its dates."""
    if isinstance(row, Row):
        return row.as_copy()
    if isinstance(row, Copy):
        return Row(row.value, row.modified, row.expires).as_copy() if row.error is None else row
    return Copy(row)
