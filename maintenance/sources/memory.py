"""A source in memory: a table of edges and a table of values that a script, a test or the simulated world changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from freshkeeper.maintenance.fetching.endpoint import Copy, Expanded, Fetched, Key, Price


@dataclass(eq=False)
class InMemory:
    """A source with one request per key; a key that is not there has the value None.

    >>> from freshkeeper import InMemory
    >>> source = InMemory({"jazz": ["ann"]}, {"ann": 10})
    >>> source.expand("jazz", now=0).copies["ann"].value, source.fetch(["ann"], now=0).spent
    (10, 1.0)
    """

    edges: Mapping[Any, Iterable[Key]]
    values: dict[Any, Any]
    """by key: somebody's own dictionary, whatever the type of its keys"""
    price: Price = field(default_factory=Price)
    requests: int = 0

    def fetch(self, keys: Sequence[Key], now: int) -> Fetched:
        """Look every key up."""
        del now
        self.requests += len(keys)
        return Fetched([Copy(self.values.get(key)) for key in keys], self.price.of(len(keys)), len(keys))

    def expand(self, sn: Key, now: int) -> Expanded:
        """Look an SN's edges up, and the values with them."""
        del now
        self.requests += 1
        copies = {key: Copy(self.values.get(key)) for key in self.edges.get(sn, ())}
        return Expanded(copies, self.price.of(1), 1)
