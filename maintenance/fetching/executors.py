"""Executors without limits of their own: requests are sent in the calling thread, or handed to a pool or an event loop.

`Dispatcher` (maintenance/sources) is the executor of sources over a network.
"""

import math
import time
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar, Protocol, cast

from freshkeeper.maintenance.fetching.endpoint import NO_FAILURE, error_text
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.fetching.requests import NOT_PAID, FetchReply, FetchRequest, Replied, reply_of_failure


@dataclass(frozen=True, eq=False)
class InlineExecutor:
    """Sends one request after the other in the calling thread."""

    deadline: ClassVar[float] = math.inf

    def capacity(self) -> float:
        return math.inf

    def reserve(self, requests: int) -> None:
        """Nothing is limited, so nothing needs to be kept."""

    def send(
        self, fetch: Callable[[FetchRequest], Any], requests: Sequence[FetchRequest], tries: float, until: float
    ) -> Sequence[Replied]:
        """Fetch at once; requests beyond `tries` are not sent."""
        sent = []
        for number, request in enumerate(requests):
            sent.append(Replied(request, _attempt(fetch, request) if number < tries else NOT_PAID))
        return sent

    def wait(self, sent: Sequence[Any], until: float) -> None:
        """All replies are there when `send` returns."""


class Submitted(Protocol):
    """A future, of whatever kind."""

    def done(self) -> bool:
        """Return whether the result is there."""
        ...

    def result(self) -> Any:
        """Return the result, or raise what the call raised."""
        ...


Submit = Callable[[Callable[[FetchRequest], Any], FetchRequest], Submitted]
"""Runs `fetch(request)` now or later, as the `submit` of a thread pool does."""


@dataclass(eq=False)
class SubmittedRequest:
    """A request that runs elsewhere."""

    request: FetchRequest
    answer: Submitted
    limiter: RateLimiter

    def done(self) -> bool:
        return self.answer.done()

    def stop(self) -> int:
        """Return 1: a request that was submitted cannot be taken back."""
        return 1

    def reply(self) -> FetchReply:
        """Return the reply; what the source raised fails the request and counts for the breaker."""
        try:
            reply: FetchReply = self.answer.result()
        except NO_FAILURE:
            raise
        except CancelledError as error:
            reply = FetchReply(error=error_text(error), refused=True)
        except Exception as error:
            reply = reply_of_failure(error)
        if reply.error is None:
            self.limiter.succeeded()
        elif reply.sent:
            self.limiter.failed()
        return reply


@dataclass(eq=False)
class SubmittingExecutor:
    """Hands every request to `submit`; whoever gave the order waits for the replies in their own way."""

    deadline: ClassVar[float] = math.inf
    submit: Submit
    limiter: RateLimiter = field(default_factory=RateLimiter)
    """its breaker leaves a source alone that fails again and again"""
    parallel: int = 8
    """requests under way at once that take no thread from the next order"""
    blocks: bool = False
    """whether `wait` waits; if not, whoever resumes the order has waited"""
    clock: Callable[[], float] = time.monotonic
    _running: list[SubmittedRequest] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def capacity(self) -> float:
        """Return nothing while the breaker is open or as many requests are under way as may be."""
        with self._lock:
            self._running = [one for one in self._running if not one.done()]
            running = len(self._running)
        return self.limiter.room() if running < self.parallel else 0

    def reserve(self, requests: int) -> None:
        """Capacity is shared with nobody."""

    def send(
        self, fetch: Callable[[FetchRequest], Any], requests: Sequence[FetchRequest], tries: float, until: float
    ) -> Sequence[SubmittedRequest | Replied]:
        """Submit the requests that are paid for."""
        sent: list[SubmittedRequest | Replied] = []
        for number, request in enumerate(requests):
            if number >= tries:
                sent.append(Replied(request, NOT_PAID))
                continue
            self.limiter.take()
            running = SubmittedRequest(request, self.submit(fetch, request), self.limiter)
            with self._lock:
                self._running.append(running)
            sent.append(running)
        return sent

    def wait(self, sent: Sequence[Any], until: float) -> None:
        """Wait for the replies if this executor blocks."""
        if self.blocks:
            timeout = None if until == math.inf else max(0.0, until - self.clock())
            wait([cast("Future[Any]", one.answer) for one in sent if isinstance(one, SubmittedRequest)], timeout)


def _attempt(fetch: Callable[[FetchRequest], Any], request: FetchRequest) -> FetchReply:
    try:
        reply: FetchReply = fetch(request)
    except NO_FAILURE:
        raise
    except Exception as error:
        return reply_of_failure(error)
    return reply
