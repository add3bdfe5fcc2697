"""The context of a SERVICE block: the groups that hold it, and their elements with which its solutions must join.

A SERVICE is queried for the values that the windows give it. That is right if leaving out its other solutions changes
nothing: values reach it through OPTIONAL, MINUS and EXISTS if the elements before always bind them, and through a
sub-query if it shows them, and groups by them where it counts. Too many values do no harm, too few would.

Patterns of the groups that join can only remove solutions, so all of them take part. FILTER, BIND, MINUS and OPTIONAL
look at the solutions before them: they take part unless they look at something that is missing here, such as variables
that a SERVICE or another group binds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from freshkeeper.maintenance.query.syntax import tree as syntax
from freshkeeper.maintenance.query.syntax.rewrite import block_frame, window_edits

JOINING = (syntax.TriplePattern, syntax.GroupBlock, syntax.Values, syntax.Union, syntax.Select)
TRANSPARENT = (syntax.GroupBlock, syntax.Union)
"""Blocks that join with the elements around them."""


@dataclass(frozen=True, eq=False)
class Level:
    """A group, and the place of the element that is the SERVICE block or holds it."""

    group: Sequence[syntax.Element]
    at: int

    @property
    def holder(self) -> syntax.Element:
        """The SERVICE, or the block in which it stands."""
        return self.group[self.at]

    @property
    def others(self) -> frozenset[str]:
        """The variables that all other elements mention."""
        return syntax.all_variables([*self.group[: self.at], *self.group[self.at + 1 :]])


def enclosing_levels(group: Sequence[syntax.Element], service: syntax.ServiceBlock) -> list[Level]:
    """Return the groups from the outermost to the one with the SERVICE in it, or none if it stands in no group."""
    for at, element in enumerate(group):
        if element is service:
            return [Level(group, at)]
        for part in element.parts:
            if found := enclosing_levels(part, service):
                return [Level(group, at), *found]
    return []


@dataclass(eq=False)
class Siblings:
    """The elements of a group that take part in the window part of the SERVICE there."""

    level: Level
    services: frozenset[str]
    """variables that any SERVICE of the query mentions"""
    others: frozenset[str]
    """variables that the groups around this one and inside it mention"""
    left_out: frozenset[int] = frozenset()
    """places of elements that must not take part"""
    handed: bool = False
    """whether EXISTS hands on the values of the groups around it, also to expressions in blocks"""
    _chosen: dict[int, syntax.Element] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the elements; patterns come first, and a FILTER last, because it looks at its whole group."""
        group = self.level.group
        siblings = [(n, e) for n, e in enumerate(group) if n != self.level.at]
        eligible = [(n, e) for n, e in siblings if self._is_eligible(n, e)]
        absent = [e for n, e in siblings if (n, e) not in eligible]
        # variables that the holder computes are missing here too
        missing = self.services | self.others | syntax.all_variables([self.level.holder, *absent])
        self._chosen = {n: e for n, e in eligible if isinstance(e, JOINING)}
        looking = [(n, e) for n, e in eligible if not isinstance(e, JOINING)]
        for n, element in sorted(looking, key=lambda item: isinstance(item[1], syntax.Filter)):
            end = len(group) if isinstance(element, syntax.Filter) else n
            if self._fits(element, missing - self._bound(end)):
                self._chosen[n] = element
            else:
                missing |= syntax.all_variables([element])

    def _is_eligible(self, n: int, element: syntax.Element) -> bool:
        return not element.has_service and n not in self.left_out and not self._looks_out(element)

    @property
    def elements(self) -> list[tuple[int, syntax.Element]]:
        """The elements that take part, with their places."""
        return sorted(self._chosen.items())

    @property
    def variables(self) -> frozenset[str]:
        """Variables that their solutions bind, unless an expression fails."""
        return self._bound(len(self.level.group))

    @property
    def before(self) -> frozenset[str]:
        """Variables that elements before the SERVICE's place bind, unless an expression fails."""
        return self._bound(self.level.at)

    def _bound(self, end: int) -> frozenset[str]:
        bound = frozenset[str]()
        for n, element in self.elements:
            if n >= end:
                break
            if not isinstance(element, syntax.Bind):
                bound |= element.always
            elif element.inputs <= bound:
                bound |= element.bound
        return bound

    def _looks_out(self, element: syntax.Element) -> bool:
        """Return whether an element is a block that may look at a value that EXISTS hands on, which is missing here."""
        if not self.handed or not isinstance(element, JOINING):
            return False
        if not any(isinstance(e, syntax.Filter | syntax.Bind) for e in element.walk()):
            return False
        return not (syntax.all_variables([element]) - element.always).isdisjoint(self.others)

    def _fits(self, element: syntax.Element, missing: frozenset[str]) -> bool:
        """Return whether an element means the same here.

        A variable that BIND computes may join with a SERVICE, but not with another group.
        """
        if not isinstance(element, syntax.Bind):
            return syntax.all_variables([element]).isdisjoint(missing)
        return element.bound.isdisjoint(self.others) and element.inputs.isdisjoint(missing)


@dataclass(frozen=True, eq=False)
class _Piece:
    """An element that takes part, perhaps renamed, with its place and the variables that it mentions."""

    element: syntax.Element
    level: int
    place: int
    variables: frozenset[str]


@dataclass(frozen=True, eq=False)
class Context:
    """The window part of a SERVICE pattern: a group whose solutions join with it."""

    levels: Sequence[Level]
    pieces: Sequence[_Piece]
    variables: frozenset[str]
    """variables that they bind, unless an expression fails"""
    outside: frozenset[str] | None = None
    """those that stand before the OPTIONAL that holds the SERVICE, if there is one"""

    @property
    def substituted(self) -> frozenset[str]:
        """Variables that EXISTS may substitute in the SERVICE: all that are mentioned around it, bound or not."""
        exists = [
            n for n, level in enumerate(self.levels[:-1]) if isinstance(level.holder, syntax.Filter | syntax.Bind)
        ]
        if not exists:
            return frozenset()
        return frozenset().union(*(level.others for level in self.levels[: exists[-1] + 1]))

    def is_inside(self, *blocks: type[syntax.Element]) -> bool:
        """Return whether the SERVICE stands in a block of one of these kinds."""
        return any(isinstance(level.holder, blocks) for level in self.levels[:-1])

    def elements(self) -> tuple[syntax.Element, ...]:
        """Return the elements, inside the WINDOW and GRAPH blocks in which they stand."""
        inner: tuple[syntax.Element, ...] = ()
        for n, level in reversed(list(enumerate(self.levels))):
            if isinstance(level.holder, syntax.GraphBlock):
                inner = (replace(level.holder, parts=(inner,)),)
            inner = (*(piece.element for piece in self.pieces if piece.level == n), *inner)
        return inner

    def sparql(self, windows: Sequence[str]) -> str:
        """Return the elements as SPARQL, their blank nodes as variables."""
        text = ""
        for n, level in reversed(list(enumerate(self.levels))):
            if isinstance(level.holder, syntax.GraphBlock):
                opening, closing = block_frame(level.holder.items[0], level.holder.name, windows)
                text = f"{opening} {level.holder.name.text} {{ {text} }}{closing}"
            texts = (_sparql(piece.element, windows) for piece in self.pieces if piece.level == n)
            text = " . ".join(filter(None, [*texts, text]))
        return f"{{ {text} }}"


def _sparql(element: syntax.Element, windows: Sequence[str]) -> str:
    element = element.over(element.source.without_blanks)
    return element.edited(window_edits(element.source.tokens, windows, element.first, element.stop))


def context_of(group: Sequence[syntax.Element], service: syntax.ServiceBlock) -> Context:
    """Return the elements that join with a SERVICE."""
    services = syntax.all_variables(e for top in group for e in top.walk() if isinstance(e, syntax.ServiceBlock))
    walk = _Walk(enclosing_levels(group, service), services)
    # leaving an element out changes which variables arrive: walk again until nothing offends
    while found := walk.offenders():
        walk.left_out |= found
    return Context(walk.levels, walk.pieces, walk.arriving, walk.outside)


@dataclass(eq=False)
class _Walk:
    """A walk from the outermost group to the SERVICE, with the elements that take part and variables reaching it."""

    levels: Sequence[Level]
    services: frozenset[str]
    left_out: frozenset[tuple[int, int]] = frozenset()
    """level and place of elements that would remove too many solutions"""
    pieces: list[_Piece] = field(default_factory=list)
    arriving: frozenset[str] = frozenset()
    outside: frozenset[str] | None = None

    def offenders(self) -> frozenset[tuple[int, int]]:
        """Walk, and return the elements whose names mean something else further inside, or do not reach the SERVICE."""
        self.pieces = []
        self.arriving = frozenset()
        self.outside = None
        for n, level in enumerate(self.levels):
            here = self._here(n, level)
            self.pieces += [_Piece(e, n, place, syntax.all_variables([e])) for place, e in here.elements]
            # patterns of an outer group restrict the SERVICE only through variables that reach it
            self.arriving |= here.variables
            if n + 1 == len(self.levels):
                break
            offending = self._enter(n, level, here)
            if offending:
                return frozenset((piece.level, piece.place) for piece in offending)
        return frozenset()

    def _here(self, n: int, level: Level) -> Siblings:
        others = frozenset().union(*(other.others for other in self.levels if other is not level))
        left_out = frozenset(place for at, place in self.left_out if at == n)
        handed = any(isinstance(outer.holder, syntax.Filter | syntax.Bind) for outer in self.levels[:n])
        return Siblings(level, self.services, others, left_out, handed)

    def _enter(self, n: int, level: Level, here: Siblings) -> list[_Piece]:
        """Enter a block, and return the pieces that must be left out first."""
        block = level.holder
        if isinstance(block, TRANSPARENT):
            return []
        through = self.arriving & _through(block, here)
        if isinstance(block, syntax.Optional) and self.outside is None:
            self.outside = through
        inside = syntax.all_variables([block])
        blocked = inside - through
        if not through & inside:
            # nothing joins across the block's border: the elements inside alone give the values
            self.pieces = []
            through = frozenset()
        elif isinstance(block, syntax.Select):
            self.pieces = [_renamed(piece, blocked, n) for piece in self.pieces]
        else:
            offending = [p for p in self.pieces if p.variables & blocked and not _correlates(p, n, level)]
            if offending:
                return offending
        self.arriving = through
        return []


def _through(block: syntax.Element, here: Siblings) -> frozenset[str]:
    """Return the variables whose values may remove solutions from inside a block."""
    if isinstance(block, syntax.Select):
        return block.passing
    if isinstance(block, syntax.Filter):
        return here.variables
    return here.before


def _correlates(piece: _Piece, n: int, level: Level) -> bool:
    """Return whether the block is only queried for solutions that join with this piece: EXISTS for all of them."""
    before = piece.place < level.at and not isinstance(piece.element, syntax.Filter)
    return piece.level == n and (before or isinstance(level.holder, syntax.Filter))


def _renamed(piece: _Piece, names: frozenset[str], n: int) -> _Piece:
    """Return a piece with other names for variables that a sub-query uses for something else."""
    clashing = piece.variables & names
    if not clashing:
        return piece
    prefix = f"freshkeeper_{n}_"
    element = piece.element.over(piece.element.source.renamed(clashing, prefix))
    variables = piece.variables - clashing | {prefix + name for name in clashing}
    return replace(piece, element=element, variables=variables)


def window_variables(
    elements: Sequence[syntax.Element], named: Sequence[str], merged: Sequence[str]
) -> Mapping[str, frozenset[str]]:
    """Return the variables that the blocks of every window bind; merged windows share those of the default graph."""
    windows: dict[str, set[str]] = {name: set() for name in (*named, *merged)}
    _collect(elements, windows, named, merged)
    for bind in (e for top in elements for e in top.walk() if isinstance(e, syntax.Bind)):
        inputs = bind.variables - bind.bound
        for variables in windows.values():
            if inputs and inputs <= variables:
                variables |= bind.bound
    return {name: _without_blank_nodes(variables) for name, variables in windows.items()}


def _without_blank_nodes(variables: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in variables if not name.startswith("_:"))


def _collect(
    elements: Iterable[syntax.Element], windows: dict[str, set[str]], named: Sequence[str], merged: Sequence[str]
) -> None:
    for element in elements:
        if isinstance(element, syntax.WindowBlock):
            names = named if element.iri is None else [element.iri]
            for name in names:
                windows.setdefault(name, set()).update(_bound_without_services(element))
        elif isinstance(element, syntax.TriplePattern):
            for name in merged:
                windows[name] |= element.bound
        elif isinstance(element, syntax.Select):
            _collect_projected(element, windows, named, merged)
        elif not isinstance(element, syntax.ServiceBlock | syntax.GraphBlock | syntax.Filter | syntax.Minus):
            _collect(element.inner, windows, named, merged)


def _bound_without_services(element: syntax.Element) -> frozenset[str]:
    """Return the variables that an element binds without its SERVICE blocks."""
    if isinstance(element, syntax.ServiceBlock):
        return frozenset()
    if not element.has_service:
        return element.bound
    inside = frozenset[str]().union(*(e.bound for e in element.inner))
    return element.bound - inside | frozenset().union(*map(_bound_without_services, element.inner))


def _collect_projected(
    element: syntax.Select, windows: dict[str, set[str]], named: Sequence[str], merged: Sequence[str]
) -> None:
    """Add the columns of a sub-query to the windows on whose variables it works."""
    inner: dict[str, set[str]] = {name: set() for name in windows}
    _collect(element.inner, inner, named, merged)
    for name, variables in inner.items():
        if variables:
            windows.setdefault(name, set()).update(element.bound)
