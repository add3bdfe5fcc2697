"""The check of blocks whose graph is a variable, `WINDOW ?w { ... }` and `GRAPH ?g { ... }`.

In SPARQL the variable joins the solutions of the block; pyoxigraph makes it a part of each triple pattern inside. Both
are equal if a triple pattern comes before everything that looks at the solutions before it, and no sub-query hides the
variable. Other blocks are refused.
"""

from collections.abc import Iterator, Sequence

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.syntax.tree import (
    Element,
    GraphBlock,
    GroupBlock,
    Minus,
    Optional,
    Select,
    ServiceBlock,
    TriplePattern,
    Union,
    bound_variables,
)


def check_free_graphs(query: Query) -> None:
    """Raise ConfigError at a block that pyoxigraph would misread; text inside SERVICE belongs to the source."""
    for block, cause in _misread(query.group):
        problem = (
            f"the graph of {block.flat} is a variable, and {cause.flat} does not know it: begin the block "
            "with a triple pattern and put no sub-query into it, or name the window or graph"
        )
        raise ConfigError(query.message_at(block, problem))


def _misread(group: Sequence[Element]) -> Iterator[tuple[Element, Element]]:
    """Yield misread blocks, each with the element that is the cause."""
    for element in group:
        if isinstance(element, GraphBlock) and element.iri is None:
            cause = _early(element.inner)
            if cause is None and not _matches_graph(element.inner):
                cause = element
            if cause is not None:
                yield element, cause
        if not isinstance(element, ServiceBlock):
            for part in element.parts:
                yield from _misread(part)


def _early(group: Sequence[Element]) -> Element | None:
    """Return an element that hides the graph, or looks at solutions that do not have it yet."""
    for n, element in enumerate(group):
        if isinstance(element, Select):
            return element
        if isinstance(element, Optional | Minus) and not _matches_graph(group[:n]):
            return element
        if isinstance(element, Minus) and bound_variables(element.inner).isdisjoint(bound_variables(group[:n])):
            return element
        if isinstance(element, GraphBlock | ServiceBlock):
            continue
        for part in element.parts:
            cause = _early(part)
            if cause is not None:
                return cause
    return None


def _matches_graph(group: Sequence[Element]) -> bool:
    """Return whether every solution of a group comes from a triple pattern of its own graph."""
    return any(
        isinstance(e, TriplePattern)
        or (isinstance(e, GroupBlock | Union) and not isinstance(e, GraphBlock) and all(map(_matches_graph, e.parts)))
        for e in group
    )
