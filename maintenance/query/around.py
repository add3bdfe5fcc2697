"""What stands around a SERVICE block: the groups that hold it, and what of them its solutions must join with.

SERVICE blocks are numbered in the order of the text; those inside another SERVICE do not count.

A SERVICE is asked for the values that the windows give it. That is right where leaving out its other solutions changes
nothing: values reach it through OPTIONAL, MINUS and EXISTS if what stands before always binds them, and through a
sub-query if it shows them, and groups by them where it counts. Too many values do no harm, too few would.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from maintenance.query.beside import Beside
from maintenance.query.certain import everything, services_in
from maintenance.query.patterns import Element
from maintenance.query.subselect import passing

SWITCHING = ("WINDOW", "GRAPH")
"""What says which graph its patterns ask."""
TRANSPARENT = ("GROUP", "UNION", *SWITCHING)
"""Blocks that join with what is around them."""


@dataclass(frozen=True, eq=False)
class Level:
    """A group, and the place of the element that is the SERVICE block or holds it."""

    group: Sequence[Element]
    at: int

    @property
    def holder(self) -> Element:
        """The SERVICE, or the block that it is in."""
        return self.group[self.at]

    @property
    def beside(self) -> list[Element]:
        """All others."""
        return [*self.group[: self.at], *self.group[self.at + 1 :]]


@dataclass(frozen=True)
class Surroundings:
    """The window part of a SERVICE pattern."""

    text: str
    """a group whose solutions are what joins"""
    variables: frozenset[str]
    """what they bind, unless an expression fails"""


def levels_around(group: Sequence[Element], number: int) -> list[Level]:
    """From the outermost group to the one with the SERVICE of this number in it."""
    for at, element in enumerate(group):
        inside = services_in(element)
        if number >= inside:
            number -= inside
            continue
        here = Level(group, at)
        if element.kind == "SERVICE":
            return [here]
        for part in element.parts:
            inside = sum(map(services_in, part))
            if number < inside:
                return [here, *levels_around(part, number)]
            number -= inside
    return []


def blocks_around(group: Sequence[Element], number: int) -> list[str]:
    """The kinds of the blocks around the SERVICE of this number, from the outside."""
    return [level.holder.kind for level in levels_around(group, number)[:-1]]


def surroundings(group: Sequence[Element], number: int) -> Surroundings:
    """What joins with the SERVICE of this number."""
    levels = levels_around(group, number)
    services = everything(e for top in group for e in top.walk() if e.kind == "SERVICE")
    kept: list[list[str]] = []
    arriving: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    for n, level in enumerate(levels):
        others = everything(e for other in levels if other is not level for e in other.beside)
        here = Beside(level.group, level.at, services, others)
        kept.append([element.text for element in here.elements])
        seen |= everything(here.elements)
        arriving |= here.variables
        if n + 1 < len(levels):
            through = _through(level, here, arriving)
            if level.holder.kind not in TRANSPARENT and not seen & everything([level.holder]) <= through:
                kept, through, seen = [[] for _ in kept], frozenset(), frozenset()  # what is inside must do
            arriving = through
    text = ""
    for level, texts in zip(reversed(levels), reversed(kept), strict=True):
        inner = level.holder
        if inner.kind in SWITCHING and inner.name is not None:
            text = f"{inner.kind} {inner.name.text} {{ {text} }}"
        text = " . ".join(filter(None, [*texts, text]))
    return Surroundings(f"{{ {text} }}", arriving)


def _through(level: Level, here: Beside, arriving: frozenset[str]) -> frozenset[str]:
    """Whose values may leave solutions out of what is inside a block."""
    block = level.holder
    if block.kind in TRANSPARENT:
        return arriving
    if block.kind == "SELECT":
        return arriving & passing(block)
    if block.kind == "FILTER":
        return arriving & here.variables
    return arriving & here.before
