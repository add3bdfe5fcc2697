"""What elements bind: what every solution of theirs has, and all that they mention."""

from collections.abc import Iterable

from freshkeeper.maintenance.query.syntax.patterns import Element


def certain(elements: Iterable[Element]) -> frozenset[str]:
    """What every solution of a join of these elements binds."""
    return frozenset().union(*map(_surely, elements))


def _surely(element: Element) -> frozenset[str]:
    if element.kind == "TRIPLE":
        return element.bound
    if element.kind == "VALUES":
        return frozenset() if "UNDEF" in element.text.upper() else element.bound
    if element.kind == "UNION":
        return frozenset.intersection(*map(certain, element.parts))
    if element.kind in ("GROUP", "WINDOW", "GRAPH"):
        inner = certain(element.parts[0]) if element.parts else frozenset()
        return inner | (element.bound & element.variables - _inner(element))
    if element.kind == "SELECT":
        return element.bound & certain(element.parts[0]) if element.parts else frozenset()
    return frozenset()


def _inner(element: Element) -> frozenset[str]:
    return frozenset().union(*(e.variables for part in element.parts for e in part))


def everything(elements: Iterable[Element]) -> frozenset[str]:
    """Every variable that stands anywhere in these elements, shown or not."""
    return frozenset().union(*(inner.variables for outer in elements for inner in outer.walk()))


def services_in(element: Element) -> int:
    """How many SERVICE blocks there are in an element; those inside another one do not count."""
    return 1 if element.kind == "SERVICE" else sum(services_in(e) for part in element.parts for e in part)
