"""What of the group that holds a SERVICE takes part in its window part.

Patterns that join can only leave solutions out, so they all do. FILTER, BIND, MINUS and OPTIONAL look at the solutions
before them: they do where that is nothing that is missing here, as what a SERVICE binds, or what other groups bind.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from freshkeeper.maintenance.query.federation.bound_variables import certain, everything, services_in
from freshkeeper.maintenance.query.syntax.patterns import Element

JOINING = ("TRIPLE", "WINDOW", "GRAPH", "VALUES", "GROUP", "UNION", "SELECT")


@dataclass(eq=False)
class Beside:
    """The elements of a group around the one at a place, which is the SERVICE or holds it."""

    group: Sequence[Element]
    at: int
    services: frozenset[str]
    """what any SERVICE of the query mentions"""
    others: frozenset[str]
    """what the groups around this one and inside it mention"""
    left_out: frozenset[int] = frozenset()
    """places of what must not take part"""
    handed: bool = False
    """whether EXISTS hands on the values of the groups around it, also to expressions in blocks"""
    _chosen: dict[int, Element] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose; a FILTER looks at its whole group."""
        there = [(n, e) for n, e in enumerate(self.group) if n != self.at]
        plain = [(n, e) for n, e in there if not services_in(e) and n not in self.left_out and not self._looks_out(e)]
        missing = self.services | self.others | everything(e for n, e in there if (n, e) not in plain)
        self._chosen = {n: e for n, e in plain if e.kind in JOINING}
        looking = [(n, e) for n, e in plain if e.kind not in JOINING]
        for n, element in sorted(looking, key=lambda each: each[1].kind == "FILTER"):
            known = self._bound(len(self.group) if element.kind == "FILTER" else n)
            if self._fits(element, missing - known):
                self._chosen[n] = element
            else:
                missing |= everything([element])

    @property
    def elements(self) -> list[tuple[int, Element]]:
        """Those that take part, with their places."""
        return sorted(self._chosen.items())

    @property
    def variables(self) -> frozenset[str]:
        """What their solutions bind, unless an expression fails."""
        return self._bound(len(self.group))

    @property
    def before(self) -> frozenset[str]:
        """The same of what stands before the place."""
        return self._bound(self.at)

    def _bound(self, end: int) -> frozenset[str]:
        elements = [element for n, element in sorted(self._chosen.items()) if n < end]
        found = frozenset[str]()
        for element in elements:
            if element.kind != "BIND":
                found |= certain([element])
            elif everything([element]) - element.bound <= found:
                found |= element.bound
        return found

    def _looks_out(self, element: Element) -> bool:
        """Whether it is a block whose expression may look at a value that EXISTS hands on, which is missing here."""
        looks = self.handed and element.kind in JOINING and any(e.kind in ("FILTER", "BIND") for e in element.walk())
        return looks and not (everything([element]) - certain([element])).isdisjoint(self.others)

    def _fits(self, element: Element, missing: frozenset[str]) -> bool:
        """Whether it means the same here; what BIND computes may join with a SERVICE, and with no other group."""
        mentioned = everything([element])
        if element.kind != "BIND":
            return mentioned.isdisjoint(missing)
        return element.bound.isdisjoint(self.others) and (mentioned - element.bound).isdisjoint(missing)
