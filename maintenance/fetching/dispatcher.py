"""The executor of a source over a network: several requests at once, within limits, with retries, back by the deadline.

A request counts as sent from the moment when there is a connection for it and the rate limiter lets it through, every
retry anew. After the deadline nothing more is sent for it, because what was sent is paid by then. Every request of an
order is sure of one attempt before any has a second one. A request that is still under way at the deadline keeps its
thread; its reply comes late.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from threading import Event, Lock
from typing import Any

from freshkeeper.maintenance.fetching.endpoint import LONGEST_ERROR
from freshkeeper.maintenance.fetching.executors import wait_until
from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError, unreadable
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.fetching.requests import (
    NO_TIME,
    NOT_PAID,
    Deadline,
    FetchReply,
    FetchRequest,
    Replied,
)

LIMITER_PATIENCE_S = 0.1
"""How long a request waits for the rate limiter: as long as an evaluation may begin too early for a limit per step."""
FIRST_RETRY_S, LONGEST_RETRY_S = 0.1, 5.0
"""The wait before a retry is drawn between none and this, which doubles each time."""

Fetch = Callable[[FetchRequest], FetchReply]


@dataclass(frozen=True)
class RequestOptions:
    """Concurrency, time limits and retries of the requests to a source; times in seconds."""

    concurrency: int = 8
    timeout: float = 10.0
    deadline: float = math.inf
    retries: int = 2


@dataclass(eq=False)
class Dispatcher:
    """Threads, rate limits and breaker of one source, shared by all its fetchers; any thread may send."""

    limiter: RateLimiter = field(default_factory=RateLimiter)
    options: RequestOptions = field(default_factory=RequestOptions)
    mask: Callable[[str], str] = str
    """takes secrets out of errors"""
    abort: Callable[[], None] = lambda: None
    """ends the attempts under way, when the dispatcher closes"""
    clock: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=Random)
    traced: Callable[[int, int, int, str], None] | None = None
    """called after every attempt with its evaluation, when it began (ns), its keys, and why it failed"""
    _overdue: list[Future[FetchReply]] = field(default_factory=list)
    """requests that keep a thread beyond their deadline"""
    _reserved: int = 0
    _lock: Lock = field(default_factory=Lock)
    """guards these two"""

    def __post_init__(self) -> None:
        self._closed = Event()
        self._threads = ThreadPoolExecutor(self.options.concurrency, "source")

    @property
    def deadline(self) -> float:
        return self.options.deadline

    @property
    def busy(self) -> int:
        with self._lock:
            self._overdue = [one for one in self._overdue if not one.done()]
            return len(self._overdue)

    def capacity(self) -> float:
        """Return what the rate limiter lets through; nothing while every thread waits for an overdue reply."""
        if self.busy >= self.options.concurrency:
            return 0
        return max(0, self.limiter.room(LIMITER_PATIENCE_S) - self._reserved)

    def reserve(self, requests: int) -> None:
        with self._lock:
            self._reserved += requests

    def send(
        self, fetch: Fetch, requests: Sequence[FetchRequest], tries: float, until: float
    ) -> "Sequence[Attempts | Replied]":
        """Hand the requests to threads; retries may use what `tries` leaves beside one attempt for each request."""
        batch = _Batch(until, max(0.0, tries - len(requests)))
        sent: list[Attempts | Replied] = []
        for number, request in enumerate(requests):
            if number + 1 > tries:
                sent.append(Replied(request, NOT_PAID))
                continue
            attempts = Attempts(self, batch, fetch, request)
            attempts.future = self._threads.submit(attempts.run)
            sent.append(attempts)
        return sent

    def wait(self, sent: Sequence[Any], until: float) -> None:
        wait_until(until, self.clock, [one.future for one in sent if isinstance(one, Attempts)])

    def state(self, ahead: int = 0) -> dict[str, Any]:
        """Return limits, pause and breaker, as JSON has them; with `ahead` requests more that count as sent."""
        return self.limiter.state(ahead)

    def restore(self, state: Mapping[str, Any]) -> None:
        self.limiter.restore(state)

    def close(self) -> None:
        """End the threads; what is under way fails."""
        self._closed.set()
        self.abort()
        self._threads.shutdown(cancel_futures=True)

    def pause(self, seconds: float) -> bool:
        """Wait; return False if the dispatcher was closed meanwhile."""
        return not self._closed.wait(seconds)

    def note_overdue(self, future: "Future[FetchReply]") -> None:
        """Count a request that keeps its thread beyond the deadline."""
        with self._lock:
            self._overdue.append(future)


@dataclass(eq=False)
class _Batch:
    """State that the requests of one order share: the time, and the retries that its allowance pays for."""

    until: float
    spare: float
    lock: Lock = field(default_factory=Lock)


@dataclass(eq=False)
class Attempts:
    """A request that a thread attempts until there is a reply or another attempt makes no sense."""

    dispatcher: Dispatcher
    batch: _Batch
    fetch: Fetch
    request: FetchRequest
    future: Future[FetchReply] = field(default_factory=Future)
    sent: int = 0
    stopped: bool = False

    def done(self) -> bool:
        return self.future.done()

    def stop(self) -> int:
        with self.batch.lock:
            self.stopped = True
            sent = self.sent
        # A thread cannot be interrupted: it counts as busy until the reply comes or the connection times out.
        if not self.future.done() and not self.future.cancel():
            self.dispatcher.note_overdue(self.future)
        return sent

    def reply(self) -> FetchReply:
        if self.future.cancelled():
            return NO_TIME
        return self.future.result()

    def run(self) -> FetchReply:
        """Try until there is a reply; runs in a thread of the dispatcher."""
        dispatcher = self.dispatcher
        limiter, last = dispatcher.limiter, dispatcher.options.retries
        error = ""
        for number in range(last + 1):
            try:
                reply = self._attempt()
            except NotSentError as why:
                return self._failed(error or str(why))
            except FetchError as fault:
                error = str(fault)
                if fault.refused:  # the source is well, so this is no failure for the breaker
                    limiter.succeeded()
                    return self._failed(error, refused=True)
                limiter.failed(fault.wait)
                if not fault.again or number == last or not self._wait_for_retry(number):
                    return self._failed(error, refused=fault.keys)
            else:
                limiter.succeeded()
                return replace(reply, sent=self.sent)
        raise AssertionError("unreachable")

    def _attempt(self) -> FetchReply:
        """Fetch once; an answer that no parser takes, down to a library's panic, is a failed answer."""
        dispatcher = self.dispatcher
        deadline = Deadline(dispatcher.clock() + dispatcher.options.timeout, self._may_send)
        began, failure = time.time_ns(), ""
        try:
            return self.fetch(replace(self.request, deadline=deadline))
        except NotSentError:
            began = 0
            raise
        except FetchError as error:
            failure = dispatcher.mask(str(error))
            raise
        except BaseException as error:
            failure = "the answer cannot be read"
            raise FetchError(unreadable(error), keys=True) from None
        finally:
            if began and dispatcher.traced is not None:
                dispatcher.traced(self.request.now, began, len(self.request.keys), failure)

    def _failed(self, error: str, refused: bool = False) -> FetchReply:
        shown = self.dispatcher.mask(error)  # before it is cut: half a secret would not be found
        if len(shown) > LONGEST_ERROR:
            shown = shown[:LONGEST_ERROR] + " ..."
        return FetchReply(error=shown, refused=refused, sent=self.sent)

    def _may_send(self) -> bool:
        """Return whether a request may be sent now, after a short wait for the rate limiter if need be."""
        dispatcher, batch = self.dispatcher, self.batch
        while True:
            with batch.lock:
                is_retry = self.sent > 0
                if self.stopped or (is_retry and batch.spare < 1):
                    return False
                # The first attempt of each request is paid for in advance; retries take from what the order has spare.
                if dispatcher.limiter.take():
                    batch.spare -= is_retry
                    self.sent += 1
                    return True
            wait = dispatcher.limiter.wait()
            too_late = wait > LIMITER_PATIENCE_S or dispatcher.clock() + wait >= batch.until
            if too_late or not dispatcher.pause(wait):
                raise NotSentError(f"not sent: {dispatcher.limiter.why()}")

    def _wait_for_retry(self, number: int) -> bool:
        """Wait before the next attempt; return whether time and allowance permit it."""
        dispatcher, batch = self.dispatcher, self.batch
        wait = dispatcher.random.uniform(0, min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**number))
        in_time = dispatcher.clock() + wait < batch.until
        with batch.lock:
            is_paid = not self.stopped and batch.spare >= 1
        return in_time and is_paid and dispatcher.pause(wait)
