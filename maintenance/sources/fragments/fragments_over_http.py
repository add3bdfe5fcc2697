"""A source of fragments over HTTP: each page is a request; queries are evaluated on the triples of the pages."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.credentials import Credentials
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool
from freshkeeper.maintenance.fetching.http.response_status import check, http_date, media_type
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.fetching.requests import Deadline
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.sources.bounds import bounded
from freshkeeper.maintenance.sources.fragments.fragment_page import ACCEPT, FragmentPage, read_page
from freshkeeper.maintenance.sources.fragments.fragment_reader import FragmentCounts, FragmentReader
from freshkeeper.maintenance.sources.fragments.needed_fragments import fetch_needed
from freshkeeper.maintenance.sources.fragments.page_cache import BYTES_PER_QUAD, PageCache
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.sources.fragments.source_clock import SourceClock
from freshkeeper.maintenance.sources.sparql_over_http import USER_AGENT
from freshkeeper.maintenance.sources.transport import GraphQuery, Solutions


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
        """Fetch the pages that the query needs, and evaluate it on them."""
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
        """Return a reader of fragments for one request."""

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
