"""The SERVICE patterns of a query."""

from collections.abc import Iterable
from dataclasses import dataclass

from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.tree import Element, Service


@dataclass(frozen=True, eq=False)
class ServicePattern:
    """P^S: one SERVICE block of a query."""

    block: Service

    @property
    def endpoint(self) -> str | None:
        """The IRI of the source, if it is named."""
        return self.block.iri

    @property
    def endpoint_variable(self) -> str | None:
        """The variable that stands for the source, if one does."""
        return self.block.name.text[1:] if self.block.iri is None else None

    @property
    def silent(self) -> bool:
        """Whether a failure is one solution that binds nothing."""
        return self.block.silent

    @property
    def prologue(self) -> Prologue:
        """What its names stand for."""
        return self.block.source.prologue

    @property
    def text(self) -> str:
        """Its group with the brackets."""
        return self.block.group.text

    @property
    def span(self) -> tuple[int, int]:
        """Its place in the source of the query's expression."""
        return self.block.start, self.block.end

    @property
    def elements(self) -> tuple[Element, ...]:
        """The triple patterns and blocks of the group."""
        return self.block.inner

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it mentions, bound or not, in the order of the text."""
        return _shown(element.variables for element in self.elements)

    @property
    def bound(self) -> tuple[str, ...]:
        """What its solutions bind."""
        return _shown(element.bound for element in self.elements)

    @property
    def predicates(self) -> tuple[str, ...]:
        """The IRIs in predicate position, sorted: among them are the volatile ones."""
        return tuple(sorted(self.block.predicates))

    @property
    def where(self) -> str:
        """The endpoint as messages show it."""
        return f"<{self.endpoint}>" if self.endpoint is not None else f"?{self.endpoint_variable}"


def _shown(names: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """In order, without blank nodes."""
    return tuple(sorted(name for name in frozenset().union(*names) if not name.startswith("_:")))


def services_in(element: Element) -> tuple[ServicePattern, ...]:
    """Every SERVICE pattern in an element, at any depth, in the order of the text."""
    found = (each for each in element.deep() if isinstance(each, Service))
    return tuple(ServicePattern(each) for each in sorted(found, key=lambda each: each.first))


def outermost(services: Iterable[ServicePattern]) -> tuple[ServicePattern, ...]:
    """Those that stand in no other one, of some in the order of the text."""
    found: list[ServicePattern] = []
    for service in services:
        if not found or service.span[0] >= found[-1].span[1]:
            found.append(service)
    return tuple(found)
