"""A source of fragments over HTTP: each page is a request; queries are evaluated on the triples of the pages."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.credentials import Credentials
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, HttpResponse
from freshkeeper.maintenance.fetching.http.response_status import check, http_date, media_type
from freshkeeper.maintenance.fetching.http.validators import PAIRS, UNCHANGED
from freshkeeper.maintenance.fetching.http.validity_headers import Validity, of_headers
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.sources.bounds import bounded
from freshkeeper.maintenance.sources.fragments.fragment_page import ACCEPT, FragmentPage, read_page
from freshkeeper.maintenance.sources.fragments.fragment_reader import FragmentCounts, FragmentReader
from freshkeeper.maintenance.sources.fragments.needed_fragments import fetch_needed
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.sources.sparql_over_http import USER_AGENT
from freshkeeper.maintenance.sources.transport import GraphQuery, Solutions

BYTES_PER_QUAD = 600
"""Estimated memory per quad."""


@dataclass(frozen=True)
class CachedPage:
    """A page with the headers of its response."""

    page: FragmentPage
    until: float
    """when it expires, by the wall clock in seconds"""
    validity: Validity
    """in event time of the request that fetched it"""
    headers: Mapping[str, str]
    at: float
    """when it was received, by the wall clock in seconds"""

    @property
    def size(self) -> int:
        return 1_000 + BYTES_PER_QUAD * len(self.page.quads)


@dataclass(eq=False)
class PageCache:
    """The pages of one source; the oldest are evicted when the cache is full. Safe for use by several threads."""

    max_bytes: int = 32_000_000
    _pages: OrderedDict[str, CachedPage] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def fresh(self, url: str, wall: float) -> CachedPage | None:
        """Return a page that has not expired; after the clock was set back nothing counts as fresh."""
        with self._lock:
            held = self._pages.get(url)
            if held is not None and held.at <= wall < held.until:
                return held
            return None

    def headers(self, url: str) -> dict[str, str]:
        """Return the headers of a conditional request with the strongest validator."""
        with self._lock:
            held = self._pages.get(url)
        told = ((name, held.headers[kind]) for kind, name in PAIRS if held is not None and kind in held.headers)
        if held is not None and any(kind in held.headers for kind, _ in PAIRS):
            return dict([next(told)])
        return {}

    def unchanged(self, url: str, answer: HttpResponse) -> FragmentPage | None:
        """Return the page that a 304 response refers to, or None."""
        with self._lock:
            held = self._pages.get(url)
            if answer.status == UNCHANGED and held is not None:
                return held.page
            return None

    def keep(self, url: str, page: FragmentPage, answer: HttpResponse, now: int, wall: float) -> CachedPage:
        """Store a page if its response allows it; return it with its validity."""
        validity = of_headers(answer.headers, 0, wall)
        lasts = validity.expires / 1000 if validity.expires > 0 else 0.0
        told = of_headers(answer.headers, now, wall)
        with self._lock:
            old = self._pages.pop(url, None)
            self._bytes -= old.size if old is not None else 0
            kept = {**(old.headers if old is not None and answer.status == UNCHANGED else {}), **answer.headers}
            held = CachedPage(page, wall + lasts, told, kept, wall)
            if "no-store" not in answer.headers.get("cache-control", "").lower():
                self._pages[url] = held
                self._bytes += held.size
            while self._bytes > self.max_bytes:
                self._bytes -= self._pages.popitem(last=False)[1].size
        return held


@dataclass(eq=False)
class SourceClock:
    """Bounds of how far a source's clock is ahead of ours, from Date headers; 0 as long as that is possible.

    A header is accurate to the second at some time between the request and its response.
    """

    least: float = -math.inf
    most: float = math.inf
    """upper bound in seconds, from all responses together"""
    jumps: int = 0
    """number of responses that contradict all earlier ones: a clock was set"""

    def see(self, date: float | None, sent: float, came: float) -> None:
        """Record a Date header and when, by our clock, the request was sent and the response received.

        All in seconds.
        """
        if date is None:
            return
        least, most = date - came, date + 1 - sent
        if least > self.most or most < self.least:
            self.jumps, self.least, self.most = self.jumps + 1, least, most
        else:
            self.least, self.most = max(self.least, least), min(self.most, most)

    @property
    def agrees(self) -> bool:
        return self.least <= 0 <= self.most

    @property
    def ahead(self) -> float:
        """The lower bound in seconds, so that nothing is requested too early."""
        if self.agrees:
            return 0.0
        return self.least

    @property
    def ahead_at_most(self) -> float:
        """The upper bound in seconds, so that nothing is delivered too late."""
        if self.agrees:
            return 0.0
        return self.most


@dataclass(eq=False)
class FragmentsOverHttp:
    """A dataset of fragments, by the address of any of its pages."""

    url: str
    credentials: Credentials = field(default_factory=Credentials)
    pool: ConnectionPool = field(default_factory=ConnectionPool)
    dated: bool = False
    """response headers describe the values, not only the page"""
    hosts: frozenset[str] = frozenset()
    """hosts that may be followed besides its own"""
    cached: bool = True
    """reuse pages until they expire"""
    wall: Callable[[], float] = time.time
    counts: FragmentCounts = field(default_factory=FragmentCounts)
    cache: PageCache = field(default_factory=PageCache)
    source_clock: SourceClock = field(default_factory=SourceClock)

    def select(self, query: GraphQuery, now: int, deadline: Deadline) -> Solutions:
        reader = self.reader(now, deadline)
        store = fetch_needed(query.text, reader)
        try:
            rows = bounded(lambda: store.query(rewrite_for_pyoxigraph(query.text)), self.pool.max_bytes)
        except (SyntaxError, OSError, RuntimeError) as error:
            raise FetchError(f"refused: the query cannot be evaluated on fragments: {error}", refused=True) from None
        modified = expires = UNKNOWN
        if self.dated:
            expires = min((told.expires for told in reader.validities), default=UNKNOWN)  # unknown is the least
            if len(query.keys) == 1 and all(told.modified != UNKNOWN for told in reader.validities):
                modified = max((told.modified for told in reader.validities), default=UNKNOWN)
        return Solutions(rows, modified=modified, expires=expires)

    def reader(self, now: int, deadline: Deadline) -> FragmentReader:
        def fetch_page(url: str, pattern: QuadPattern | None) -> tuple[FragmentPage, Validity]:
            return self.page(url, pattern, now, deadline)

        most = max(1_000, self.pool.max_bytes // (BYTES_PER_QUAD // 4))
        return FragmentReader(self.url, fetch_page, self.counts, most, self.hosts)

    def page(
        self, url: str, pattern: QuadPattern | None, now: int, deadline: Deadline
    ) -> tuple[FragmentPage, Validity]:
        """Return a page from the cache or by one GET, which is conditional if the page is cached."""
        held = self.cache.fresh(url, self.wall()) if self.cached else None
        if held is not None:
            return held.page, held.validity
        headers = {"User-Agent": USER_AGENT, "Accept": ACCEPT, **self.cache.headers(url), **self.credentials.headers}
        sent = self.wall()
        answer = self.pool.exchange(Call("GET", url, headers), deadline)
        self.source_clock.see(http_date(answer.headers.get("date")), sent, self.wall())
        page = self.cache.unchanged(url, answer)
        if page is None:
            check(answer, self.wall)
            page = read_page(answer.body, media_type(answer), url, pattern)
        return page, self.cache.keep(url, page, answer, now, self.wall()).validity

    def warnings(self) -> list[str]:
        """Return warnings about inconsistent pages and clocks, and how they were handled."""
        counts = self.counts
        found: list[str] = []
        if counts.liars:
            found.append(f"{counts.liars} fragments had a wrong count; their triples were used")
        if counts.strays:
            found.append(f"{counts.strays} triples did not belong to the fragment of their page and were dropped")
        found += self._clock_warnings()
        return [f"{mask_secrets(self.url)}: {warning}" for warning in found]

    def _clock_warnings(self) -> Iterator[str]:
        clock = self.source_clock
        if not clock.agrees:
            # The bound nearer to zero: the least that the clocks must differ.
            ahead = clock.ahead if clock.least > 0 else clock.ahead_at_most
            direction = "ahead of" if ahead > 0 else "behind"
            yield f"its clock is {abs(ahead):,.0f} s {direction} ours; times are read by the source's clock"
        if clock.jumps:
            yield f"its clock was set {clock.jumps} times"

    def close(self) -> None:
        """Close connections; requests in flight fail."""
        self.pool.close()
