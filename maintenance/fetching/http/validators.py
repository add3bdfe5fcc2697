"""Conditional requests: a document that was read before is asked for with its ETag, and need not be sent again.

A 304 is a request like any other to the budget; it saves the source the work and the network the bytes.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

from freshkeeper.maintenance.fetching.http.exchange import HttpResponse

UNCHANGED = 304
PAIRS = (("etag", "If-None-Match"), ("last-modified", "If-Modified-Since"))


@dataclass(eq=False)
class Validators:
    """The last responses that had a validator; the oldest are dropped when they have too many bytes."""

    max_bytes: int = 32_000_000
    _responses: OrderedDict[str, HttpResponse] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def headers(self, url: str) -> Mapping[str, str]:
        """Return the header of a conditional request, with the strongest validator of the last response."""
        with self._lock:
            held = self._responses.get(url)
        told = ((name, held.headers[kind]) for kind, name in PAIRS if held is not None and kind in held.headers)
        return dict([next(told)]) if held is not None else {}

    def complete(self, url: str, answer: HttpResponse) -> HttpResponse:
        """Return the response, for a 304 with the body of the last one."""
        with self._lock:
            held = self._responses.get(url)
            if answer.status == UNCHANGED and held is not None:
                kind = {"content-type": held.headers.get("content-type", "")}
                return replace(held, headers={**held.headers, **answer.headers, **kind})
            self._drop(url)
            if answer.status == 200 and any(kind in answer.headers for kind, _ in PAIRS):
                self._responses[url] = answer
                self._bytes += len(answer.body)
            while self._bytes > self.max_bytes:
                self._drop(next(iter(self._responses)))
            return answer

    def _drop(self, url: str) -> None:
        if url in self._responses:
            self._bytes -= len(self._responses.pop(url).body)
