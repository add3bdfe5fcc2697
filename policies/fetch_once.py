"""`fetch-once`: what was fetched is kept for ever; a baseline that sets no budget."""

from dataclasses import dataclass, field
from typing import ClassVar

from freshkeeper.policies.ttl import Ttl

NO_EXPIRY_MS = 2**61
"""In milliseconds; longer than any age, and younger than what was never fetched."""


@dataclass(frozen=True)
class FetchOnce(Ttl):
    """Fetches missing entries and nothing else: the least that a cache can cost, and as stale as it gets."""

    name: ClassVar[str] = "fetch-once"
    ttl_ms: int = field(default=NO_EXPIRY_MS, init=False)
