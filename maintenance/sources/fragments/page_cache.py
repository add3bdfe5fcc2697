"""A cache of pages: used until they expire, then revalidated by their ETag."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from freshkeeper.maintenance.fetching.http.exchange import HttpResponse
from freshkeeper.maintenance.fetching.http.validators import PAIRS, UNCHANGED
from freshkeeper.maintenance.fetching.http.validity_headers import Validity, of_headers
from freshkeeper.maintenance.sources.fragments.fragment_page import FragmentPage

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
        """The estimated memory, in bytes."""
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
