"""A source of fragments over HTTP: each page is a request; the query is asked of the triples that the pages held."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.credentials import Credentials
from freshkeeper.maintenance.base.times import UNKNOWN
from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.exchange import Call, ConnectionPool, Deadline
from freshkeeper.maintenance.fetching.http.response_status import check, http_date, media_type
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.sources.bounds import bounded
from freshkeeper.maintenance.sources.fragments.fragment_page import ACCEPT, Page, read_page
from freshkeeper.maintenance.sources.fragments.fragment_reader import Counts, FragmentReader
from freshkeeper.maintenance.sources.fragments.needed_fragments import needed
from freshkeeper.maintenance.sources.fragments.page_cache import BYTES_PER_QUAD, PageCache
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.sources.fragments.source_clock import SourceClock
from freshkeeper.maintenance.sources.sparql_over_http import USER_AGENT
from freshkeeper.maintenance.sources.transport import Reply, Request


@dataclass(eq=False)
class FragmentsOverHttp:
    """One dataset of fragments, by the address of any of its pages."""

    url: str
    credentials: Credentials = field(default_factory=Credentials)
    pool: ConnectionPool = field(default_factory=ConnectionPool)
    dated: bool = False
    """whether headers speak of the values"""
    hosts: frozenset[str] = frozenset()
    """that may be followed beside its own"""
    cached: bool = True
    """whether pages are used again until they expire"""
    wall: Callable[[], float] = time.time
    counts: Counts = field(default_factory=Counts)
    cache: PageCache = field(default_factory=PageCache)
    source_clock: SourceClock = field(default_factory=SourceClock)

    def carry(self, request: Request, now: int, deadline: Deadline) -> Reply:
        """The pages that the query needs, and what it finds in them."""

        reader = self.reader(now, deadline)
        store = needed(request.query, reader)
        try:
            rows = bounded(lambda: store.query(rewrite_for_pyoxigraph(request.query)), self.pool.max_bytes)
        except (SyntaxError, OSError, RuntimeError) as error:
            raise FetchError(f"refused: the query cannot be asked of fragments: {error}", refused=True) from None
        expires = [told.expires for told in reader.told] if self.dated else []
        modified = [told.modified for told in reader.told] if self.dated and len(request.keys) == 1 else []
        return Reply(
            rows,
            modified=max(modified) if modified and UNKNOWN not in modified else UNKNOWN,
            expires=min(expires) if expires and UNKNOWN not in expires else UNKNOWN,
        )

    def reader(self, now: int, deadline: Deadline) -> FragmentReader:
        """What reads fragments for one request."""

        def ask(url: str, pattern: QuadPattern | None) -> tuple[Page, Validity]:
            return self.page(url, pattern, now, deadline)

        most = max(1_000, self.pool.max_bytes // (BYTES_PER_QUAD // 4))
        return FragmentReader(self.url, ask, self.counts, most, self.hosts)

    def page(self, url: str, pattern: QuadPattern | None, now: int, deadline: Deadline) -> tuple[Page, Validity]:
        """A page that holds still, or one GET; an unchanged page need not be sent again."""
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

    def oddities(self) -> list[str]:
        """What its pages and its clock said that cannot be right, and what was believed instead."""
        clock, counts = self.source_clock, self.counts
        ahead = 0.0 if clock.agrees else clock.ahead if clock.least > 0 else clock.ahead_at_most
        said = {
            f"{counts.liars} fragments had another count than triples: the triples were believed": counts.liars,
            f"{counts.strays} triples stood on pages of fragments that they do not belong to, and were left out": (
                counts.strays
            ),
            f"its clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} ours, and was gone by": ahead,
            f"its clock was set {clock.jumps} times": clock.jumps,
        }
        return [f"{shown(self.url)}: {words}" for words, there in said.items() if there]

    def close(self) -> None:
        """Close connections; pages that are being read fail."""
        self.pool.close()
