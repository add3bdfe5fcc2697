"""V^SN and V^SR: a SERVICE pattern split into a static part, fetched once, and a dynamic part, refreshed.

A triple pattern with a volatile predicate is dynamic. Static patterns that reach the window without a dynamic one stay
static; those that hang on a dynamic one are refreshed with it. The key is what the dynamic part shares with the rest:
one SR is one key with its values, and a refresh query is the dynamic part with its key variables bound.
A block (OPTIONAL, UNION, ...) goes where its volatile predicates send it, as a whole.

A predicate that is a variable, or what a path negates, may be a volatile one: its pattern is dynamic. Where the parts
cannot be told apart then, the whole pattern is one SR for each of the values that the windows give it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NoReturn

from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.base.terms import text_of
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tokens import Kind
from freshkeeper.maintenance.query.syntax.tree import (
    Bind,
    Element,
    Filter,
    Group,
    Minus,
    Optional,
    Select,
    Service,
    TriplePattern,
    bound_variables,
    everything,
)

_LOOKING = (Filter, Minus, Bind)
"""Elements that look at the solutions before them, and bind nothing that a join may rely on."""

THERE = "freshkeeper_there"
"""The variable of `expand_query` that tells an edge whose SR exists from one whose SR is gone."""
TIMES = "freshkeeper_times"
"""The variable of `expand_query` that says how often the static part has an edge; once, where it is not there."""


@dataclass(frozen=True)
class Split:
    """What a view needs to know: an SN is a tuple over `sn`, an SR over `sr`, an edge joins an SN with a `key`."""

    endpoint: str
    sn: tuple[str, ...]
    sr: tuple[str, ...]
    key: tuple[str, ...]
    edge: tuple[str, ...]
    static: str
    dynamic: str
    prologue: Prologue = field(repr=False)
    used: tuple[frozenset[str], frozenset[str]] = field(repr=False)
    """the prefixes of the static and of the dynamic part"""
    changing: tuple[Element, ...] = field(repr=False, compare=False)
    """the elements of the dynamic part, blank nodes being variables"""
    validity_variables: tuple[str, ...] = ()
    """variables of the dynamic part that tell since and until when a row holds"""
    modified: str | None = None
    """the predicate that says when a key last changed"""
    repeats: bool = False
    """whether the static part may have an edge more than once"""
    keys_first: bool = False
    """whether the dynamic part means the same only where its key is bound already"""
    whole: bool = False
    """whether the pattern could not be parted, or need not be"""

    @property
    def values(self) -> tuple[str, ...]:
        """The variables of an SR that a refresh brings; none means that it asks whether the key still holds."""
        return tuple(name for name in self.sr if name not in self.key)

    @property
    def one_to_one(self) -> bool:
        """Whether the window gives the key itself, so that nothing static is left to fetch."""
        return not self.static

    def refresh_query(self, keys: Sequence[Sequence[object]] | None = None) -> str:
        """The dynamic part with its key variables bound; terms print themselves, as those of pyoxigraph do."""
        dated = self._dates(values_block(self.key, keys))
        return self._select(self.used[1], (*self.sr, *self.validity_variables), self.key, self.dynamic + dated, keys)

    def edge_query(self, sns: Sequence[Sequence[object]] | None = None) -> str:
        """The static part with V^SN bound: the edges of these SNs; SplitError where the join is 1:1."""
        if self.one_to_one:
            raise SplitError(f"SERVICE <{self.endpoint}>: the join is 1:1, there is no static part to fetch")
        return self._select(self.used[0], self.edge, self.sn, self.static, sns)

    def expand_query(self, sns: Sequence[Sequence[object]] | None = None) -> str:
        """Edges and SRs of these SNs in one request; `THERE` is bound where the dynamic part holds."""
        dynamic, static = f"{self.dynamic} BIND(true AS ?{THERE})", f"{values_block(self.sn, sns)} {self.static}"
        shown = (*dict.fromkeys((*self.sn, *self.edge, *self.sr)), *self.validity_variables, THERE)
        used = self.used[0] | self.used[1]
        if self.one_to_one:
            return self._select(used, shown, self.sn, dynamic + self._dates(static), sns)
        if self.keys_first:
            dynamic = f"{{ SELECT DISTINCT {_names(self.key)} WHERE {{ {static} }} }} {dynamic}"
        body = f"{self.static} OPTIONAL {{ {dynamic} }}"
        if self.repeats:
            edges = _names(self.edge)
            once = f"{{ SELECT {edges} (COUNT(*) AS ?{TIMES}) WHERE {{ {static} }} GROUP BY {edges} }}"
            body, shown = f"{once} OPTIONAL {{ {dynamic} }}", (*shown, TIMES)
        return self._select(used, shown, self.sn, body + self._dates(static), sns)

    def _dates(self, keys: str) -> str:
        """When the keys that a pattern binds last changed; one date each, so that no row comes twice."""
        if self.modified is None:
            return ""
        return "".join(
            f" OPTIONAL {{ SELECT ?{name} (MAX(?freshkeeper_date) AS ?freshkeeper_modified_{name}) WHERE "
            f"{{ {keys} . ?{name} <{self.modified}> ?freshkeeper_date }} GROUP BY ?{name} }}"
            for name in self.key
        )

    def _select(
        self,
        used: frozenset[str],
        shown: Sequence[str],
        bound: Sequence[str],
        body: str,
        rows: Sequence[Sequence[object]] | None,
    ) -> str:
        prefixes = self.prologue.only(used).text
        return f"{prefixes}SELECT {_names(shown)} WHERE {{ {values_block(bound, rows)} {body} }}"


def _names(variables: Iterable[str]) -> str:
    return " ".join(f"?{name}" for name in variables)


def values_block(names: Sequence[str], rows: Sequence[Sequence[object]] | None) -> str:
    """`VALUES ?a { ... }`, or `VALUES (?a ?b) { ... }` for several variables; without rows the dots stay."""
    if len(names) == 1:
        listed = "..." if rows is None else " ".join(_term(row[0]) for row in rows)
        return f"VALUES ?{names[0]} {{ {listed} }}"
    listed = "..." if rows is None else " ".join(f"({' '.join(_term(term) for term in row)})" for row in rows)
    return f"VALUES ({' '.join(f'?{name}' for name in names)}) {{ {listed} }}"


def _term(term: object) -> str:
    written = text_of(term)
    if written.startswith("_:"):
        raise SplitError(f"{written} is a blank node: it means nothing to another source, and cannot be a key")
    return written


def split_of(query: Query, service: ServicePattern, volatile_predicates: Iterable[str] | None) -> Split:
    """Joined by what the windows give it there; SplitError where no values reach it. None: nothing in it changes.

    Where windows give it nothing, but stand beside static graphs that do, it is joined by what these give it.
    """
    windows = query.join_variables(service) if service in query.outer_services else query.windowed
    if windows and windows.isdisjoint(service.variables):
        windows = query.context(service).variables if service in query.outer_services else windows
    lost = query.windowed.intersection(service.variables)
    if lost and not windows.intersection(service.variables):
        raise SplitError(
            f"SERVICE {service.where}: the windows do not always give it {_listed(lost)} where it stands; bind it "
            "outside OPTIONAL, in every branch of UNION, and before an OPTIONAL, MINUS or EXISTS that holds the "
            "SERVICE; a sub-query that holds it must show it, group by it, and have no LIMIT"
        )
    if volatile_predicates is None:
        return _Splitter(service, frozenset(), frozenset(windows)).whole()  # keyed by what the windows give it
    return split(service, volatile_predicates, windows)


def split(service: ServicePattern, volatile_predicates: Iterable[str], window_variables: Iterable[str]) -> Split:
    """Split a SERVICE pattern, given its source's volatile predicates (IRIs) and the variables that windows bind."""
    return _Splitter(service, frozenset(volatile_predicates), frozenset(window_variables)).split()


@dataclass
class _Splitter:
    service: ServicePattern
    volatile: frozenset[str]
    window: frozenset[str]
    static: list[Element] = field(default_factory=list)
    dynamic: list[Element] = field(default_factory=list)

    def split(self) -> Split:
        """In two parts, or as a whole where a predicate that may be any is in the way of that."""
        self._check_elements()
        self._check_volatile()
        try:
            return self._parts()
        except SplitError:
            if any(is_open(inner) for outer in self.service.elements for inner in outer.walk()):
                return self._as_one()
            raise

    def whole(self) -> Split:
        """The split of a pattern that is refreshed as one."""
        self._check_elements()
        return self._as_one()

    def _as_one(self) -> Split:
        """A group of its own, so that it means the same beside its keys as without them."""
        key = _ordered(self.window & _binds(self.service.elements))
        values = (name for name in self.service.bound if name not in key)
        group, endpoint = self._written([self.service.block.group]), self.service.endpoint or ""
        used, prologue = (frozenset[str](), _prefixes(group)), self.service.prologue
        return Split(endpoint, key, (*key, *values), key, (), "", body_of(group), prologue, used, group, whole=True)

    def _parts(self) -> Split:
        """Part, check, and name what joins the parts."""
        self._part()
        edge, changing = _binds(self.static), _binds(self.dynamic)
        key = (changing & (edge | self.window)) | (self._correlated() & edge)
        self._check_parts(key)
        sn = self.window & (edge | changing)
        hidden = {name for name in edge | changing if name.startswith("_:")}
        static, dynamic = self._written(self.static), self._written(self.dynamic)
        return Split(
            self.service.endpoint or "",
            _ordered(sn),
            (*_ordered(key), *_ordered(changing - key - hidden)),
            _ordered(key),
            (*_ordered(sn), *_ordered(edge - sn - hidden)) if self.static else (),
            body_of(static),
            body_of(dynamic),
            self.service.prologue,
            (_prefixes(static), _prefixes(dynamic)),
            dynamic,
            repeats=not all(map(_is_set, self.static)),
            keys_first=self._looks_back(key),
        )

    def _part(self) -> None:
        """Volatile elements are dynamic; of the rest, what reaches the window on its own is static."""
        reached = set(self.window)
        patterns = [e for e in self.service.elements if not isinstance(e, Filter)]
        waiting = [e for e in patterns if not self._is_volatile(e)]
        while near := [e for e in waiting if _is_near(e, reached)]:
            reached |= _binds(near)
            waiting = [e for e in waiting if e not in near]
            self.static += near
        while early := [e for e in self.static if self._needs_more(e, patterns)]:
            self.static = [e for e in self.static if e not in early]
        self.dynamic = [e for e in patterns if e not in self.static]
        everything, fixed = _binds(patterns), _binds(self.static)
        for element in self.service.elements:
            if isinstance(element, Filter):
                stays = not self._is_volatile(element) and element.variables & everything <= fixed
                (self.static if stays else self.dynamic).append(element)

    def _needs_more(self, element: Element, patterns: Sequence[Element]) -> bool:
        """Whether it looks at what only elements that are not static bind."""
        others = [e for e in self.static if e is not element]
        elsewhere = _binds([e for e in patterns if e not in self.static]) - _binds(others)
        looks = isinstance(element, Optional | Minus | Bind)
        return looks and not everything([element]).isdisjoint(elsewhere - self.window)

    def _is_volatile(self, element: Element) -> bool:
        return bool(element.predicates & self.volatile) or any(map(is_open, element.walk()))

    def _correlated(self) -> frozenset[str]:
        """What volatile MINUS and EXISTS look at: bound in a refresh, like a key."""
        closed = [e for e in self.dynamic if isinstance(e, Minus) or (isinstance(e, Filter) and self._is_volatile(e))]
        return frozenset().union(*(e.variables for e in closed))

    def _written(self, part: Iterable[Element]) -> tuple[Element, ...]:
        """A part in the order of the text, its blank nodes as variables."""
        source = self.service.block.source.without_blanks
        return tuple(element.over(source) for element in sorted(part, key=attrgetter("first", "stop")))

    def _looks_back(self, key: frozenset[str]) -> bool:
        """Whether an element that looks at the solutions before it looks at a key that is not bound there."""
        before: list[Element] = []
        for element in (e for e in self.service.elements if e in self.dynamic):
            if isinstance(element, Optional | Minus | Bind) and element.variables & key - bound_variables(before):
                return True
            before.append(element)
        return False

    def _check_elements(self) -> None:
        elements = self.service.elements
        if self.service.endpoint is None:
            self._fail(f"the endpoint is the variable {self.service.where}", "name the source by its IRI")
        for element in (inner for outer in elements for inner in outer.walk()):
            self._check_element(element)
        if not self.window & _binds(elements):
            self._fail(
                f"nothing joins it with a window: the windows give {_listed(self.window)}, "
                f"the pattern has {_listed(self.service.variables)}",
                "use the same variable on both sides",
            )
        foreign = self.window - _binds(elements)
        for element in elements:
            if isinstance(element, _LOOKING) and element.variables & foreign:
                self._fail(
                    f"{element.flat} uses {_listed(element.variables & foreign)}, which only the window gives "
                    "and which is unbound inside SERVICE",
                    "move it behind the SERVICE block",
                )

    def _check_volatile(self) -> None:
        if not any(self._is_volatile(e) for e in self.service.elements):
            self._fail(f"no volatile predicate occurs in {self.service.block.group.flat}", self._suggestion())

    def _check_element(self, element: Element) -> None:
        if isinstance(element, Service):
            self._fail(f"a SERVICE inside a SERVICE: {element.flat}", "put it beside the outer one")
        if isinstance(element, TriplePattern) and element.path and element.predicates & self.volatile:
            self._fail(
                f"a volatile predicate in the property path of {element.flat}",
                "write the path as triple patterns, with a variable between them",
            )

    def _check_parts(self, key: frozenset[str]) -> None:
        blank = sorted(name for name in key if name.startswith("_:"))
        if blank:
            self._fail(f"the blank node {blank[0]} joins the static with the dynamic part", "use a variable there")
        if not key:
            lonely = " . ".join(e.flat for e in self.dynamic)
            self._fail(f"{lonely} shares no variable with a window or with the static part", "join it to one of them")
        loose = key & _binds(self.static) - bound_variables(self.static) - self.window
        if loose:
            self._fail(f"the static part does not always bind {_listed(loose)}, the key", "bind it in every branch")
        for element in self.dynamic:
            self._check_connected(element, key)
        for element in self.service.elements:
            self._check_covered(element, key)
            self._check_optional(element)
            self._check_order(element, key)

    def _check_connected(self, element: Element, key: frozenset[str]) -> None:
        """Every dynamic element hangs together with the others; two that do not need two refreshes."""
        others = [e.variables for e in self.dynamic if e is not element]
        if others and element.variables.isdisjoint(frozenset().union(*others)):
            self._fail(
                f"{element.flat} shares no variable with the rest of the dynamic part (key {_listed(key)})",
                "put it into a SERVICE block of its own",
            )

    def _check_covered(self, element: Element, key: frozenset[str]) -> None:
        """What looks at both parts belongs where both are there."""
        here, there = (self.static, self.dynamic) if element in self.static else (self.dynamic, self.static)
        looked = element.looked if isinstance(element, Bind) else everything([element])
        missing = looked & _binds(there) - _binds([e for e in here if e is not element]) - key
        if isinstance(element, (Optional, *_LOOKING)) and missing:
            self._fail(
                f"{element.flat} looks at what changes and at what does not: {_listed(missing)} is no key",
                "move it behind the SERVICE block",
            )

    def _check_optional(self, element: Element) -> None:
        """What only an OPTIONAL binds may not join the other part or a window: SPARQL would drop what a view keeps."""
        if not isinstance(element, Optional):
            return
        before = [e for e in self.service.elements if e.end <= element.start and not isinstance(e, _LOOKING)]
        others = self.dynamic if element in self.static else self.static
        shared = (element.bound - bound_variables(before)) & (_binds(others) | self.window)
        if shared:
            self._fail(
                f"{element.flat} alone binds {_listed(shared)}, which joins with what is outside it",
                "use another variable inside OPTIONAL, and compare with FILTER",
            )

    def _check_order(self, element: Element, key: frozenset[str]) -> None:
        """A request binds SN or key before all else: who looks at them must find them bound in the pattern too."""
        if not isinstance(element, (Optional, *_LOOKING)):
            return
        joining, looked = key | self.window, everything([element])
        if isinstance(element, Bind):
            made = element.bound & (self.window if element in self.static else joining)
            if made:
                self._fail(f"{element.flat} makes {_listed(made)}, which joins", "move it behind the SERVICE block")
            looked -= element.bound
        before = [e for e in self.service.elements if e.end <= element.start or isinstance(element, Filter)]
        early = looked & joining & _binds(self.service.elements) - bound_variables(before)
        if early:
            where = "everywhere" if isinstance(element, Filter) else "before it"
            self._fail(f"{element.flat} looks at {_listed(early)}", f"let the pattern bind it {where}, in every branch")

    def _suggestion(self) -> str:
        present = self.service.predicates
        if self.volatile and present:
            predicate = min(self.volatile)
            return f"volatile is <{predicate}>; {nearest(predicate, list(present))}"
        return f"its predicates are {', '.join(f'<{p}>' for p in present) or 'none'}: name those that change"

    def _fail(self, problem: str, remedy: str) -> NoReturn:
        raise SplitError(f"SERVICE {self.service.where}: {problem}; {remedy}")


def is_open(element: Element) -> bool:
    """Whether a triple pattern may match any predicate: a variable, also in brackets, or all but those of a path."""
    return isinstance(element, TriplePattern) and (
        any(isinstance(predicate, str) for _, predicate, _ in element.triples)
        or any(item.is_mark("!") for item in element.items)
    )


def _is_near(element: Element, reached: set[str]) -> bool:
    """Whether static patterns alone lead from the window to this element."""
    if isinstance(element, Bind):
        return element.variables - element.bound <= reached
    return not element.variables or not element.variables.isdisjoint(reached)


def _binds(elements: Iterable[Element]) -> frozenset[str]:
    return frozenset().union(*(e.bound for e in elements))


def body_of(part: Sequence[Element], new: Mapping[Element, str] | None = None) -> str:
    """A part as SPARQL, some elements, nested ones too, being written anew."""
    new = new or {}
    edits = [Edit(e.start, e.end, text) for e, text in new.items() if e not in part]
    texts = [(e, new[e] if e in new else e.flat_with(edits)) for e in part]
    return " . ".join(f"{{ {text} }}" if isinstance(e, Select) else text for e, text in texts)


def _prefixes(part: Iterable[Element]) -> frozenset[str]:
    return frozenset(t.text.partition(":")[0] for e in part for t in e.items if t.kind is Kind.PNAME)


def _is_set(element: Element) -> bool:
    """Whether an element has every solution once, all that it mentions being shown."""
    if isinstance(element, TriplePattern):
        return element.plain is not None and not any(v.startswith("_:") for v in element.variables)
    if isinstance(element, Optional | Group):
        return all(map(_is_set, element.inner))
    return isinstance(element, _LOOKING)


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"?{name}" if not name.startswith("_:") else name for name in sorted(names)) or "no variable"
