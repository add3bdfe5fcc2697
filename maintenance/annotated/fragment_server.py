"""Responds to requests for pages: selects fragment, page and RDF format, and determines cache headers.

A page is kept, as it is sent, until it expires or the data change, so that most requests need one lookup. Cache-Control
gives the validity in whole seconds, rounded down; the annotations on the page give it exactly.
"""

import gzip
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import parse_qsl, urlsplit

from freshkeeper.maintenance.annotated.page_writer import FORMATS, PagePosition, write_page
from freshkeeper.maintenance.annotated.served_data import ServableData
from freshkeeper.maintenance.sources.fragments.fragment_page import NOW
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern, read_term

ROLES = ("subject", "predicate", "object", "graph")
MAX_AGE_S = 86_400
"""Seconds that a page may be cached if its data do not change."""
COMPRESS_FROM_BYTES = 500
"""Smaller bodies are not worth compressing."""
CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, Expires, Date",
    "Vary": "Accept, Accept-Encoding",
}
METHODS = ("GET", "HEAD", "OPTIONS")


_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")


class _RefusedError(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class FragmentResponse:
    """An HTTP response: status, headers and body."""

    status: str
    headers: Mapping[str, str]
    body: bytes = b""

    def head(self, date: str) -> bytes:
        lines = [f"{name}: {value}" for name, value in self.headers.items()]
        if self.status.startswith("304"):
            length = []
        else:
            length = [f"Content-Length: {len(self.body)}"]
        return "\r\n".join([f"HTTP/1.1 {self.status}", f"Date: {date}", *lines, *length, "", ""]).encode()


@dataclass(frozen=True)
class _CachedPage:
    """A page as it is sent, and until when it is valid."""

    response: FragmentResponse
    version: int
    until: int | None
    """when the page changes, in milliseconds by the clock; None if unknown"""

    def holds(self, version: int, now: int) -> bool:
        """Return True if the page can be sent as it is."""
        return self.version == version and (self.until is None or now < self.until)

    def at(self, now: int) -> FragmentResponse:
        """Return the response with its remaining validity."""
        if self.until is None:
            return FragmentResponse(
                self.response.status, {**self.response.headers, "Cache-Control": "no-cache"}, self.response.body
            )
        seconds = min(MAX_AGE_S, max(0, (self.until - now) // 1000))
        told = {
            "Cache-Control": f"public, max-age={seconds}",
            "Expires": formatdate(now // 1000 + seconds, usegmt=True),
        }
        return FragmentResponse(self.response.status, {**self.response.headers, **told}, self.response.body)


@dataclass(eq=False)
class FragmentServer:
    """The fragments of one dataset, at one path."""

    data: ServableData
    clock: Callable[[], int]
    """returns milliseconds since 1970"""
    path: str = "/"
    per_page: int = 100
    address: str = ""
    """the public address of the dataset, if it differs"""
    max_bytes: int = 64_000_000
    """maximum size of the cached pages"""
    requests: int = 0
    pages_built: int = 0
    """number of pages that were built"""
    _cache: OrderedDict[tuple[str, str, str, str], _CachedPage] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def answer(self, method: str, target: str, headers: Mapping[str, str]) -> FragmentResponse:
        """Return the response to a request; header names are in lower case."""
        self.requests += 1
        if method not in METHODS:
            return _plain(
                "405 Method Not Allowed", f"{method} is not supported; use GET", {"Allow": ", ".join(METHODS)}
            )
        if method == "OPTIONS":
            allowed = {"Access-Control-Allow-Methods": ", ".join(METHODS), "Access-Control-Allow-Headers": "Accept"}
            return FragmentResponse("204 No Content", {**CORS_HEADERS, **allowed, "Access-Control-Max-Age": "86400"})
        accept, coding = headers.get("accept", ""), _coding(headers.get("accept-encoding", ""))
        now = self.clock()
        key = (headers.get("host", ""), target, accept, coding)
        made, version = self._cache.get(key), self.data.version(now)
        if made is None or not made.holds(version, now):
            try:
                made = self._make(key, version, now)
            except _RefusedError as refused:
                return _plain(refused.status, str(refused))
            except ValueError as error:
                return _plain("400 Bad Request", str(error))
            self._hold(key, made)
        response = made.at(now)
        if _knows(headers.get("if-none-match", ""), response.headers["ETag"]):
            return FragmentResponse(
                "304 Not Modified", {k: v for k, v in response.headers.items() if k in _NOT_MODIFIED_HEADERS}
            )
        return response

    def _make(self, key: tuple[str, str, str, str], version: int, now: int) -> _CachedPage:
        host, target, accept, coding = key
        parts = urlsplit(target)
        if parts.path.rstrip("/") != self.path.rstrip("/"):
            raise _RefusedError("404 Not Found", f"the fragments are at {self.path}")
        if not self.address and not _HOST.fullmatch(host):
            raise _RefusedError("400 Bad Request", f"invalid Host header {host[:100]!r}")
        media_type = negotiated(accept)
        if media_type is None:
            raise _RefusedError("406 Not Acceptable", f"available: {', '.join(FORMATS)}")
        asked = dict(parse_qsl(parts.query))
        instant = asked.pop("instant", "")
        pattern, number = pattern_of(asked), page_number(asked.get("page", "1"))
        data = self._at(instant)
        quads, total = data.slice(pattern, (number - 1) * self.per_page, self.per_page, now)
        base = self.address or f"http://{host}{self.path}"
        place = PagePosition(
            base=base,
            pattern=pattern,
            number=number,
            per_page=self.per_page,
            total=total,
            history=self.data.holding is not None,
            instant=instant,
        )
        if number > place.last:
            raise _RefusedError("404 Not Found", f"there are {place.last} pages of {total} quads")
        self.pages_built += 1
        try:
            body = write_page(quads, place, media_type)
        except OSError as error:
            raise _RefusedError("406 Not Acceptable", f"{error}: ask for application/trig") from None
        response = _page_response(body, media_type, coding)
        return _CachedPage(response, version, self.data.until(pattern, now))

    def _at(self, instant: str) -> ServableData:
        if not instant:
            return self.data
        if self.data.holding is None:
            raise ValueError("instant is not supported: these data have no history")
        if instant != NOW:
            raise ValueError(f"instant={instant[:40]}: use instant={NOW}, or no instant for the whole history")
        return self.data.holding

    def _hold(self, key: tuple[str, str, str, str], made: _CachedPage) -> None:
        old = self._cache.pop(key, None)
        self._bytes += len(made.response.body) - (len(old.response.body) if old else 0)
        self._cache[key] = made
        while self._bytes > self.max_bytes or len(self._cache) > 100_000:
            self._bytes -= len(self._cache.popitem(last=False)[1].response.body)


_NOT_MODIFIED_HEADERS = ("ETag", "Cache-Control", "Expires", *CORS_HEADERS)
"""The headers of a 304 response."""


def pattern_of(asked: Mapping[str, str]) -> QuadPattern:
    """Return the pattern of an address; raise ValueError if a parameter is unknown or invalid."""
    if unknown := asked.keys() - {*ROLES, "page"}:
        raise ValueError(f"{min(unknown)!r} is not a parameter of a fragment; use {', '.join(ROLES)} or page")
    return QuadPattern(**{role: read_term(asked[role]) for role in ROLES if role in asked})


def page_number(written: str) -> int:
    if not (written.isascii() and written.isdigit() and len(written) < 10 and int(written) > 0):
        raise ValueError(f"page={written[:20]}: expected a page number from 1")
    return int(written)


def negotiated(accept: str) -> str | None:
    """Return the preferred media type, by quality and then by our order; None if no format is acceptable."""
    wanted = {}
    for part in accept.split(",") if accept.strip() else ["*/*"]:
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        wanted[name] = _quality(parameters)
    best = max(FORMATS, key=lambda kind: _quality_of(kind, wanted))
    return best if _quality_of(best, wanted) > 0 else None


def _quality(parameters: list[str]) -> float:
    written = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    try:
        return min(1.0, max(0.0, float(written)))
    except ValueError:
        return 0.0


def _quality_of(kind: str, wanted: Mapping[str, float]) -> float:
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        if name in wanted:
            return wanted[name]
    return 0.0


def _coding(accepted: str) -> str:
    names = {part.partition(";")[0].strip().lower(): part for part in accepted.split(",")}
    if "gzip" in names and "q=0" not in names["gzip"].replace(" ", "").split(";")[1:]:
        return "gzip"
    return ""


def _page_response(body: bytes, media_type: str, coding: str) -> FragmentResponse:
    tag = f'"{hashlib.sha256(body + coding.encode()).hexdigest()[:24]}"'
    headers = {**CORS_HEADERS, "Content-Type": f"{media_type};charset=utf-8", "ETag": tag}
    if coding and len(body) > COMPRESS_FROM_BYTES:
        body, headers["Content-Encoding"] = gzip.compress(body, 5, mtime=0), coding
    return FragmentResponse("200 OK", headers, body)


def _knows(written: str, tag: str) -> bool:
    return written.strip() == "*" or tag in [each.strip().removeprefix("W/") for each in written.split(",")]


def _plain(status: str, text: str, headers: Mapping[str, str] | None = None) -> FragmentResponse:
    return FragmentResponse(
        status, {**CORS_HEADERS, "Content-Type": "text/plain;charset=utf-8", **(headers or {})}, text.encode()
    )
