"""`no-cache`: the source is asked every time; a baseline that sets no budget."""

from dataclasses import dataclass, field
from typing import ClassVar

from freshkeeper.policies.ttl import Ttl


@dataclass(frozen=True)
class NoCache(Ttl):
    """Fetches all that the window needs, at every evaluation: no answer is ever stale, and nothing costs more."""

    name: ClassVar[str] = "no-cache"
    ttl_ms: int = field(default=0, init=False)
