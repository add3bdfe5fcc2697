"""Executors without limits of their own: requests are sent in the calling thread, or handed to a pool or an event loop.

`Dispatcher` (maintenance/sources) is the executor of sources over a network.
"""

import math
import time
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
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
            sent.append(Replied(request, _attempt(fetch, request) if number < tries else NOT_PAID))
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
        except CancelledError as error:
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
        timeout = None if until == math.inf else max(0.0, until - self.clock())
        wait([one.answer for one in sent if isinstance(one, SubmittedRequest)], timeout)


def _attempt(fetch: Callable[[FetchRequest], Any], request: FetchRequest) -> FetchReply:
    try:
        reply: FetchReply = fetch(request)
    except NO_FAILURE:
        raise
    except Exception as error:
        return reply_of_failure(error)
    return reply
