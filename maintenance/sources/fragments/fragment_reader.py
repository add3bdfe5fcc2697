"""Reads the fragments that one request needs: page by page, none twice, and never endlessly.

Links lead only to the source's own host, unless others are allowed. Paging ends at a page without a next page, or
without data; a fragment far beyond its count, or one that returns to an earlier page, is an error.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from pyoxigraph import Quad

from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.sources.fragments.fragment_page import FragmentPage, SearchForm
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

COUNT_SLACK = 1_000
"""Triples that a fragment may have beyond twice its count, which is an estimate."""
PER_PAGE = 100
"""The assumed page size before a page was seen."""


@dataclass(eq=False)
class FragmentCounts:
    """The known sizes of fragments; the one that was read least recently is forgotten first."""

    most: int = 10_000
    per_page: int = PER_PAGE
    form: SearchForm | None = None
    liars: int = 0
    """number of fragments whose count differed from the content of their pages"""
    strays: int = 0
    """number of quads on pages of fragments that they do not belong to"""
    _counts: OrderedDict[QuadPattern, int] = field(default_factory=OrderedDict)

    def of(self, pattern: QuadPattern) -> int | None:
        return self._counts.get(pattern)

    def record(self, pattern: QuadPattern, page: FragmentPage) -> None:
        self.form, self.strays = page.form, self.strays + page.strays
        self.per_page = max(1, page.per_page or self.per_page)
        if page.count is not None:
            self._counts.pop(pattern, None)
            self._counts[pattern] = page.count
        if len(self._counts) > self.most:
            self._counts.popitem(last=False)


class FetchPage(Protocol):
    """Returns a page, by a request or from the cache, and until when it is valid."""

    def __call__(self, url: str, pattern: QuadPattern | None) -> tuple[FragmentPage, Validity]:
        """Return the page at an address."""


@dataclass(eq=False)
class FragmentReader:
    """Reads fragments for one request."""

    start: str
    fetch_page: FetchPage
    counts: FragmentCounts
    most: int
    """the maximum number of triples per request"""
    allowed: frozenset[str] = frozenset()
    """hosts that may be followed besides that of the start page"""
    holding: bool = False
    """request only current data, if the source supports it"""
    validities: list[Validity] = field(default_factory=list)
    """the validity of every page that was read"""
    read: int = 0
    """number of triples so far"""
    _pages: dict[str, FragmentPage] = field(default_factory=dict)
    _complete: set[QuadPattern] = field(default_factory=set)

    def form(self) -> SearchForm:
        if self.counts.form is None:
            self.counts.form = self._page(self.start, None).form
        return self.counts.form

    @property
    def quads(self) -> bool:
        return self.form().quads

    def first(self, pattern: QuadPattern) -> FragmentPage:
        address = self._address(pattern)
        known = address in self._pages
        page = self._page(address, pattern)
        if not known:
            self.counts.record(pattern, page)
        return page

    def pages(self, pattern: QuadPattern) -> float:
        """Return how many more requests a whole fragment needs; read its first page if the count is unknown."""
        known = self.counts.of(pattern)
        if known is not None:
            return max(1, math.ceil(known / self.counts.per_page))
        page = self.first(pattern)
        if page.count is None:
            return math.inf
        return max(0, math.ceil(page.count / self.counts.per_page) - 1)

    def read_all(self, pattern: QuadPattern) -> list[Quad]:
        address = self._address(pattern)
        page = self.first(pattern)
        found, seen = list(page.quads), {address}
        if page.count is not None:
            most = 2 * (page.count or 0) + COUNT_SLACK
        else:
            most = self.most
        while page.next is not None and page.quads:
            address = urljoin(address, page.next)
            if address in seen:
                raise FetchError(f"malformed: the pages of {pattern} return to {address[:200]}")
            seen.add(address)
            page = self._page(address, pattern)
            found += page.quads
            if len(found) > most:
                said = f"its count is {page.count}, but {len(found)} quads were read so far"
                raise FetchError(f"malformed: the pages of {pattern} do not end: {said}")
        if page.count is not None and len(set(found)) != self.counts.of(pattern):
            self.counts.liars += 1
        self._complete.add(pattern)
        return found

    def has(self, pattern: QuadPattern) -> bool:
        return pattern in self._complete

    def service(self, _: str) -> None:
        """Return None: this reader has a single source."""

    def _address(self, pattern: QuadPattern) -> str:
        form = self.form()
        return (form.holding if self.holding and form.holding else form).address(pattern)

    def _page(self, url: str, pattern: QuadPattern | None) -> FragmentPage:
        if url in self._pages:
            return self._pages[url]
        self._check_host(url)
        page, validity = self.fetch_page(url, pattern)
        self.validities.append(validity)
        self.read += len(page.quads)
        if self.read > self.most:
            raise FetchError(f"too large: the answer needs more than {self.most} triples (max_size)", refused=True)
        self._pages[url] = page
        return page

    def _check_host(self, url: str) -> None:
        there, here = urlsplit(url), urlsplit(self.start)
        if there.scheme == here.scheme and there.netloc == here.netloc:
            return
        if there.scheme not in ("http", "https") or there.netloc not in self.allowed:
            raise FetchError(
                f"malformed: the page links to {url[:200]!r}, but its source is {here.netloc}: add the host to "
                "`hosts` to follow it"
            )
