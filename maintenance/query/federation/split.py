"""V^SN and V^SR: a SERVICE pattern split into a static part, fetched once, and a dynamic part, refreshed.

A triple pattern with a volatile predicate is dynamic. Static patterns that reach the window without a dynamic one stay
static; those that hang on a dynamic one are refreshed with it. The key is what the dynamic part shares with the rest:
one SR is one key with its values, and a refresh query is the dynamic part with its key variables bound.
A block (OPTIONAL, UNION, ...) goes where its volatile predicates send it, as a whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from freshkeeper.maintenance.query.federation.bound_variables import certain, everything
from freshkeeper.maintenance.query.federation.service_patterns import ServicePattern
from freshkeeper.maintenance.query.syntax.blanks import without_blanks
from freshkeeper.maintenance.query.syntax.patterns import Element
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
from freshkeeper.maintenance.query.syntax.tokens import Kind, tokenize
from freshkeeper.maintenance.terms import text_of
from freshkeeper.policies.errors import nearest

_LOOKING = ("FILTER", "MINUS", "BIND")
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
    told: tuple[str, ...] = ()
    """variables of the dynamic part that tell since and until when a row holds"""
    modified: str | None = None
    """the predicate that says when a key last changed"""
    repeats: bool = False
    """whether the static part may have an edge more than once"""
    keys_first: bool = False
    """whether the dynamic part means the same only where its key is bound already"""

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
        return self._select((*self.sr, *self.told), self.key, self.dynamic + dated, keys)

    def edge_query(self, sns: Sequence[Sequence[object]] | None = None) -> str:
        """The static part with V^SN bound: the edges of these SNs; SplitError where the join is 1:1."""
        if self.one_to_one:
            raise SplitError(f"SERVICE <{self.endpoint}>: the join is 1:1, there is no static part to fetch")
        return self._select(self.edge, self.sn, self.static, sns)

    def expand_query(self, sns: Sequence[Sequence[object]] | None = None) -> str:
        """Edges and SRs of these SNs in one request; `THERE` is bound where the dynamic part holds."""
        dynamic, static = f"{self.dynamic} BIND(true AS ?{THERE})", f"{values_block(self.sn, sns)} {self.static}"
        shown = (*dict.fromkeys((*self.sn, *self.edge, *self.sr)), *self.told, THERE)
        if self.one_to_one:
            return self._select(shown, self.sn, dynamic + self._dates(static), sns)
        if self.keys_first:
            dynamic = f"{{ SELECT DISTINCT {_names(self.key)} WHERE {{ {static} }} }} {dynamic}"
        body = f"{self.static} OPTIONAL {{ {dynamic} }}"
        if self.repeats:
            edges = _names(self.edge)
            once = f"{{ SELECT {edges} (COUNT(*) AS ?{TIMES}) WHERE {{ {static} }} GROUP BY {edges} }}"
            body, shown = f"{once} OPTIONAL {{ {dynamic} }}", (*shown, TIMES)
        return self._select(shown, self.sn, body + self._dates(static), sns)

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
        self, shown: Sequence[str], bound: Sequence[str], body: str, rows: Sequence[Sequence[object]] | None
    ) -> str:
        return f"{_needed(self.prologue, body)}SELECT {_names(shown)} WHERE {{ {values_block(bound, rows)} {body} }}"


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


def _needed(prologue: Prologue, body: str) -> str:
    items = tokenize(body).items
    prefixes = {item.text.partition(":")[0] for item in items if item.kind is Kind.PNAME}
    return prologue.only(prefixes).text


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
        """Check, part, and name what joins the parts."""
        self._check_elements()
        self._part()
        edge, changing = _binds(self.static), _binds(self.dynamic)
        key = (changing & (edge | self.window)) | (self._correlated() & edge)
        self._check_parts(key)
        sn = self.window & (edge | changing)
        hidden = {name for name in edge | changing if name.startswith("_:")}
        return Split(
            self.service.endpoint or "",
            _ordered(sn),
            (*_ordered(key), *_ordered(changing - key - hidden)),
            _ordered(key),
            (*_ordered(sn), *_ordered(edge - sn - hidden)) if self.static else (),
            self._body(self.static),
            self._body(self.dynamic),
            self.service.prologue,
            repeats=not all(map(_is_set, self.static)),
            keys_first=self._looks_back(key),
        )

    def _part(self) -> None:
        """Volatile elements are dynamic; of the rest, what reaches the window on its own is static."""
        reached = set(self.window)
        patterns = [e for e in self.service.elements if e.kind != "FILTER"]
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
            if element.kind == "FILTER":
                stays = not self._is_volatile(element) and element.variables & everything <= fixed
                (self.static if stays else self.dynamic).append(element)

    def _needs_more(self, element: Element, patterns: Sequence[Element]) -> bool:
        """Whether it looks at what only elements that are not static bind."""
        others = [e for e in self.static if e is not element]
        elsewhere = _binds([e for e in patterns if e not in self.static]) - _binds(others)
        looks = element.kind in ("OPTIONAL", "MINUS", "BIND")
        return looks and not everything([element]).isdisjoint(elsewhere - self.window)

    def _is_volatile(self, element: Element) -> bool:
        return bool(element.predicates & self.volatile)

    def _correlated(self) -> frozenset[str]:
        """What volatile MINUS and EXISTS look at: bound in a refresh, like a key."""
        closed = [e for e in self.dynamic if e.kind == "MINUS" or (e.kind == "FILTER" and self._is_volatile(e))]
        return frozenset().union(*(e.variables for e in closed))

    def _body(self, part: Sequence[Element]) -> str:
        """A part as SPARQL, in the order of the text."""
        flat = {e: without_blanks(_flat(e.text)) for e in part}
        texts = {e: f"{{ {text} }}" if e.kind == "SELECT" else text for e, text in flat.items()}
        return " . ".join(texts[e] for e in self.service.elements if e in texts)

    def _looks_back(self, key: frozenset[str]) -> bool:
        """Whether an element that looks at the solutions before it looks at a key that is not bound there."""
        before: list[Element] = []
        for element in (e for e in self.service.elements if e in self.dynamic):
            if element.kind in ("OPTIONAL", "MINUS", "BIND") and element.variables & key - certain(before):
                return True
            before.append(element)
        return False

    def _check_elements(self) -> None:
        elements = self.service.elements
        if self.service.endpoint is None:
            self._fail(f"the endpoint is the variable {self.service.where}", "name the source by its IRI")
        for element in (inner for outer in elements for inner in outer.walk()):
            self._check_element(element)
        if not any(self._is_volatile(e) for e in elements):
            self._fail(f"no volatile predicate occurs in {_flat(self.service.text)}", self._suggestion())
        if not self.window & _binds(elements):
            self._fail(
                f"nothing joins it with a window: the windows give {_listed(self.window)}, "
                f"the pattern has {_listed(self.service.variables)}",
                "use the same variable on both sides",
            )
        foreign = self.window - _binds(elements)
        for element in elements:
            if element.kind in _LOOKING and element.variables & foreign:
                self._fail(
                    f"{_flat(element.text)} uses {_listed(element.variables & foreign)}, which only the window gives "
                    "and which is unbound inside SERVICE",
                    "move it behind the SERVICE block",
                )

    def _check_element(self, element: Element) -> None:
        if element.kind == "SERVICE":
            self._fail(f"a SERVICE inside a SERVICE: {_flat(element.text)}", "put it beside the outer one")
        if element.predicate_variable:
            self._fail(
                f"the predicate of {_flat(element.text)} is the variable {element.predicate_variable}, "
                "so that nobody knows whether it is volatile",
                "name the predicate",
            )
        if element.path and self._is_volatile(element):
            self._fail(
                f"a volatile predicate in the property path of {_flat(element.text)}",
                "write the path as triple patterns, with a variable between them",
            )

    def _check_parts(self, key: frozenset[str]) -> None:
        blank = sorted(name for name in key if name.startswith("_:"))
        if blank:
            self._fail(f"the blank node {blank[0]} joins the static with the dynamic part", "use a variable there")
        if not key:
            lonely = _flat(" . ".join(e.text for e in self.dynamic))
            self._fail(f"{lonely} shares no variable with a window or with the static part", "join it to one of them")
        loose = key & _binds(self.static) - certain(self.static) - self.window
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
                f"{_flat(element.text)} shares no variable with the rest of the dynamic part (key {_listed(key)})",
                "put it into a SERVICE block of its own",
            )

    def _check_covered(self, element: Element, key: frozenset[str]) -> None:
        """What looks at both parts belongs where both are there."""
        here, there = (self.static, self.dynamic) if element in self.static else (self.dynamic, self.static)
        looked = everything([element]) - (element.bound if element.kind == "BIND" else frozenset())
        missing = looked & _binds(there) - _binds([e for e in here if e is not element]) - key
        if element.kind in ("OPTIONAL", *_LOOKING) and missing:
            self._fail(
                f"{_flat(element.text)} looks at what changes and at what does not: {_listed(missing)} is no key",
                "move it behind the SERVICE block",
            )

    def _check_optional(self, element: Element) -> None:
        """What only an OPTIONAL binds may not join the other part or a window: SPARQL would drop what a view keeps."""
        if element.kind != "OPTIONAL":
            return
        before = [e for e in self.service.elements if e.end <= element.start and e.kind not in _LOOKING]
        others = self.dynamic if element in self.static else self.static
        shared = (element.bound - certain(before)) & (_binds(others) | self.window)
        if shared:
            self._fail(
                f"{_flat(element.text)} alone binds {_listed(shared)}, which joins with what is outside it",
                "use another variable inside OPTIONAL, and compare with FILTER",
            )

    def _check_order(self, element: Element, key: frozenset[str]) -> None:
        """A request binds SN or key before all else: who looks at them must find them bound in the pattern too."""
        if element.kind not in ("OPTIONAL", *_LOOKING):
            return
        joining, looked = key | self.window, everything([element])
        if element.kind == "BIND":
            made = element.bound & (self.window if element in self.static else joining)
            if made:
                self._fail(
                    f"{_flat(element.text)} makes {_listed(made)}, which joins", "move it behind the SERVICE block"
                )
            looked -= element.bound
        before = [e for e in self.service.elements if e.end <= element.start or element.kind == "FILTER"]
        early = looked & joining & _binds(self.service.elements) - certain(before)
        if early:
            where = "everywhere" if element.kind == "FILTER" else "before it"
            self._fail(
                f"{_flat(element.text)} looks at {_listed(early)}", f"let the pattern bind it {where}, in every branch"
            )

    def _suggestion(self) -> str:
        present = self.service.predicates
        if self.volatile and present:
            predicate = min(self.volatile)
            return f"volatile is <{predicate}>; {nearest(predicate, list(present))}"
        return f"its predicates are {', '.join(f'<{p}>' for p in present) or 'none'}: name those that change"

    def _fail(self, problem: str, remedy: str) -> NoReturn:
        raise SplitError(f"SERVICE {self.service.where}: {problem}; {remedy}")


def _is_near(element: Element, reached: set[str]) -> bool:
    """Whether static patterns alone lead from the window to this element."""
    if element.kind == "BIND":
        return element.variables - element.bound <= reached
    return not element.variables or not element.variables.isdisjoint(reached)


def _binds(elements: Iterable[Element]) -> frozenset[str]:
    return frozenset().union(*(e.bound for e in elements))


def _is_set(element: Element) -> bool:
    """Whether an element has every solution once, all that it mentions being shown."""
    if element.kind == "TRIPLE":
        marks = (item for item in tokenize(element.text).items if item.is_mark("[", "("))
        return not element.path and not any(v.startswith("_:") for v in element.variables) and not any(marks)
    if element.kind in ("OPTIONAL", "GROUP", "GRAPH"):
        return all(_is_set(inner) for part in element.parts for inner in part)
    return element.kind in _LOOKING


def _flat(text: str) -> str:
    """The text on one line, without comments."""
    pairs = pairwise(tokenize(text).items)
    return "".join(item.text + (" " if after.start > item.end else "") for item, after in pairs).strip()


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"?{name}" if not name.startswith("_:") else name for name in sorted(names)) or "no variable"
