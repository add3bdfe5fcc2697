"""The split of a SERVICE pattern into a static part, fetched once, and a dynamic part, refreshed: V^SN and V^SR.

A triple pattern with a volatile predicate is dynamic. Static patterns that reach the window without a dynamic one stay
static; those that are joined through a dynamic one are refreshed with it. The key is the set of variables that the
dynamic part shares with the rest: one SR is one key with its values, and a refresh query is the dynamic part with its
key variables bound. A block (OPTIONAL, UNION, ...) goes as a whole where its volatile predicates send it.

A variable in predicate position, or a negated path, may match a volatile predicate: its pattern is dynamic. If the
parts cannot be told apart then, the whole pattern is one SR for each of the values that the windows give it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NoReturn

from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.base.terms import text_of
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.syntax import tree as syntax
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tokens import TokenKind

_LOOKING = (syntax.Filter, syntax.Minus, syntax.Bind)
"""Elements that look at the solutions before them, and bind nothing on which a join may rely."""

SR_EXISTS = "freshkeeper_there"
"""The variable of `expand_query` that is bound for edges whose SR exists, and unbound for those whose SR is gone."""
EDGE_COUNT = "freshkeeper_times"
"""The variable of `expand_query` with the number of times that the static part has an edge; without it, once."""


@dataclass(frozen=True)
class Split:
    """The parts of a SERVICE pattern for a view: an SN is a tuple over `sn`, an SR over `sr`.

    An edge joins an SN with a `key`.
    """

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
    changing: tuple[syntax.Element, ...] = field(repr=False, compare=False)
    """the elements of the dynamic part, blank nodes being variables"""
    validity_variables: tuple[str, ...] = ()
    """variables of the dynamic part that say since and until when a row holds"""
    modified: str | None = None
    """the predicate that says when a key last changed"""
    repeats: bool = False
    """whether the static part may have an edge more than once"""
    keys_first: bool = False
    """whether the dynamic part means the same only if its key is bound already"""
    unsplit: bool = False
    """whether the pattern is one part, because it cannot or need not be split"""

    @property
    def values(self) -> tuple[str, ...]:
        """The variables of an SR that a refresh brings.

        If there are none, it only finds out whether the key still holds.
        """
        return tuple(name for name in self.sr if name not in self.key)

    @property
    def one_to_one(self) -> bool:
        """True if the window gives the key itself, so that nothing static has to be fetched."""
        return not self.static

    def refresh_query(self, keys: Sequence[Sequence[object]] | None = None) -> str:
        """Return the dynamic part with its key variables bound; terms print themselves, as those of pyoxigraph do."""
        dated = self._dates(values_block(self.key, keys))
        return self._select(self.used[1], (*self.sr, *self.validity_variables), self.key, self.dynamic + dated, keys)

    def edge_query(self, sns: Sequence[Sequence[object]] | None = None) -> str:
        """Return the static part with V^SN bound, whose solutions are the edges of these SNs.

        Raises SplitError for a 1:1 join, which has no static part.
        """
        if self.one_to_one:
            raise SplitError(f"SERVICE <{self.endpoint}>: the join is 1:1, there is no static part to fetch")
        return self._select(self.used[0], self.edge, self.sn, self.static, sns)

    def expand_query(self, sns: Sequence[Sequence[object]] | None = None) -> str:
        """Return one query for the edges and SRs of these SNs; `SR_EXISTS` is bound where the dynamic part holds."""
        dynamic = f"{self.dynamic} BIND(true AS ?{SR_EXISTS})"
        static = f"{values_block(self.sn, sns)} {self.static}"
        shown = (*dict.fromkeys((*self.sn, *self.edge, *self.sr)), *self.validity_variables, SR_EXISTS)
        used = self.used[0] | self.used[1]
        if self.one_to_one:
            return self._select(used, shown, self.sn, dynamic + self._dates(static), sns)
        if self.keys_first:
            dynamic = f"{{ SELECT DISTINCT {_names(self.key)} WHERE {{ {static} }} }} {dynamic}"
        body = f"{self.static} OPTIONAL {{ {dynamic} }}"
        if self.repeats:
            edges = _names(self.edge)
            once = f"{{ SELECT {edges} (COUNT(*) AS ?{EDGE_COUNT}) WHERE {{ {static} }} GROUP BY {edges} }}"
            body = f"{once} OPTIONAL {{ {dynamic} }}"
            shown = (*shown, EDGE_COUNT)
        return self._select(used, shown, self.sn, body + self._dates(static), sns)

    def _dates(self, keys: str) -> str:
        """Return patterns for the last change of the keys that `keys` binds.

        One date each, so that no row comes twice.
        """
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
    """Return `VALUES ?a { ... }`, or `VALUES (?a ?b) { ... }` for several variables; without rows, with dots."""
    texts = ["..."]
    if len(names) == 1:
        if rows is not None:
            texts = [_term(row[0]) for row in rows]
        return f"VALUES ?{names[0]} {{ {' '.join(texts)} }}"
    if rows is not None:
        texts = [f"({' '.join(map(_term, row))})" for row in rows]
    return f"VALUES ({_names(names)}) {{ {' '.join(texts)} }}"


def _term(term: object) -> str:
    text = text_of(term)
    if text.startswith("_:"):
        raise SplitError(f"{text} is a blank node: it means nothing to another source, and cannot be a key")
    return text


def split_of(query: Query, service: ServicePattern, volatile_predicates: Iterable[str] | None) -> Split:
    """Return the split of a SERVICE pattern of a query, joined by the variables that windows give it there.

    If the windows give it nothing, but stand beside static graphs that do, it is joined by their variables. Without
    volatile predicates nothing in it changes: it is one part, whose key are the values that the windows give it.
    SplitError is raised if no values reach it.
    """
    windows = query.windowed
    if service in query.outer_services:
        windows = query.join_variables(service)
        if windows and windows.isdisjoint(service.variables):
            windows = query.context(service).variables
    unreached = query.windowed.intersection(service.variables)
    if unreached and not windows.intersection(service.variables):
        raise SplitError(
            f"SERVICE {service.where}: the windows do not always give it {_listed(unreached)} where it stands; bind it "
            "outside OPTIONAL, in every branch of UNION, and before an OPTIONAL, MINUS or EXISTS that holds the "
            "SERVICE; a sub-query that holds it must show it, group by it, and have no LIMIT"
        )
    if volatile_predicates is None:
        return _Splitter(service, frozenset(), frozenset(windows)).one_part()
    return split(service, volatile_predicates, windows)


def split(service: ServicePattern, volatile_predicates: Iterable[str], window_variables: Iterable[str]) -> Split:
    """Split a SERVICE pattern, given its source's volatile predicates (IRIs) and the variables that windows bind."""
    return _Splitter(service, frozenset(volatile_predicates), frozenset(window_variables)).split()


@dataclass
class _Splitter:
    service: ServicePattern
    volatile: frozenset[str]
    window: frozenset[str]
    static: list[syntax.Element] = field(default_factory=list)
    dynamic: list[syntax.Element] = field(default_factory=list)

    def split(self) -> Split:
        """Return the split into two parts, or into one if a predicate that may match any IRI prevents that."""
        self._check_elements()
        self._check_volatile()
        try:
            return self._parts()
        except SplitError:
            # a pattern that may match any predicate cannot be told apart, but can be refreshed as a whole
            if any(is_open(inner) for outer in self.service.elements for inner in outer.walk()):
                return self._one_part()
            raise

    def one_part(self) -> Split:
        """Return the split into one part."""
        self._check_elements()
        return self._one_part()

    def _one_part(self) -> Split:
        key = _ordered(self.window & _binds(self.service.elements))
        values = (name for name in self.service.bound if name not in key)
        # a group of its own, so that it means the same beside VALUES with its keys as without them
        group = self._in_text_order([self.service.block.group])
        return Split(
            endpoint=self.service.endpoint or "",
            sn=key,
            sr=(*key, *values),
            key=key,
            edge=(),
            static="",
            dynamic=body_of(group),
            prologue=self.service.prologue,
            used=(frozenset[str](), _prefixes(group)),
            changing=group,
            unsplit=True,
        )

    def _parts(self) -> Split:
        """Form the parts, check them, and name the variables that join them."""
        self._part()
        edge_variables = _binds(self.static)
        changing = _binds(self.dynamic)
        key = (changing & (edge_variables | self.window)) | (self._correlated() & edge_variables)
        self._check_parts(key)
        sn = self.window & (edge_variables | changing)
        hidden = {name for name in edge_variables | changing if name.startswith("_:")}
        edge: tuple[str, ...] = ()
        if self.static:
            edge = (*_ordered(sn), *_ordered(edge_variables - sn - hidden))
        static = self._in_text_order(self.static)
        dynamic = self._in_text_order(self.dynamic)
        return Split(
            endpoint=self.service.endpoint or "",
            sn=_ordered(sn),
            sr=(*_ordered(key), *_ordered(changing - key - hidden)),
            key=_ordered(key),
            edge=edge,
            static=body_of(static),
            dynamic=body_of(dynamic),
            prologue=self.service.prologue,
            used=(_prefixes(static), _prefixes(dynamic)),
            changing=dynamic,
            repeats=not all(map(_is_set, self.static)),
            keys_first=self._looks_back(key),
        )

    def _part(self) -> None:
        """Form the parts: volatile elements are dynamic, and those that reach the window without them are static."""
        reached = set(self.window)
        patterns = [e for e in self.service.elements if not isinstance(e, syntax.Filter)]
        waiting = [e for e in patterns if not self._is_volatile(e)]
        while near := [e for e in waiting if _is_near(e, reached)]:
            reached |= _binds(near)
            waiting = [e for e in waiting if e not in near]
            self.static += near
        # taking an element out of the static part may leave another one without what it looks at: repeat
        while early := [e for e in self.static if self._needs_more(e, patterns)]:
            self.static = [e for e in self.static if e not in early]
        self.dynamic = [e for e in patterns if e not in self.static]
        bound = _binds(patterns)
        bound_static = _binds(self.static)
        for element in self.service.elements:
            if not isinstance(element, syntax.Filter):
                continue
            if not self._is_volatile(element) and element.variables & bound <= bound_static:
                self.static.append(element)
            else:
                self.dynamic.append(element)

    def _needs_more(self, element: syntax.Element, patterns: Sequence[syntax.Element]) -> bool:
        """Return whether an element looks at variables that only elements outside the static part bind."""
        others = [e for e in self.static if e is not element]
        elsewhere = _binds([e for e in patterns if e not in self.static]) - _binds(others)
        looks = isinstance(element, syntax.Optional | syntax.Minus | syntax.Bind)
        return looks and not syntax.all_variables([element]).isdisjoint(elsewhere - self.window)

    def _is_volatile(self, element: syntax.Element) -> bool:
        return bool(element.predicates & self.volatile) or any(map(is_open, element.walk()))

    def _correlated(self) -> frozenset[str]:
        """Return the variables that volatile MINUS and EXISTS look at: a refresh binds them like a key."""
        closed = [
            e
            for e in self.dynamic
            if isinstance(e, syntax.Minus) or (isinstance(e, syntax.Filter) and self._is_volatile(e))
        ]
        return frozenset().union(*(e.variables for e in closed))

    def _in_text_order(self, part: Iterable[syntax.Element]) -> tuple[syntax.Element, ...]:
        """Return a part in the order of the text, its blank nodes as variables."""
        source = self.service.block.source.without_blanks
        return tuple(element.over(source) for element in sorted(part, key=attrgetter("first", "stop")))

    def _looks_back(self, key: frozenset[str]) -> bool:
        """Return whether an element looks at solutions before it in which a key that it uses is not bound."""
        before: list[syntax.Element] = []
        for element in (e for e in self.service.elements if e in self.dynamic):
            if isinstance(
                element, syntax.Optional | syntax.Minus | syntax.Bind
            ) and element.variables & key - syntax.bound_variables(before):
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
        # the source evaluates the pattern alone, where such a variable is unbound
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

    def _check_element(self, element: syntax.Element) -> None:
        if isinstance(element, syntax.ServiceBlock):
            self._fail(f"a SERVICE inside a SERVICE: {element.flat}", "put it beside the outer one")
        if isinstance(element, syntax.TriplePattern) and element.path and element.predicates & self.volatile:
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
        # an edge without its key would be a row of the view that nothing can refresh
        loose = key & _binds(self.static) - syntax.bound_variables(self.static) - self.window
        if loose:
            self._fail(f"the static part does not always bind {_listed(loose)}, the key", "bind it in every branch")
        for element in self.dynamic:
            self._check_connected(element, key)
        for element in self.service.elements:
            self._check_covered(element, key)
            self._check_optional(element)
            self._check_order(element, key)

    def _check_connected(self, element: syntax.Element, key: frozenset[str]) -> None:
        """Check that a dynamic element is joined with the others; two that are not need two refreshes."""
        others = [e.variables for e in self.dynamic if e is not element]
        if others and element.variables.isdisjoint(frozenset().union(*others)):
            self._fail(
                f"{element.flat} shares no variable with the rest of the dynamic part (key {_listed(key)})",
                "put it into a SERVICE block of its own",
            )

    def _check_covered(self, element: syntax.Element, key: frozenset[str]) -> None:
        """Check that an element which looks at both parts finds both."""
        if not isinstance(element, (syntax.Optional, *_LOOKING)):
            return
        here, there = self.dynamic, self.static
        if element in self.static:
            here, there = there, here
        looked = syntax.all_variables([element])
        if isinstance(element, syntax.Bind):
            looked = element.inputs
        missing = looked & _binds(there) - _binds([e for e in here if e is not element]) - key
        if missing:
            self._fail(
                f"{element.flat} looks at what changes and at what does not: {_listed(missing)} is no key",
                "move it behind the SERVICE block",
            )

    def _check_optional(self, element: syntax.Element) -> None:
        """Check that variables bound only by an OPTIONAL do not join: SPARQL would drop rows that a view keeps."""
        if not isinstance(element, syntax.Optional):
            return
        before = [e for e in self.service.elements if e.end <= element.start and not isinstance(e, _LOOKING)]
        others = self.static
        if element in self.static:
            others = self.dynamic
        shared = (element.bound - syntax.bound_variables(before)) & (_binds(others) | self.window)
        if shared:
            self._fail(
                f"{element.flat} alone binds {_listed(shared)}, which joins with what is outside it",
                "use another variable inside OPTIONAL, and compare with FILTER",
            )

    def _check_order(self, element: syntax.Element, key: frozenset[str]) -> None:
        """Check that an element looks at SN or key only behind patterns that bind them: a request binds them first."""
        if not isinstance(element, (syntax.Optional, *_LOOKING)):
            return
        joining = key | self.window
        looked = syntax.all_variables([element])
        if isinstance(element, syntax.Bind):
            computed = element.bound & joining
            if element in self.static:
                computed = element.bound & self.window
            if computed:
                problem = f"{element.flat} computes {_listed(computed)}, which joins"
                self._fail(problem, "move it behind the SERVICE block")
            looked -= element.bound
        before = [e for e in self.service.elements if e.end <= element.start or isinstance(element, syntax.Filter)]
        early = looked & joining & _binds(self.service.elements) - syntax.bound_variables(before)
        if early:
            where = "everywhere" if isinstance(element, syntax.Filter) else "before it"
            self._fail(f"{element.flat} looks at {_listed(early)}", f"let the pattern bind it {where}, in every branch")

    def _suggestion(self) -> str:
        present = self.service.predicates
        if self.volatile and present:
            predicate = min(self.volatile)
            return f"volatile is <{predicate}>; {nearest(predicate, list(present))}"
        return f"its predicates are {', '.join(f'<{p}>' for p in present) or 'none'}: name those that change"

    def _fail(self, problem: str, remedy: str) -> NoReturn:
        raise SplitError(f"SERVICE {self.service.where}: {problem}; {remedy}")


def is_open(element: syntax.Element) -> bool:
    """Return whether a triple pattern may match any predicate: a variable, even in brackets, or a negated path."""
    if not isinstance(element, syntax.TriplePattern):
        return False
    if any(item.is_mark("!") for item in element.items):
        return True
    return any(isinstance(predicate, str) for _, predicate, _ in element.triples)


def _is_near(element: syntax.Element, reached: set[str]) -> bool:
    """Return whether static patterns alone lead from the window to this element."""
    if isinstance(element, syntax.Bind):
        return element.variables - element.bound <= reached
    return not element.variables or not element.variables.isdisjoint(reached)


def _binds(elements: Iterable[syntax.Element]) -> frozenset[str]:
    return frozenset().union(*(e.bound for e in elements))


def body_of(part: Sequence[syntax.Element], new: Mapping[syntax.Element, str] | None = None) -> str:
    """Return a part as SPARQL, with new text for some elements, also for nested ones."""
    new = new or {}
    edits = [Edit(e.start, e.end, text) for e, text in new.items() if e not in part]
    texts = []
    for element in part:
        text = new[element] if element in new else element.flat_with(edits)
        if isinstance(element, syntax.Select):
            text = f"{{ {text} }}"
        texts.append(text)
    return " . ".join(texts)


def _prefixes(part: Iterable[syntax.Element]) -> frozenset[str]:
    return frozenset(t.text.partition(":")[0] for e in part for t in e.items if t.kind is TokenKind.PNAME)


def _is_set(element: syntax.Element) -> bool:
    """Return whether an element has every solution once, with all its variables shown."""
    if isinstance(element, syntax.TriplePattern):
        return element.plain is not None and not any(v.startswith("_:") for v in element.variables)
    if isinstance(element, syntax.Optional | syntax.GroupBlock):
        return all(map(_is_set, element.inner))
    return isinstance(element, _LOOKING)


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_describe, sorted(names))) or "no variable"


def _describe(name: str) -> str:
    if name.startswith("_:"):
        return name
    return f"?{name}"
