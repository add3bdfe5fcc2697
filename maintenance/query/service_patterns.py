"""The SERVICE patterns of a query."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.tree import Element, ServiceBlock


@dataclass(frozen=True, eq=False)
class ServicePattern:
    """P^S: one SERVICE block of a query."""

    block: ServiceBlock

    @property
    def endpoint(self) -> str | None:
        """The IRI of the source, or None if a variable stands for it."""
        return self.block.iri

    @property
    def endpoint_variable(self) -> str | None:
        """The variable that stands for the source, or None if it has an IRI."""
        if self.block.iri is not None:
            return None
        return self.block.name.text[1:]

    @property
    def silent(self) -> bool:
        return self.block.silent

    @property
    def prologue(self) -> Prologue:
        """The prologue of the text in which the block stands."""
        return self.block.source.prologue

    @property
    def text(self) -> str:
        return self.block.group.text

    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the block in the source of the query's expression."""
        return self.block.start, self.block.end

    @property
    def elements(self) -> tuple[Element, ...]:
        """The triple patterns and blocks of the group."""
        return self.block.inner

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the pattern mentions, bound or not, sorted by name."""
        return _sorted_variables(element.variables for element in self.elements)

    @property
    def bound(self) -> tuple[str, ...]:
        """The variables that solutions of the pattern bind, sorted by name."""
        return _sorted_variables(element.bound for element in self.elements)

    @property
    def predicates(self) -> tuple[str, ...]:
        """The IRIs in predicate position, sorted; the volatile ones are among them."""
        return tuple(sorted(self.block.predicates))

    @property
    def where(self) -> str:
        """The endpoint for messages."""
        if self.endpoint is None:
            return f"?{self.endpoint_variable}"
        return f"<{self.endpoint}>"


def _sorted_variables(names: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """Return all names, sorted, without blank nodes."""
    return tuple(sorted(name for name in frozenset().union(*names) if not name.startswith("_:")))


def services_in(element: Element) -> tuple[ServicePattern, ...]:
    """Return every SERVICE pattern in an element, at any depth, in the order of the text."""
    blocks = sorted((e for e in element.deep() if isinstance(e, ServiceBlock)), key=attrgetter("first"))
    return tuple(map(ServicePattern, blocks))


def outermost(services: Iterable[ServicePattern]) -> tuple[ServicePattern, ...]:
    """Return those of some patterns, in the order of the text, that stand in no other one."""
    found: list[ServicePattern] = []
    for service in services:
        if not found or service.span[0] >= found[-1].span[1]:
            found.append(service)
    return tuple(found)
