"""Requests for pages of one source, with its rate limits, circuit breaker, retries and price."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.sources.fragments.fragment_page import FragmentPage
from freshkeeper.maintenance.sources.fragments.fragment_reader import FragmentReader
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

FIRST_RETRY_S = 0.2
"""Pause before the first retry of a page; doubles each time."""
MAX_RATE_WAIT_S = 5.0
"""Maximum wait for the rate limits; longer waits postpone the page to a later evaluation."""


def _slept(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(eq=False)
class PageRequests:
    """The limits of a source, and the price of a request."""

    limiter: RateLimiter = field(default_factory=RateLimiter)
    retries: int = 2
    timeout: float = 10.0
    price: float = 1.0
    mask: Callable[[str], str] = str
    """masks credentials in error messages, which a source may echo"""
    pause: Callable[[float], None] = _slept
    sent: int = 0

    def reader(self, client: FragmentsOverHttp, pay: Callable[[float], bool]) -> FragmentReader:
        """Return a reader whose requests all pass through here; `pay` returns False if the budget is spent."""
        plain = client.reader(0, Deadline())

        def fetch_page(url: str, pattern: QuadPattern | None) -> tuple[FragmentPage, Validity]:
            return self._page(client, url, pattern, pay)

        return FragmentReader(plain.start, fetch_page, plain.counts, plain.most, plain.allowed)

    def _page(
        self, client: FragmentsOverHttp, url: str, pattern: QuadPattern | None, pay: Callable[[float], bool]
    ) -> tuple[FragmentPage, Validity]:
        """Return one page, with retries."""
        for n in range(self.retries + 1):
            deadline = Deadline(client.pool.clock() + self.timeout, lambda: self._wait_and_pay(pay))
            before = self.sent
            try:
                found = client.page(url, pattern, 0, deadline)
            except FetchError as fault:
                if fault.refused:
                    self.limiter.succeeded()
                    raise FetchError(self.mask(str(fault)), refused=True) from None
                self.limiter.failed(fault.wait)
                if not fault.again or n == self.retries:
                    raise FetchError(self.mask(str(fault)), fault.again, fault.wait, keys=fault.keys) from None
                self.pause(FIRST_RETRY_S * 2**n)
            else:
                if self.sent > before:  # a cached page says nothing about the health of the source
                    self.limiter.succeeded()
                return found
        raise AssertionError("unreachable")

    def _wait_and_pay(self, pay: Callable[[float], bool]) -> bool:
        """Wait for the rate limits and pay; raise NotSentError if the request must not be sent."""
        while (wait := self.limiter.wait()) > 0:
            if wait > MAX_RATE_WAIT_S:
                raise NotSentError(f"not sent: {self.limiter.why()}")
            self.pause(max(wait, 0.001))
        if not pay(self.price):
            raise NotSentError("not sent: the budget of this evaluation is spent")
        self.sent += 1
        return self.limiter.take()
