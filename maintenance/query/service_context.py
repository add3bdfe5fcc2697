"""What stands around a SERVICE block: the groups that hold it, and what of them its solutions must join with.

A SERVICE is asked for the values that the windows give it. That is right where leaving out its other solutions changes
nothing: values reach it through OPTIONAL, MINUS and EXISTS if what stands before always binds them, and through a
sub-query if it shows them, and groups by them where it counts. Too many values do no harm, too few would.

Of the groups, patterns that join can only leave solutions out, so they all take part. FILTER, BIND, MINUS and OPTIONAL
look at the solutions before them: they do where that is nothing that is missing here, as what a SERVICE binds, or what
other groups bind.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from freshkeeper.maintenance.query.syntax.rewrite import block_frame, window_edits
from freshkeeper.maintenance.query.syntax.tree import (
    Bind,
    Element,
    Filter,
    Graph,
    Group,
    Minus,
    Optional,
    Select,
    Service,
    TriplePattern,
    Union,
    Values,
    WindowBlock,
    everything,
)

JOINING = (TriplePattern, Group, Values, Union, Select)
TRANSPARENT = (Group, Union)
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
    def others(self) -> frozenset[str]:
        """What all others mention."""
        return everything([*self.group[: self.at], *self.group[self.at + 1 :]])


def enclosing_levels(group: Sequence[Element], service: Service) -> list[Level]:
    """From the outermost group to the one with the SERVICE in it; none where it stands in no group."""
    for at, element in enumerate(group):
        if element is service:
            return [Level(group, at)]
        for part in element.parts:
            if found := enclosing_levels(part, service):
                return [Level(group, at), *found]
    return []


@dataclass(eq=False)
class Siblings:
    """Which elements of a group take part in the window part of the SERVICE there."""

    level: Level
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
        group, at = self.level.group, self.level.at
        there = [(n, e) for n, e in enumerate(group) if n != at]
        plain = [(n, e) for n, e in there if not e.has_service and n not in self.left_out and not self._looks_out(e)]
        absent = [self.level.holder, *(e for n, e in there if (n, e) not in plain)]
        missing = self.services | self.others | everything(absent)  # what the holder computes is missing here too
        self._chosen = {n: e for n, e in plain if isinstance(e, JOINING)}
        looking = [(n, e) for n, e in plain if not isinstance(e, JOINING)]
        for n, element in sorted(looking, key=lambda each: isinstance(each[1], Filter)):
            known = self._bound(len(group) if isinstance(element, Filter) else n)
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
        return self._bound(len(self.level.group))

    @property
    def before(self) -> frozenset[str]:
        """The same of what stands before the place."""
        return self._bound(self.level.at)

    def _bound(self, end: int) -> frozenset[str]:
        found = frozenset[str]()
        for element in (element for n, element in self.elements if n < end):
            if not isinstance(element, Bind):
                found |= element.always
            elif element.looked <= found:
                found |= element.bound
        return found

    def _looks_out(self, element: Element) -> bool:
        """Whether it is a block whose expression may look at a value that EXISTS hands on, which is missing here."""
        looks = self.handed and isinstance(element, JOINING)
        looks = looks and any(isinstance(e, Filter | Bind) for e in element.walk())
        return looks and not (everything([element]) - element.always).isdisjoint(self.others)

    def _fits(self, element: Element, missing: frozenset[str]) -> bool:
        """Whether it means the same here; what BIND computes may join with a SERVICE, and with no other group."""
        if not isinstance(element, Bind):
            return everything([element]).isdisjoint(missing)
        return element.bound.isdisjoint(self.others) and element.looked.isdisjoint(missing)


@dataclass(frozen=True, eq=False)
class _Piece:
    """An element that takes part, and the element that it was before names were kept apart."""

    element: Element
    level: int
    place: int
    variables: frozenset[str]


@dataclass(frozen=True, eq=False)
class Context:
    """The window part of a SERVICE pattern: a group whose solutions are what joins."""

    levels: Sequence[Level]
    pieces: Sequence[_Piece]
    variables: frozenset[str]
    """what they bind, unless an expression fails"""
    outside: frozenset[str] | None = None
    """which of them stand before the OPTIONAL that holds the SERVICE, if one does"""

    @property
    def substituted(self) -> frozenset[str]:
        """What EXISTS may put into it: all that is mentioned around the EXISTS, bound or not."""
        exists = [n for n, level in enumerate(self.levels[:-1]) if isinstance(level.holder, Filter | Bind)]
        return frozenset().union(*(level.others for level in self.levels[: exists[-1] + 1])) if exists else frozenset()

    def is_inside(self, *blocks: type[Element]) -> bool:
        """Whether it stands in a block of one of these kinds."""
        return any(isinstance(level.holder, blocks) for level in self.levels[:-1])

    def elements(self) -> tuple[Element, ...]:
        """What takes part, inside the WINDOW and GRAPH blocks in which it stands."""
        inner: tuple[Element, ...] = ()
        for n, level in reversed(list(enumerate(self.levels))):
            if isinstance(level.holder, Graph):
                inner = (replace(level.holder, parts=(inner,)),)
            inner = (*(piece.element for piece in self.pieces if piece.level == n), *inner)
        return inner

    def sparql(self, windows: Sequence[str]) -> str:
        """The same as SPARQL, its blank nodes as variables."""
        text = ""
        for n, level in reversed(list(enumerate(self.levels))):
            if isinstance(level.holder, Graph):
                opening, closing = block_frame(level.holder.items[0], level.holder.name, windows)
                text = f"{opening} {level.holder.name.text} {{ {text} }}{closing}"
            texts = (_sparql(piece.element, windows) for piece in self.pieces if piece.level == n)
            text = " . ".join(filter(None, [*texts, text]))
        return f"{{ {text} }}"


def _sparql(element: Element, windows: Sequence[str]) -> str:
    element = element.over(element.source.without_blanks)
    return element.edited(window_edits(element.source.tokens, windows, element.first, element.stop))


def context_of(group: Sequence[Element], service: Service) -> Context:
    """What joins with a SERVICE."""
    services = everything(e for top in group for e in top.walk() if isinstance(e, Service))
    walk = _Walk(enclosing_levels(group, service), services)
    while found := walk.offenders():
        walk.left_out |= found
    return Context(walk.levels, walk.pieces, walk.arriving, walk.outside)


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
            self.pieces += [_Piece(e, n, place, everything([e])) for place, e in here.elements]
            self.arriving |= here.variables
            if n + 1 < len(self.levels) and (found := self._enter(n, level, here)):
                return frozenset((piece.level, piece.place) for piece in found)
        return frozenset()

    def _here(self, n: int, level: Level) -> Siblings:
        others = frozenset().union(*(other.others for other in self.levels if other is not level))
        left_out = frozenset(place for at, place in self.left_out if at == n)
        handed = any(isinstance(outer.holder, Filter | Bind) for outer in self.levels[:n])
        return Siblings(level, self.services, others, left_out, handed)

    def _enter(self, n: int, level: Level, here: Siblings) -> list[_Piece]:
        """Go into a block; gives what must be left out first."""
        block = level.holder
        if isinstance(block, TRANSPARENT):
            return []
        through = self.arriving & _through(block, here)
        if isinstance(block, Optional) and self.outside is None:
            self.outside = through
        inside = everything([block])
        blocked = inside - through
        if not through & inside:
            self.pieces, through = [], frozenset()  # what is inside must do
        elif isinstance(block, Select):
            self.pieces = [_apart(piece, blocked, n) for piece in self.pieces]
        else:
            found = [p for p in self.pieces if p.variables & blocked and not _correlates(p, n, level)]
            if found:
                return found
        self.arriving = through
        return []


def _through(block: Element, here: Siblings) -> frozenset[str]:
    """Whose values may leave solutions out of what is inside a block."""
    if isinstance(block, Select):
        return block.passing
    return here.variables if isinstance(block, Filter) else here.before


def _correlates(piece: _Piece, n: int, level: Level) -> bool:
    """Whether the block is only asked for what joins with this piece: all of them for EXISTS."""
    before = piece.place < level.at and not isinstance(piece.element, Filter)
    return piece.level == n and (before or isinstance(level.holder, Filter))


def _apart(piece: _Piece, names: frozenset[str], n: int) -> _Piece:
    """Names that a sub-query uses for something else."""
    own = piece.variables & names
    if not own:
        return piece
    prefix = f"freshkeeper_{n}_"
    element = piece.element.over(piece.element.source.renamed(own, prefix))
    return replace(piece, element=element, variables=piece.variables - own | {prefix + name for name in own})


def window_variables(
    elements: Sequence[Element], named: Sequence[str], merged: Sequence[str]
) -> Mapping[str, frozenset[str]]:
    """Per window, what its blocks bind; merged windows share what the default graph's patterns bind."""
    windows: dict[str, set[str]] = {name: set() for name in (*named, *merged)}
    _collect(elements, windows, named, merged)
    for bind in (e for top in elements for e in top.walk() if isinstance(e, Bind)):
        for variables in windows.values():
            if bind.variables - bind.bound and bind.variables - bind.bound <= variables:
                variables |= bind.bound
    return {name: frozenset(v for v in variables if not v.startswith("_:")) for name, variables in windows.items()}


def _collect(
    elements: Iterable[Element], windows: dict[str, set[str]], named: Sequence[str], merged: Sequence[str]
) -> None:
    for element in elements:
        if isinstance(element, WindowBlock):
            for name in named if element.iri is None else [element.iri]:
                windows.setdefault(name, set()).update(_own(element))
        elif isinstance(element, TriplePattern):
            for name in merged:
                windows[name] |= element.bound
        elif isinstance(element, Select):
            _collect_projected(element, windows, named, merged)
        elif not isinstance(element, Service | Graph | Filter | Minus):
            _collect(element.inner, windows, named, merged)


def _own(element: Element) -> frozenset[str]:
    """What an element binds without its SERVICE blocks."""
    if isinstance(element, Service):
        return frozenset()
    if not element.has_service:
        return element.bound
    return element.bound - frozenset().union(*(e.bound for e in element.inner)) | frozenset().union(
        *map(_own, element.inner)
    )


def _collect_projected(
    element: Select, windows: dict[str, set[str]], named: Sequence[str], merged: Sequence[str]
) -> None:
    """A sub-query shows of its windows' variables what it projects, and what it computes from them."""
    inner: dict[str, set[str]] = {name: set() for name in windows}
    _collect(element.inner, inner, named, merged)
    for name, variables in inner.items():
        if variables:
            windows.setdefault(name, set()).update(element.bound)
