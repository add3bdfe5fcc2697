"""Blocks whose graph is a variable, `WINDOW ?w { ... }` and `GRAPH ?g { ... }`, where pyoxigraph misreads them.

To SPARQL the variable joins what the block gives, to the library it is a part of each triple pattern inside. Both are
the same where a triple pattern comes before all that looks at the solutions before it, and no sub-query hides it.
"""

from collections.abc import Sequence

from freshkeeper.maintenance.query.federation.bound_variables import certain
from freshkeeper.maintenance.query.syntax.patterns import Element
from freshkeeper.maintenance.query.syntax.tokens import Kind
from freshkeeper.policies.errors import ConfigError

SWITCHING = ("WINDOW", "GRAPH")


def check_free_graphs(group: Sequence[Element]) -> None:
    """An error where such a block would be misread; what stands in a SERVICE is the source's business."""
    for element in group:
        if _is_free(element) and (found := _early(element.parts[0]) or _unbound(element)):
            raise ConfigError(
                f"the graph of {_flat(element)} is a variable, and {_flat(found)} does not know it: begin the block "
                "with a triple pattern and put no sub-query into it, or name the window or graph"
            )
        if element.kind != "SERVICE":
            for part in element.parts:
                check_free_graphs(part)


def _is_free(element: Element) -> bool:
    return element.kind in SWITCHING and element.name is not None and element.name.kind is Kind.VAR


def _flat(element: Element) -> str:
    return " ".join(element.text.split())


def _unbound(block: Element) -> Element | None:
    """A block without a triple pattern that all its solutions come from."""
    return None if _asks(block.parts[0]) else block


def _early(group: Sequence[Element]) -> Element | None:
    """What hides the graph, or looks at solutions that do not have it yet."""
    for n, element in enumerate(group):
        if element.kind == "SELECT":
            return element
        if element.kind in ("OPTIONAL", "MINUS") and not _asks(group[:n]):
            return element
        if element.kind == "MINUS" and certain(element.parts[0]).isdisjoint(certain(group[:n])):
            return element
        inside = element.parts if element.kind not in (*SWITCHING, "SERVICE") else ()
        if found := next(filter(None, map(_early, inside)), None):
            return found
    return None


def _asks(group: Sequence[Element]) -> bool:
    """Whether every solution of a group comes from a triple pattern of its own graph."""
    return any(e.kind == "TRIPLE" or (e.kind in ("GROUP", "UNION") and all(map(_asks, e.parts))) for e in group)
