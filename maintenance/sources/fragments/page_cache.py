"""Pages that were read before: used as they are until they expire, asked for again with their ETag after that."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from freshkeeper.maintenance.fetching.http.exchange import Answer
from freshkeeper.maintenance.fetching.http.validators import PAIRS, UNCHANGED
from freshkeeper.maintenance.fetching.http.validity_headers import Validity, of_headers
from freshkeeper.maintenance.sources.fragments.fragment_page import Page

BYTES_PER_QUAD = 600
"""What a quad takes in memory, about."""


@dataclass(frozen=True)
class HeldPage:
    """A page with what its answer said of it."""

    page: Page
    until: float
    """by the wall clock: how long it may be used without asking"""
    validity: Validity
    """in event time, of the request that brought it"""
    headers: Mapping[str, str]
    at: float
    """by the wall clock: when it came"""

    @property
    def size(self) -> int:
        """What it takes in memory, in bytes, as estimated from its number of triples."""
        return 1_000 + BYTES_PER_QUAD * len(self.page.quads)


@dataclass(eq=False)
class PageCache:
    """The pages of one source, the oldest dropped when they get too many bytes; threads may share it."""

    max_bytes: int = 32_000_000
    _held: OrderedDict[str, HeldPage] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def fresh(self, url: str, wall: float) -> HeldPage | None:
        """A page that holds still by its source's word; a clock that was set back makes none younger."""
        with self._lock:
            held = self._held.get(url)
            return held if held is not None and held.at <= wall < held.until else None

    def headers(self, url: str) -> dict[str, str]:
        """What to send with a request: the strongest validator there is."""
        with self._lock:
            held = self._held.get(url)
        told = ((name, held.headers[kind]) for kind, name in PAIRS if held is not None and kind in held.headers)
        return dict([next(told)]) if held is not None and any(kind in held.headers for kind, _ in PAIRS) else {}

    def unchanged(self, url: str, answer: Answer) -> Page | None:
        """The page that a 304 speaks of."""
        with self._lock:
            held = self._held.get(url)
            return held.page if answer.status == UNCHANGED and held is not None else None

    def keep(self, url: str, page: Page, answer: Answer, now: int, wall: float) -> HeldPage:
        """Hold a page, where its answer allows it."""
        validity = of_headers(answer.headers, 0, wall)
        lasts = validity.expires / 1000 if validity.expires > 0 else 0.0
        told = of_headers(answer.headers, now, wall)
        with self._lock:
            old = self._held.pop(url, None)
            self._bytes -= old.size if old is not None else 0
            kept = {**(old.headers if old is not None and answer.status == UNCHANGED else {}), **answer.headers}
            held = HeldPage(page, wall + lasts, told, kept, wall)
            if "no-store" not in answer.headers.get("cache-control", "").lower():
                self._held[url] = held
                self._bytes += held.size
            while self._bytes > self.max_bytes:
                self._bytes -= self._held.popitem(last=False)[1].size
        return held
