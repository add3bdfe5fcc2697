"""The fragments that one request needs: pages asked for one after the other, none twice, and never without an end.

What a source says leads nowhere but to its own host, unless others are named. Paging ends at a page without a next one,
or without data; a fragment that goes on far beyond its count, or comes back to a page, is an error.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from pyoxigraph import Quad

from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.fetching.http.validity_headers import Validity
from freshkeeper.maintenance.sources.fragments.fragment_page import Page
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.sources.fragments.search_form import SearchForm

SLACK = 1_000
"""Triples beyond twice the count that a fragment may have: a count is an estimate."""
PER_PAGE = 100
"""Triples that a page is thought to have before one was seen."""


@dataclass(eq=False)
class Counts:
    """What is known of how much fragments hold; the pattern that was asked for longest ago is forgotten first."""

    most: int = 10_000
    per_page: int = PER_PAGE
    form: SearchForm | None = None
    liars: int = 0
    """fragments whose count was another one than what their pages held"""
    strays: int = 0
    """quads on pages of fragments that they do not belong to"""
    _known: OrderedDict[QuadPattern, int] = field(default_factory=OrderedDict)

    def of(self, pattern: QuadPattern) -> int | None:
        """The count that was told last."""
        return self._known.get(pattern)

    def tell(self, pattern: QuadPattern, page: Page) -> None:
        """What a page says of its fragment and of all."""
        self.form, self.strays = page.form, self.strays + page.strays
        self.per_page = max(1, page.per_page or self.per_page)
        if page.count is not None:
            self._known.pop(pattern, None)
            self._known[pattern] = page.count
        if len(self._known) > self.most:
            self._known.popitem(last=False)


class AskPage(Protocol):
    """Have one page, by a request or from what is held, with until when it holds."""

    def __call__(self, url: str, pattern: QuadPattern | None) -> tuple[Page, Validity]:
        """The page at an address."""


@dataclass(eq=False)
class FragmentReader:
    """Reads fragments for one request."""

    start: str
    ask: AskPage
    counts: Counts
    most: int
    """triples that one request may read"""
    allowed: frozenset[str] = frozenset()
    """hosts that may be followed beside that of the start"""
    holding: bool = False
    """whether what holds now is asked for alone, where the source lets one"""
    told: list[Validity] = field(default_factory=list)
    """of every page that was read"""
    read: int = 0
    """triples, so far"""
    _pages: dict[str, Page] = field(default_factory=dict)
    _wholes: set[QuadPattern] = field(default_factory=set)

    def form(self) -> SearchForm:
        """How fragments are asked for, which the first page tells."""
        if self.counts.form is None:
            self.counts.form = self._page(self.start, None).form
        return self.counts.form

    @property
    def quads(self) -> bool:
        """Whether fragments have graphs."""
        return self.form().quads

    def first(self, pattern: QuadPattern) -> Page:
        """The first page of a fragment, which has its count."""
        address = self._address(pattern)
        known = address in self._pages
        page = self._page(address, pattern)
        if not known:
            self.counts.tell(pattern, page)
        return page

    def pages(self, pattern: QuadPattern) -> float:
        """How many requests a whole fragment takes yet; its first page is asked for where nobody knows."""
        known = self.counts.of(pattern)
        if known is not None:
            return max(1, math.ceil(known / self.counts.per_page))
        page = self.first(pattern)
        return math.inf if page.count is None else max(0, math.ceil(page.count / self.counts.per_page) - 1)

    def whole(self, pattern: QuadPattern) -> list[Quad]:
        """All pages of a fragment."""
        address = self._address(pattern)
        page = self.first(pattern)
        found, seen = list(page.quads), {address}
        most = 2 * (page.count or 0) + SLACK if page.count is not None else self.most
        while page.next is not None and page.quads:
            address = urljoin(address, page.next)
            if address in seen:
                raise FetchError(f"malformed: the pages of {pattern} come back to {address[:200]}")
            seen.add(address)
            page = self._page(address, pattern)
            found += page.quads
            if len(found) > most:
                said = f"its count is {page.count}, and {len(found)} came without an end"
                raise FetchError(f"malformed: the pages of {pattern} go on and on: {said}")
        if page.count is not None and len(set(found)) != self.counts.of(pattern):
            self.counts.liars += 1
        self._wholes.add(pattern)
        return found

    def has(self, pattern: QuadPattern) -> bool:
        """Whether a whole fragment was read already."""
        return pattern in self._wholes

    def service(self, address: str) -> None:
        """It is one source, which asks no other one."""
        del address

    def _address(self, pattern: QuadPattern) -> str:
        form = self.form()
        return (form.holding if self.holding and form.holding else form).address(pattern)

    def _page(self, url: str, pattern: QuadPattern | None) -> Page:
        if url in self._pages:
            return self._pages[url]
        self._check_host(url)
        page, validity = self.ask(url, pattern)
        self.told.append(validity)
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
                f"malformed: the page leads to {url[:200]!r}, and its source is {here.netloc}: name the host under "
                "`hosts` if it may be followed"
            )
