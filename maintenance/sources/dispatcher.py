"""Requests to a remote source: several at once, within limits, with second tries, back by the deadline.

What is not there by the deadline stays on its way and comes with a later send. A request counts as sent from the moment
when there is a connection for it and the rate limiter lets it through, every try anew; after the deadline nothing more
is sent for it, because what was sent is paid by then. Every request of an order is sure of one try before any has a
second.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from random import Random
from threading import Event, Lock
from typing import Any, Protocol

from freshkeeper.maintenance.fetching.endpoint import LONGEST_ERROR, PENDING
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError, unreadable
from freshkeeper.maintenance.fetching.http.exchange import Deadline
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.sources.transport import NOT_SENT, LateReply, Reply, Request, Sent, Wondering

PATIENCE = 0.1
"""Seconds to wait for the rate limiter: as many as an evaluation may begin too early for a limit per step."""
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
"""Seconds before a second try: drawn between none and this, twice as many each time."""


class Carrier(Protocol):
    """How one request reaches the source."""

    def carry(self, request: Request, now: int, deadline: Deadline) -> Reply:
        """One try; FetchError or NotSentError says why there is no reply."""

    def close(self) -> None:
        """Close connections; tries under way fail."""


@dataclass(frozen=True)
class RequestOptions:
    """How a source wants to be asked, in seconds."""

    concurrency: int = 8
    timeout: float = 10.0
    deadline: float = math.inf
    retries: int = 2


@dataclass(eq=False)
class Dispatcher:
    """The transport of one source, shared by all who ask it, from any thread."""

    carrier: Carrier
    limiter: RateLimiter = field(default_factory=RateLimiter)
    options: RequestOptions = field(default_factory=RequestOptions)
    mask: Callable[[str], str] = str
    """takes secrets out of what is shown"""
    clock: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=Random)
    traced: Callable[[int, int, int, str], None] | None = None
    """is told of every try: of which evaluation, when it began (ns), for how many keys, why it failed"""
    _late: list["_Job"] = field(default_factory=list)
    _booked: int = 0
    _lock: Lock = field(default_factory=Lock)
    """of what is late"""

    def __post_init__(self) -> None:
        self._closed = Event()
        self._threads = ThreadPoolExecutor(self.options.concurrency, "source")

    def room(self, now: int) -> float:
        """What the rate limiter lets through; nothing while every thread waits for an answer that is late."""
        del now
        if self.busy >= self.options.concurrency:
            return 0
        return max(0, self.limiter.room(PATIENCE) - self._booked)

    def book(self, requests: int) -> None:
        """So many more are about to be sent, or so many fewer."""
        with self._lock:
            self._booked += requests

    @property
    def busy(self) -> int:
        """How many requests of earlier sends still have a thread."""
        with self._lock:
            return sum(not job.future.done() for job in self._late)

    def send(
        self, requests: Sequence[Request], now: int, allowance: float, owner: object = None, within: float = math.inf
    ) -> Sent:
        """Send all, wait until all are back or time is up."""
        return self.begin(requests, now, allowance, owner, within)()

    def begin(
        self, requests: Sequence[Request], now: int, allowance: float, owner: object = None, within: float = math.inf
    ) -> Callable[[], Sent]:
        """Send all; what this gives waits until all are back or time is up."""
        until = self.clock() + min(within, self.options.deadline)
        batch = _Batch(until, max(0.0, allowance - len(requests)))
        jobs = [
            _Job(self, batch, request, now, owner) if n + 1 <= allowance else None for n, request in enumerate(requests)
        ]
        for job in jobs:
            if job is not None:
                job.future = self._threads.submit(job.run)
        return _Waiter(self, jobs, until, owner)

    def wait(self, jobs: Sequence["_Job | None"], until: float, owner: object) -> Sent:
        """What has come of them when all are back or time is up."""
        started = [job.future for job in jobs if job is not None]
        wait(started, None if until == math.inf else max(0.0, until - self.clock()))
        replies = [NOT_SENT if job is None else self._settled(job) for job in jobs]
        return Sent(replies, self._arrived(owner))

    def state(self, ahead: int = 0) -> dict[str, Any]:
        """Limits, pause and breaker."""
        return self.limiter.state(ahead)

    def restore(self, state: Mapping[str, Any]) -> None:
        """As an earlier run left them."""
        self.limiter.restore(state)

    def oddities(self) -> list[str]:
        """What the source said that cannot be right."""
        return self.carrier.oddities() if isinstance(self.carrier, Wondering) else []

    def close(self) -> None:
        """Let go of everything; what is under way fails."""
        self._closed.set()
        self.carrier.close()
        self._threads.shutdown(cancel_futures=True)

    def pause(self, seconds: float) -> bool:
        """Wait; tells whether there is still something to wait for."""
        return not self._closed.wait(seconds)

    def _settled(self, job: "_Job") -> Reply:
        """What is known of a job when time is up."""
        sent = job.settle()
        if job.future.done():
            return job.future.result()
        if not job.future.cancel():
            with self._lock:
                self._late.append(job)
        if not sent:
            return Reply(error="not sent: there was no time left", sent=0)
        return Reply(error=PENDING, sent=sent, pending=True)

    def _arrived(self, owner: object) -> list[LateReply]:
        """The late replies of an owner that are there now."""
        with self._lock:
            here = [job for job in self._late if job.future.done() and (job.owner is owner or not job.awaited)]
            self._late = [job for job in self._late if job not in here]
        return [LateReply(job.request, job.future.result(), job.now) for job in here if job.awaited]


@dataclass(frozen=True, eq=False)
class _Waiter:
    """Waits for the requests of one order."""

    dispatcher: Dispatcher
    jobs: Sequence["_Job | None"]
    until: float
    owner: object

    def __call__(self) -> Sent:
        return self.dispatcher.wait(self.jobs, self.until, self.owner)

    def ready(self) -> bool:
        """Whether all are back, or time is up."""
        return self.dispatcher.clock() >= self.until or all(job is None or job.future.done() for job in self.jobs)


@dataclass(eq=False)
class _Batch:
    """What the requests of one order share: the time, and what may be sent beside one try each."""

    until: float
    spare: float
    lock: Lock = field(default_factory=Lock)


@dataclass(eq=False)
class _Job:
    """One request on its way."""

    dispatcher: Dispatcher
    batch: _Batch
    request: Request
    now: int
    owner: object
    future: Future[Reply] = field(default_factory=Future)
    sent: int = 0
    settled: bool = False

    @property
    def awaited(self) -> bool:
        """Whether somebody wants to know what comes of it."""
        return self.owner is not None and self.sent > 0

    def run(self) -> Reply:
        """Try until there is an answer, or no more try is worth it."""
        dispatcher, tries = self.dispatcher, self.dispatcher.options.retries + 1
        error = ""
        for n in range(tries):
            try:
                deadline = Deadline(dispatcher.clock() + dispatcher.options.timeout, self._may_go)
                reply = self._carried(deadline)
            except NotSentError as why:
                return self._failed(error or str(why))
            except FetchError as fault:
                if fault.refused:
                    dispatcher.limiter.succeeded()
                    return replace(self._failed(str(fault)), refused=True)
                dispatcher.limiter.failed(fault.wait)
                error = str(fault)
                if not fault.again or n + 1 == tries or not self._rest(n):
                    return replace(self._failed(error), refused=fault.keys)
            else:
                dispatcher.limiter.succeeded()
                return replace(reply, sent=self.sent)
        raise AssertionError("unreachable")

    def _carried(self, deadline: Deadline) -> Reply:
        """One try; whatever a source answers, and be it a library's panic, is an answer that failed."""
        began, failure = time.time_ns(), ""
        try:
            return self.dispatcher.carrier.carry(self.request, self.now, deadline)
        except NotSentError:
            began = 0
            raise
        except FetchError as error:
            failure = self.dispatcher.mask(str(error))
            raise
        except BaseException as error:
            failure = "its answer is none"
            raise FetchError(unreadable(error), keys=True) from None
        finally:
            if began and (traced := self.dispatcher.traced) is not None:
                traced(self.now, began, len(self.request.keys), failure)

    def settle(self) -> int:
        """Nothing more is sent; tells how often it was."""
        with self.batch.lock:
            self.settled = True
            return self.sent

    def _failed(self, error: str) -> Reply:
        shown = self.dispatcher.mask(error)  # before it is cut: half a secret would not be found
        return Reply(error=shown[:LONGEST_ERROR] + " ..." * (len(shown) > LONGEST_ERROR), sent=self.sent)

    def _may_go(self) -> bool:
        """Whether a request may be sent now; it waits a little for the rate limiter."""
        while True:
            with self.batch.lock:
                extra = self.sent > 0
                if self.settled or (extra and self.batch.spare < 1):
                    return False
                if self.dispatcher.limiter.take():
                    self.batch.spare -= extra
                    self.sent += 1
                    return True
            wait = self.dispatcher.limiter.wait()
            late = wait > PATIENCE or self.dispatcher.clock() + wait >= self.batch.until
            if late or not self.dispatcher.pause(wait):
                raise NotSentError(f"not sent: {self.dispatcher.limiter.why()}")

    def _rest(self, tries: int) -> bool:
        """Wait before the next try; tells whether there is time for it."""
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2**tries)
        wait = self.dispatcher.random.uniform(0, longest)
        in_time = self.dispatcher.clock() + wait < self.batch.until
        with self.batch.lock:
            paid = not self.settled and self.batch.spare >= 1
        return in_time and paid and self.dispatcher.pause(wait)
