"""Sources read as one, with a record of what each returned; a SERVICE reads only one of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyoxigraph import DefaultGraph, Quad

from freshkeeper.maintenance.annotated.annotated_source import StaticFragments
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern


@dataclass(eq=False)
class FederatedReader:
    """Reads the fragments of all sources for one evaluation."""

    readers: Sequence[StaticFragments]
    quads_by_source: Sequence[dict[Quad, None]] = ()
    """the quads of each source"""
    federation: "FederatedReader | None" = field(default=None, repr=False)
    """the reader of all sources, if this one reads only one"""

    def __post_init__(self) -> None:
        self.quads_by_source = self.quads_by_source or [{} for _ in self.readers]

    @property
    def quads(self) -> bool:
        """True if any source has graphs."""
        return any(reader.quads for reader in (self.federation or self).readers)

    def pages(self, pattern: QuadPattern) -> float:
        """Return how many requests a fragment needs over all sources."""
        return sum(reader.pages(pattern) for reader in self.readers if _can_have(reader, pattern))

    def has(self, pattern: QuadPattern) -> bool:
        return all(reader.has(pattern) for reader in self.readers if _can_have(reader, pattern))

    def read_all(self, pattern: QuadPattern) -> list[Quad]:
        """Return the fragment from all sources.

        For an open graph only named graphs, as GRAPH does not match the default.
        """
        every = []
        for reader, found in zip(self.readers, self.quads_by_source, strict=True):
            quads = reader.read_all(pattern) if _can_have(reader, pattern) else []
            if not reader.quads:
                quads = [Quad(quad.subject, quad.predicate, quad.object) for quad in quads]
            elif pattern.graph is None:
                quads = [quad for quad in quads if not isinstance(quad.graph_name, DefaultGraph)]
            found.update(dict.fromkeys(quads))
            every += quads
        return every

    def service(self, address: str) -> "FederatedReader | None":
        """Return a reader of only the source at this address, or None."""
        every = self.federation or self
        for reader, found in zip(every.readers, every.quads_by_source, strict=True):
            if reader.start == address:
                return FederatedReader([reader], [found], every)
        return None


def _can_have(reader: StaticFragments, pattern: QuadPattern) -> bool:
    """Return True if a source may have quads of a fragment: without graphs it has the default graph only."""
    return reader.quads or isinstance(pattern.graph, DefaultGraph)
