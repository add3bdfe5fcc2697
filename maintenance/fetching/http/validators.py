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
    """The last answers that had a validator, the oldest dropped when they get too many bytes."""

    max_bytes: int = 32_000_000
    _held: OrderedDict[str, HttpResponse] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def headers(self, url: str) -> Mapping[str, str]:
        """What to send with a request: the strongest validator there is."""
        with self._lock:
            held = self._held.get(url)
        told = ((name, held.headers[kind]) for kind, name in PAIRS if held is not None and kind in held.headers)
        return dict([next(told)]) if held is not None else {}

    def whole(self, url: str, answer: HttpResponse) -> HttpResponse:
        """The answer, with the body that is held where the source says that nothing changed."""
        with self._lock:
            held = self._held.get(url)
            if answer.status == UNCHANGED and held is not None:
                kind = {"content-type": held.headers.get("content-type", "")}
                return replace(held, headers={**held.headers, **answer.headers, **kind})
            self._drop(url)
            if answer.status == 200 and any(kind in answer.headers for kind, _ in PAIRS):
                self._held[url] = answer
                self._bytes += len(answer.body)
            while self._bytes > self.max_bytes:
                self._drop(next(iter(self._held)))
            return answer

    def _drop(self, url: str) -> None:
        if url in self._held:
            self._bytes -= len(self._held.pop(url).body)
