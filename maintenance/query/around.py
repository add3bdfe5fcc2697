"""What stands around a SERVICE block: the groups that hold it, and the kinds of their blocks.

SERVICE blocks are numbered in the order of the text; those inside another SERVICE do not count.
"""

from collections.abc import Sequence

from maintenance.query.patterns import Element


def levels_around(group: Sequence[Element], number: int) -> list[Sequence[Element]]:
    """The groups from the outermost one to the one that holds the SERVICE of this number, without that SERVICE."""
    for index, element in enumerate(group):
        beside = [*group[:index], *group[index + 1 :]]
        if element.kind == "SERVICE":
            if number == 0:
                return [beside]
            number -= 1
            continue
        for part in element.parts:
            inside = services_in(part)
            if number < inside:
                return [beside, *levels_around(part, number)]
            number -= inside
    return []


def blocks_around(group: Sequence[Element], number: int) -> list[str]:
    """The kinds of the blocks around the SERVICE of this number, from the outside."""
    for element in group:
        if element.kind == "SERVICE":
            if number == 0:
                return []
            number -= 1
            continue
        for part in element.parts:
            inside = services_in(part)
            if number < inside:
                return [element.kind, *blocks_around(part, number)]
            number -= inside
    return []


def services_in(part: Sequence[Element]) -> int:
    """How many SERVICE blocks there are in a group."""
    return sum(1 if e.kind == "SERVICE" else sum(services_in(p) for p in e.parts) for e in part)
