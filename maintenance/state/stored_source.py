"""The seam between a state and the source whose view it keeps."""

from typing import Any, ClassVar, Protocol

from freshkeeper.maintenance.fetching.rate_limiter import RateLimiter


class StoredSource(Protocol):
    """A source whose view survives its process."""

    differs: ClassVar[str]
    """what has changed where the view is another one, in words"""
    edges: dict[Any, Any]
    """what it knows of the edges of lookup keys"""

    @property
    def identity(self) -> str:
        """A text that differs for another view."""

    @property
    def limits(self) -> RateLimiter | None:
        """Rate limits and breaker, which survive a restart; None where the source has none."""
