"""Blocks whose graph is a variable, `WINDOW ?w { ... }` and `GRAPH ?g { ... }`, where pyoxigraph misreads them.

To SPARQL the variable joins what the block gives, to the library it is a part of each triple pattern inside. Both are
the same where a triple pattern comes before all that looks at the solutions before it, and no sub-query hides it.
"""

from collections.abc import Iterator, Sequence

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.syntax.tree import (
    Element,
    Graph,
    Group,
    Minus,
    Optional,
    Select,
    Service,
    TriplePattern,
    Union,
    bound_variables,
)


def check_free_graphs(query: Query) -> None:
    """An error where such a block would be misread; what stands in a SERVICE is the source's business."""
    for element, found in _misread(query.group):
        said = (
            f"the graph of {element.flat} is a variable, and {found.flat} does not know it: begin the block "
            "with a triple pattern and put no sub-query into it, or name the window or graph"
        )
        raise ConfigError(query.said_of(element, said))


def _misread(group: Sequence[Element]) -> Iterator[tuple[Element, Element]]:
    """Such blocks, each with what is to blame."""
    for element in group:
        free = isinstance(element, Graph) and element.iri is None
        if free and (found := _early(element.inner) or (None if _asks(element.inner) else element)):
            yield element, found
        if not isinstance(element, Service):
            for part in element.parts:
                yield from _misread(part)


def _early(group: Sequence[Element]) -> Element | None:
    """What hides the graph, or looks at solutions that do not have it yet."""
    for n, element in enumerate(group):
        if isinstance(element, Select):
            return element
        if isinstance(element, Optional | Minus) and not _asks(group[:n]):
            return element
        if isinstance(element, Minus) and bound_variables(element.inner).isdisjoint(bound_variables(group[:n])):
            return element
        inside = () if isinstance(element, Graph | Service) else element.parts
        if found := next(filter(None, map(_early, inside)), None):
            return found
    return None


def _asks(group: Sequence[Element]) -> bool:
    """Whether every solution of a group comes from a triple pattern of its own graph."""
    return any(
        isinstance(e, TriplePattern)
        or (isinstance(e, Group | Union) and not isinstance(e, Graph) and all(map(_asks, e.parts)))
        for e in group
    )
