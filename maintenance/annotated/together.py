"""Several sources read as one, with what each of them gave; a SERVICE asks one of them alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyoxigraph import DefaultGraph, Quad

from freshkeeper.maintenance.annotated.annotated_source import StaticFragments
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern


@dataclass(eq=False)
class Together:
    """What reads their fragments for one evaluation."""

    readers: Sequence[StaticFragments]
    found: Sequence[dict[Quad, None]] = ()
    """by each of them"""
    whole_of: "Together | None" = field(default=None, repr=False)
    """all sources, where this is one of them"""

    def __post_init__(self) -> None:
        self.found = self.found or [{} for _ in self.readers]

    @property
    def quads(self) -> bool:
        """Whether any source has graphs."""
        return any(reader.quads for reader in (self.whole_of or self).readers)

    def pages(self, pattern: QuadPattern) -> float:
        """How many requests a fragment takes of all of them."""
        return sum(reader.pages(pattern) for reader in self.readers if _can_have(reader, pattern))

    def has(self, pattern: QuadPattern) -> bool:
        """Whether none of them has to be asked."""
        return all(reader.has(pattern) for reader in self.readers if _can_have(reader, pattern))

    def whole(self, pattern: QuadPattern) -> list[Quad]:
        """The fragment of each of them; of any graph are those with a name, for GRAPH does not mean the default one."""
        every = []
        for reader, found in zip(self.readers, self.found, strict=True):
            quads = reader.whole(pattern) if _can_have(reader, pattern) else []
            if not reader.quads:
                quads = [Quad(quad.subject, quad.predicate, quad.object) for quad in quads]
            elif pattern.graph is None:
                quads = [quad for quad in quads if not isinstance(quad.graph_name, DefaultGraph)]
            found.update(dict.fromkeys(quads))
            every += quads
        return every

    def service(self, address: str) -> "Together | None":
        """The source at an address alone."""
        every = self.whole_of or self
        for reader, found in zip(every.readers, every.found, strict=True):
            if reader.start == address:
                return Together([reader], [found], every)
        return None


def _can_have(reader: StaticFragments, pattern: QuadPattern) -> bool:
    """Whether it can have any of it: what has no graphs has the default graph alone."""
    return reader.quads or isinstance(pattern.graph, DefaultGraph)
