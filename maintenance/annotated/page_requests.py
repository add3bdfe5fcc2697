"""Requests for pages of one source: within its rate limits and its breaker, tried again where that may help, paid."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from freshkeeper.maintenance.fetching.fetch_errors import FetchError, NotSentError
from freshkeeper.maintenance.fetching.http.exchange import Deadline
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter
from freshkeeper.maintenance.sources.fragments.fragment_page import Page
from freshkeeper.maintenance.sources.fragments.fragment_reader import FragmentReader
from freshkeeper.maintenance.sources.fragments.fragments_over_http import FragmentsOverHttp
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

FIRST_WAIT = 0.2
"""Seconds before a page is asked for again, twice as long each time."""
PATIENCE = 5.0
"""Seconds that a page waits for the rate limits; what takes longer is asked for in a later evaluation."""


def _slept(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(eq=False)
class PageRequests:
    """What a source allows, and what it costs."""

    limiter: RateLimiter = field(default_factory=RateLimiter)
    retries: int = 2
    timeout: float = 10.0
    price: float = 1.0
    mask: Callable[[str], str] = str
    """what errors are shown through: a source may echo who asks"""
    pause: Callable[[float], None] = _slept
    sent: int = 0

    def reader(self, client: FragmentsOverHttp, pay: Callable[[float], bool]) -> FragmentReader:
        """What reads fragments, each request going through here; `pay` says whether there is money for one."""
        plain = client.reader(0, Deadline())

        def ask(url: str, pattern: QuadPattern | None) -> tuple[Page, Validity]:
            return self._page(client, url, pattern, pay)

        return FragmentReader(plain.start, ask, plain.counts, plain.most, plain.allowed)

    def _page(
        self, client: FragmentsOverHttp, url: str, pattern: QuadPattern | None, pay: Callable[[float], bool]
    ) -> tuple[Page, Validity]:
        """One page, by as many tries as it takes."""
        for n in range(self.retries + 1):
            deadline = Deadline(client.pool.clock() + self.timeout, lambda: self._may_go(pay))
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
                self.pause(FIRST_WAIT * 2**n)
            else:
                if self.sent > before:  # a page that holds still says nothing of the source
                    self.limiter.succeeded()
                return found
        raise AssertionError("unreachable")

    def _may_go(self, pay: Callable[[float], bool]) -> bool:
        """Wait for the rate limits, and pay."""
        while (wait := self.limiter.wait()) > 0:
            if wait > PATIENCE:
                raise NotSentError(f"not sent: {self.limiter.why()}")
            self.pause(max(wait, 0.001))
        if not pay(self.price):
            raise NotSentError("not sent: the budget of this evaluation is spent")
        self.sent += 1
        return self.limiter.take()
