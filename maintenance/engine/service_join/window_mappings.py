"""Window mappings: the values that windows supply to join with a SERVICE pattern, and until when.

The window part of a query is what stands around a SERVICE block and joins with it. Its solutions are the mappings; each
stays as long as the oldest of the elements it was made of. Elements are found by filling in the triple patterns of
WINDOW blocks; patterns that cannot be filled in (paths, bracketed nodes) are ignored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from freshkeeper.maintenance.base.times import DISTANT_FUTURE
from freshkeeper.maintenance.engine.evaluator import Table, Term, TermRow
from freshkeeper.maintenance.engine.r2s import Freshness
from freshkeeper.maintenance.engine.snapshot import WindowDataset
from freshkeeper.maintenance.engine.windows import WindowState
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.syntax import tree as syntax
from freshkeeper.maintenance.query.syntax.source_text import Path, Quoted, blank_variable

PatternPosition: TypeAlias = str | Term
"""The name of a variable, or a term."""
UNBOUND: TermRow = ()
"""Stands for the lookup key of mappings that lack one of its values."""


@dataclass(frozen=True, eq=False)
class WindowTriplePattern:
    """A triple pattern, and the windows that it is matched against."""

    terms: tuple[PatternPosition, PatternPosition, PatternPosition]
    contents: tuple[WindowState, ...]

    def expiry(self, bound: Mapping[str, Term]) -> int:
        """Return when the element that matches this pattern under a solution leaves its windows."""
        terms = [bound.get(term) if isinstance(term, str) else term for term in self.terms]
        # The pattern holds as long as any of its windows has the triple.
        found = []
        for content in self.contents:
            at = content.quads.latest_time(*terms)
            if at is not None:
                found.append(content.expiry(at))
        return max(found, default=DISTANT_FUTURE)


@dataclass(frozen=True)
class WindowMapping:
    """A window mapping.

    `identity` is everything it binds, `sn` the lookup key, `expiry` the first time at which the windows lack it.
    """

    identity: TermRow
    sn: TermRow
    expiry: int


@dataclass(frozen=True, eq=False)
class WindowMappings:
    """The window mappings of one evaluation."""

    joined: Sequence[WindowMapping]
    variables: tuple[str, ...] = ()
    """the variables of the identities, in order"""
    unbound: bool = False
    """some mappings lack a value of the lookup key; they would join with everything, which is never requested"""

    @property
    def lacking(self) -> dict[TermRow, Freshness]:
        """The entry for `ServiceRows.complete` of mappings without a lookup key."""
        return {UNBOUND: Freshness(0.0)} if self.unbound else {}


@dataclass(frozen=True, eq=False)
class WindowPart:
    """The query that finds the window mappings of one SERVICE pattern."""

    sparql: str
    patterns: tuple[WindowTriplePattern, ...]
    sn: tuple[str, ...]
    dataset: WindowDataset | None
    """None for native queries, which keep their mappings themselves"""

    @classmethod
    def of(
        cls,
        query: Query,
        service: ServicePattern,
        sn: Sequence[str],
        contents: Sequence[WindowState],
        dataset: WindowDataset | None,
    ) -> "WindowPart":
        """Build it for a SERVICE pattern that joins by the variables `sn`."""
        context = query.context(service)
        pattern = context.sparql([window.name for window in query.dataset.named_windows])
        sparql = rewrite_for_pyoxigraph(f"{query.expression.prologue.text}SELECT *\nWHERE {pattern}")
        return cls(sparql, tuple(_patterns(context.elements(), contents)), tuple(sn), dataset)

    def read(self, now: int) -> "WindowMappings":
        """Return the mappings at this evaluation."""
        assert self.dataset is not None
        table = self.dataset.find(self.sparql, now)
        assert isinstance(table, Table)
        if not set(self.sn) <= set(table.variables):
            return WindowMappings([], table.variables, bool(table.rows))
        places = [table.variables.index(name) for name in self.sn]
        seen: dict[TermRow, int] = {}
        found, unbound = [], False
        for row in table.rows:
            sn = tuple(row[n] for n in places)
            if None in sn:
                unbound = True
                continue
            # SPARQL solutions are a bag. Pad the identity of repeated rows so that each remains a mapping of its own.
            copy = seen[row] = seen.get(row, 0) + 1
            bound = {name: term for name, term in zip(table.variables, row, strict=True) if term is not None}
            expiry = min((pattern.expiry(bound) for pattern in self.patterns), default=DISTANT_FUTURE)
            found.append(WindowMapping(row if copy == 1 else (*row, *[None] * copy), sn, expiry))
        return WindowMappings(found, table.variables, unbound)


def _patterns(
    elements: Sequence[syntax.Element], contents: Sequence[WindowState], searched: tuple[WindowState, ...] | None = None
) -> Iterator[WindowTriplePattern]:
    """Yield the triple patterns over windows; those outside WINDOW blocks match the merged windows."""
    merged = tuple(c for c in contents if not c.window.is_named)
    for element in elements:
        if isinstance(element, syntax.TriplePattern):
            if searched or merged:
                yield from (
                    WindowTriplePattern(terms, merged if searched is None else searched) for terms in _filled(element)
                )
        elif isinstance(element, syntax.WindowBlock):
            named = tuple(c for c in contents if c.window.is_named and element.iri in (None, c.window.name))
            yield from _patterns(element.inner, contents, named)
        elif not isinstance(element, syntax.GraphBlock | syntax.Minus | syntax.Filter | syntax.ServiceBlock):
            yield from _patterns(element.inner, contents, searched)


def _filled(element: syntax.TriplePattern) -> Iterator[tuple[PatternPosition, PatternPosition, PatternPosition]]:
    """Yield the triples of a pattern whose terms are all simple; blank nodes become variables."""
    for s, p, o in element.triples:
        known = [_blank(term) for term in (s, p, o) if not isinstance(term, Path | Quoted)]
        if len(known) == 3:
            yield known[0], known[1], known[2]


def _blank(term: PatternPosition) -> PatternPosition:
    if isinstance(term, str) and term.startswith("_:"):
        return blank_variable(term)
    return term
