"""What stands around a SERVICE block: the groups that hold it, and what of them its solutions must join with.

SERVICE blocks are numbered in the order of the text; those inside another SERVICE do not count.

A SERVICE is asked for the values that the windows give it. That is right where leaving out its other solutions changes
nothing: values reach it through OPTIONAL, MINUS and EXISTS if what stands before always binds them, and through a
sub-query if it shows them, and groups by them where it counts. Too many values do no harm, too few would.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from freshkeeper.maintenance.query.federation.bound_variables import everything, services_in
from freshkeeper.maintenance.query.federation.siblings import Beside
from freshkeeper.maintenance.query.federation.subselect import passing
from freshkeeper.maintenance.query.syntax.blanks import renamed
from freshkeeper.maintenance.query.syntax.patterns import Element

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
    outside: frozenset[str] | None = None
    """which of them stand before the OPTIONAL that holds the SERVICE, if one does"""


@dataclass(frozen=True)
class _Piece:
    """An element that takes part."""

    element: Element
    text: str
    variables: frozenset[str]
    level: int
    place: int


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
    walk = _Walk(
        levels_around(group, number), everything(e for top in group for e in top.walk() if e.kind == "SERVICE")
    )
    while found := walk.offenders():
        walk.left_out |= found
    return Surroundings(f"{{ {walk.text()} }}", walk.arriving, walk.outside)


@dataclass(eq=False)
class _Walk:
    """From the outermost group to the SERVICE, with what takes part so far and the variables that reach it surely."""

    levels: Sequence[Level]
    services: frozenset[str]
    left_out: frozenset[tuple[int, int]] = frozenset()
    """level and place of what would leave out too much"""
    pieces: list[_Piece] = field(default_factory=list)
    arriving: frozenset[str] = frozenset()
    outside: frozenset[str] | None = None

    def offenders(self) -> frozenset[tuple[int, int]]:
        """Walk; what bears a name that means something else further inside, or does not reach it."""
        self.pieces, self.arriving, self.outside = [], frozenset(), None
        for n, level in enumerate(self.levels):
            here = self._here(n, level)
            self.pieces += [_Piece(e, e.text, everything([e]), n, place) for place, e in here.elements]
            self.arriving |= here.variables
            if n + 1 < len(self.levels) and (found := self._enter(n, level, here)):
                return frozenset((piece.level, piece.place) for piece in found)
        return frozenset()

    def text(self) -> str:
        """What takes part, inside the WINDOW and GRAPH blocks in which it stands."""
        text = ""
        for n, level in reversed(list(enumerate(self.levels))):
            block = level.holder
            if block.kind in SWITCHING and block.name is not None:
                text = f"{block.kind} {block.name.text} {{ {text} }}"
            text = " . ".join(filter(None, [*(piece.text for piece in self.pieces if piece.level == n), text]))
        return text

    def _here(self, n: int, level: Level) -> Beside:
        others = everything(e for other in self.levels if other is not level for e in other.beside)
        left_out = frozenset(place for at, place in self.left_out if at == n)
        handed = any(outer.holder.kind in ("FILTER", "BIND") for outer in self.levels[:n])
        return Beside(level.group, level.at, self.services, others, left_out, handed)

    def _enter(self, n: int, level: Level, here: Beside) -> list[_Piece]:
        """Go into a block; gives what must be left out first."""
        block = level.holder
        if block.kind in TRANSPARENT:
            return []
        through = self.arriving & _through(block, here)
        if block.kind == "OPTIONAL" and self.outside is None:
            self.outside = through
        inside = everything([block])
        blocked = inside - through
        if not through & inside:
            self.pieces, through = [], frozenset()  # what is inside must do
        elif block.kind == "SELECT":
            self.pieces = [_apart(piece, blocked, n) for piece in self.pieces]
        else:
            found = [p for p in self.pieces if p.variables & blocked and not _correlates(p, n, level)]
            if found:
                return found
        self.arriving = through
        return []


def _through(block: Element, here: Beside) -> frozenset[str]:
    """Whose values may leave solutions out of what is inside a block."""
    if block.kind == "SELECT":
        return passing(block)
    return here.variables if block.kind == "FILTER" else here.before


def _correlates(piece: _Piece, n: int, level: Level) -> bool:
    """Whether the block is only asked for what joins with this piece: all of them for EXISTS."""
    before = piece.place < level.at and piece.element.kind != "FILTER"
    return piece.level == n and (before or level.holder.kind == "FILTER")


def _apart(piece: _Piece, names: frozenset[str], n: int) -> _Piece:
    """Names that a sub-query uses for something else."""
    own = piece.variables & names
    if not own:
        return piece
    prefix = f"freshkeeper_{n}_"
    variables = piece.variables - own | {prefix + name for name in own}
    return replace(piece, text=renamed(piece.text, own, prefix), variables=variables)
