"""Decompression of response bodies, piece by piece and up to a limit, so that none fills the memory."""

import zlib
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.maintenance.fetching.fetch_errors import FetchError

ACCEPTED = "gzip, deflate"
FORMATS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Codings of HTTP, and how zlib calls them."""
RAW = -15
"""What some servers call deflate: without the two bytes that it begins with."""


@dataclass(eq=False)
class Unpacker:
    """Decompresses one Content-Encoding, chunk by chunk."""

    coding: str
    _inner: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.coding = self.coding.strip().lower()
        if self.coding not in ("", "identity", *FORMATS):
            raise FetchError(f"malformed: the answer is encoded as {self.coding[:40]!r}, not as {ACCEPTED}")

    def unpack(self, chunk: bytes, most: int) -> bytes:
        """Decompress a chunk, at most `most` bytes of it."""
        if self.coding not in FORMATS:
            return chunk
        found, size = [], 0
        try:
            while chunk and size < most:
                if self._inner is None or self._inner.eof:  # several may follow each other
                    bits = RAW if self.coding == "deflate" and chunk[0] & 0x0F != 8 else FORMATS[self.coding]
                    self._inner = zlib.decompressobj(bits)
                found.append(self._inner.decompress(chunk, most - size))
                size += len(found[-1])
                chunk = self._inner.unused_data
        except zlib.error as error:
            raise FetchError(f"malformed: the answer is no {self.coding}: {error}", again=True) from None
        return b"".join(found)

    @property
    def is_complete(self) -> bool:
        """Return whether the body is complete."""
        return self._inner is None or bool(self._inner.eof)
