"""Executors without limits of their own: requests are sent in the calling thread, or handed to a pool or an event loop.

`Dispatcher` (maintenance/sources) is the executor of sources over a network.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, ClassVar

from freshkeeper.maintenance.fetching.endpoint import NO_FAILURE, error_text
from freshkeeper.maintenance.fetching.requests import NOT_PAID, FetchReply, FetchRequest, Replied, reply_of_failure


@dataclass(frozen=True, eq=False)
class InlineExecutor:
    """Sends one request after the other in the calling thread."""

    deadline: ClassVar[float] = math.inf

    def capacity(self) -> float:
        return math.inf

    def reserve(self, requests: int) -> None:
        """Do nothing: requests are not limited."""

    def send(
        self,
        fetch: Callable[[FetchRequest], Any],
        requests: Sequence[FetchRequest],
        tries: float,
        until: float,
    ) -> Sequence[Replied]:
        """Fetch at once; requests beyond `tries` are not sent."""
        sent = []
        for number, request in enumerate(requests):
            reply = NOT_PAID
            if number < tries:
                reply = _attempt(fetch, request)
            sent.append(Replied(request, reply))
        return sent

    def wait(self, sent: Sequence[Any], until: float) -> None:
        """Do nothing: all replies are there when `send` returns."""


Submit = Callable[[Callable[[FetchRequest], Any], FetchRequest], "Future[Any]"]
"""Runs `fetch(request)` now or later, as the `submit` of a thread pool does."""


@dataclass(eq=False)
class SubmittedRequest:
    """A request that runs elsewhere."""

    request: FetchRequest
    answer: "Future[FetchReply]"

    def done(self) -> bool:
        return self.answer.done()

    def stop(self) -> int:
        """Return 1: a request that was submitted cannot be taken back."""
        return 1

    def reply(self) -> FetchReply:
        """Return the reply; what the source raised fails the request."""
        try:
            return self.answer.result()
        except NO_FAILURE:
            raise
        except asyncio.CancelledError as error:
            return FetchReply(error=error_text(error), refused=True)
        except Exception as error:
            return reply_of_failure(error)


@dataclass(frozen=True, eq=False)
class SubmittingExecutor:
    """Hands every request to `submit`, as that of a thread pool or of an event loop, and waits for the futures."""

    submit: Submit
    clock: Callable[[], float] = time.monotonic
    deadline: ClassVar[float] = math.inf

    def capacity(self) -> float:
        return math.inf

    def reserve(self, requests: int) -> None:
        pass

    def send(
        self,
        fetch: Callable[[FetchRequest], Any],
        requests: Sequence[FetchRequest],
        tries: float,
        until: float,
    ) -> Sequence[SubmittedRequest | Replied]:
        """Submit the requests that are paid for."""
        sent: list[SubmittedRequest | Replied] = []
        for number, request in enumerate(requests):
            if number < tries:
                sent.append(SubmittedRequest(request, self.submit(fetch, request)))
            else:
                sent.append(Replied(request, NOT_PAID))
        return sent

    def wait(self, sent: Sequence[Any], until: float) -> None:
        wait_until(until, self.clock, [one.answer for one in sent if isinstance(one, SubmittedRequest)])


def wait_until(until: float, clock: Callable[[], float], futures: "Sequence[Future[Any]]") -> None:
    """Wait until all futures are done, or the clock says `until`."""
    timeout = None
    if until < math.inf:
        timeout = max(0.0, until - clock())
    wait(futures, timeout)


_LOOP_LOCK = Lock()
_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}
"""by process: a thread does not survive a fork"""


def submit_to_background_loop(fetch: Callable[[FetchRequest], Any], request: FetchRequest) -> "Future[Any]":
    """Run `await fetch(request)` on an event loop in a thread of its own, which all sources of this process share."""
    with _LOOP_LOCK:
        loop = _LOOPS.get(os.getpid())
        if loop is None:
            _LOOPS.clear()
            loop = _LOOPS[os.getpid()] = asyncio.new_event_loop()
            Thread(target=loop.run_forever, name="sources", daemon=True).start()
    return asyncio.run_coroutine_threadsafe(fetch(request), loop)


def _attempt(fetch: Callable[[FetchRequest], Any], request: FetchRequest) -> FetchReply:
    try:
        reply: FetchReply = fetch(request)
    except NO_FAILURE:
        raise
    except Exception as error:
        return reply_of_failure(error)
    return reply
