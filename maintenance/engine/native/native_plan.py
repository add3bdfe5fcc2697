"""Translates a query into a native plan of joins, or says why the snapshot evaluator must run it.

window patterns     triple patterns over one window; their solutions come and go with its elements
static parts        anything over static graphs alone: solved once, by joins or by the SPARQL library
expressions         FILTER and BIND over variables that all solutions bind: evaluated once per combination of values
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from freshkeeper.maintenance.engine.evaluator import Term
from freshkeeper.maintenance.engine.native.plan_head import NotNativeError, PlanHead, read_head
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.syntax import tree as syntax
from freshkeeper.maintenance.query.syntax.source_text import Path, Quoted, blank_variable, names_in
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, tokenize

Terms: TypeAlias = tuple["str | Term", "str | Term", "str | Term"]
"""The positions of a triple pattern: variable names and terms."""
JOINING = (syntax.TriplePattern, syntax.GroupBlock, syntax.Values, syntax.Union, syntax.Select)
BLANKS = ("_:", "freshkeeper_blank_")
"""Prefixes of the variables that stand for blank nodes, which are not visible."""
NONDETERMINISTIC = ("NOW", "RAND", "UUID", "STRUUID", "BNODE")
"""Functions that are not deterministic."""


@dataclass(frozen=True)
class WindowPattern:
    """A triple pattern over one window, which is given by its number."""

    window: int
    terms: Terms

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(term for term in self.terms if isinstance(term, str))


@dataclass(frozen=True)
class PlanExpression:
    """A FILTER, or a BIND that sets `name`, over variables that every solution binds."""

    text: str
    variables: tuple[str, ...]
    name: str | None = None
    differ: bool | None = None
    """True for FILTER(?a != ?b), False for FILTER(?a = ?b), None for everything else"""


@dataclass(frozen=True)
class StaticJoin:
    """A join of triple patterns over static graphs."""

    variables: tuple[str, ...]
    patterns: tuple[tuple[str, Terms], ...]
    """each with the IRI of its graph, "" for the default graph"""
    expressions: tuple[PlanExpression, ...]
    """FILTERs on its solutions"""


@dataclass(frozen=True)
class StaticPart:
    """A sub-query over static graphs, whose solutions form a relation."""

    elements: tuple[syntax.Element, ...] = field(repr=False)
    variables: tuple[str, ...]
    """the variables that the rest of the query uses"""

    @cached_property
    def join(self) -> "StaticJoin | None":
        """The part as a join of triple patterns with FILTERs, or None if it is more than that."""
        filters = [
            e
            for e in self.elements
            if isinstance(e, syntax.Filter) and not e.parts and not _is_nondeterministic(e.items)
        ]
        try:
            patterns = tuple(_plain([e for e in self.elements if e not in filters], ""))
        except NotNativeError:
            return None
        looked = [(e, tuple(sorted(syntax.all_variables([e])))) for e in filters]
        expressions = tuple(PlanExpression(e.text, names, None, _differ(e)) for e, names in looked)
        return StaticJoin(self.variables, patterns, expressions)

    def sparql(self, prologue: str) -> str:
        """Return a query over the static graphs for the solutions of the part."""
        body = " . ".join(e.text for e in self.elements)
        return f"{prologue}SELECT {' '.join(f'?{name}' for name in self.variables) or '*'} WHERE {{ {body} }}"


@dataclass(frozen=True)
class NativePlan:
    """The inputs of a join, and what is made of its solutions."""

    patterns: tuple[WindowPattern, ...]
    statics: tuple[StaticPart, ...]
    expressions: tuple[PlanExpression, ...]
    """in order of evaluation"""
    projection: tuple[str, ...]
    """the variables that are kept of every solution"""
    head: PlanHead
    bound: frozenset[str] = frozenset()
    """the variables that windows and static parts always bind"""
    services: int = 0
    """the number of SERVICE blocks"""


def plan_of(query: Query, graphs: Collection[str] = ()) -> NativePlan:
    """Return the plan over static graphs of these names; raise NotNativeError with the reason if there is none."""
    if not query.windows:
        raise NotNativeError("it has no window and is evaluated only once")
    reader = _Reader(query, read_head(query), graphs)
    reader.read(query.group)
    return reader.plan()


@dataclass(eq=False)
class _Reader:
    """Sorts the elements of a group into the parts of a plan."""

    query: Query
    head: PlanHead
    graphs: Collection[str]
    patterns: list[WindowPattern] = field(default_factory=list)
    statics: list[syntax.Element] = field(default_factory=list)
    looking: list[syntax.Element] = field(default_factory=list)
    """FILTERs and BINDs over variables that are not static"""
    before: dict[syntax.Element, frozenset[str]] = field(default_factory=dict)
    """by BIND: the variables that all solutions bind before it"""
    services: list[syntax.ServiceBlock] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Assign numbers to the windows, and find the window that patterns outside WINDOW blocks match."""
        merged = self.query.dataset.merged_windows
        windows = list(self.query.windows)
        self.window_numbers: Mapping[str, int] = {w.name: n for n, w in enumerate(windows) if w.is_named}
        self.default = windows.index(merged[0]) if merged else None
        if len(merged) > 1:
            raise NotNativeError("several windows are merged into the default graph")
        if merged and (self.query.dataset.default_graphs or "" in self.graphs):
            raise NotNativeError("a window and static graphs are merged into the default graph")

    def read(self, elements: Sequence[syntax.Element]) -> None:
        """Sort all elements of the query's group."""
        moving = self._moving_variables(elements)
        for n, element in enumerate(elements):
            if isinstance(element, syntax.ServiceBlock):
                self.services.append(element)
                continue
            if any(token.is_word(*NONDETERMINISTIC) for token in element.items):
                raise NotNativeError(f"{_short(element)} is not deterministic", element)
            if isinstance(element, syntax.WindowBlock):
                self._window_block(element)
            elif isinstance(element, syntax.TriplePattern) and self.default is not None:
                self._pattern(element, self.default)
            elif self._moves(element):
                raise NotNativeError(f"{_short(element)} is more than a triple pattern over a window", element)
            elif isinstance(element, syntax.Filter | syntax.Bind) and not self._is_static(element, elements, n, moving):
                self.looking.append(element)
                if isinstance(element, syntax.Bind):
                    self.before[element] = syntax.bound_variables(elements[:n])
            elif isinstance(element, (*JOINING, syntax.Filter, syntax.Bind)) or self._is_static(
                element, elements, n, moving
            ):
                self.statics.append(element)
            else:
                raise NotNativeError(f"{_short(element)} depends on what windows bind", element)

    def plan(self) -> NativePlan:
        """Return the plan of everything that was read."""
        if not self.patterns:
            raise NotNativeError("no pattern matches a window")
        certain = frozenset().union(*(p.variables for p in self.patterns)) | syntax.bound_variables(self.statics)
        doubtful = frozenset().union(*(e.bound for e in self.statics)) - certain
        if unsure := doubtful if self.head.star else doubtful & syntax.all_variables(self.services):
            raise NotNativeError(f"?{min(unsure)} is not bound by all solutions", self._first_occurrence(min(unsure)))
        expressions = tuple(self._expressions(certain.union(*(syntax.bound_variables(s.inner) for s in self.services))))
        computed = frozenset(e.name for e in expressions if e.name is not None)
        if self.services and (computed or self.head.form is not Form.SELECT):
            raise NotNativeError("a SERVICE is combined with a BIND, or with CONSTRUCT or ASK", self.services[0])
        known = (certain | computed).union(*(service.bound for service in self.services))
        if self.head.star:
            kept = tuple(n for n in sorted(known) if not n.startswith(BLANKS))
        else:
            kept = self.head.needed
        if unbound := [name for name in (*kept, *self.head.output_variables) if name not in known | self._aggregates]:
            raise NotNativeError(f"?{unbound[0]} is not bound by all solutions", self._first_occurrence(unbound[0]))
        wanted = frozenset(kept) | syntax.all_variables(self.services)
        wanted = wanted.union(*(e.variables for e in expressions))
        wanted = wanted.union(*(p.variables for p in self.patterns))
        parts = tuple(self._parts(wanted))
        return NativePlan(
            patterns=tuple(self.patterns),
            statics=parts,
            expressions=expressions,
            projection=kept,
            head=self.head,
            bound=certain,
            services=len(self.services),
        )

    def _first_occurrence(self, name: str) -> Token | None:
        """Return the first occurrence of a variable in the query."""
        items = self.query.tree.source.tokens.items
        return next((token for token in items if token.kind is TokenKind.VAR and token.text[1:] == name), None)

    @property
    def _aggregates(self) -> frozenset[str]:
        grouping = self.head.grouping
        if grouping is not None:
            return frozenset(one.name for one in grouping.aggregates)
        return frozenset()

    def _window_block(self, block: syntax.WindowBlock) -> None:
        if block.iri is None:
            raise NotNativeError(f"the window of {_short(block)} is a variable", block)
        bound = syntax.bound_variables(e for e in block.inner if isinstance(e, syntax.TriplePattern))
        for element in block.inner:
            if isinstance(element, syntax.TriplePattern):
                self._pattern(element, self.window_numbers[block.iri])
            elif isinstance(element, syntax.Filter) and syntax.all_variables([element]) <= bound:
                self.looking.append(element)
            else:
                raise NotNativeError(f"{_short(element)} is inside a WINDOW block", element)

    def _pattern(self, element: syntax.TriplePattern, window: int) -> None:
        if not element.of_terms:
            raise NotNativeError(f"{_short(element)} is a path, or contains a triple term or an annotation", element)
        self.patterns += [WindowPattern(window, terms) for terms in _terms(element)]

    def _moves(self, element: syntax.Element) -> bool:
        """Return True if anything inside an element matches a window or a source."""
        for inner in element.walk():
            if isinstance(inner, syntax.WindowBlock | syntax.ServiceBlock):
                return True
            if (
                isinstance(inner, syntax.TriplePattern)
                and self.default is not None
                and not _within_graph(element, inner)
            ):
                return True
        return False

    def _moving_variables(self, elements: Sequence[syntax.Element]) -> frozenset[str]:
        """Return the variables that window patterns bind."""
        moving = [e for e in elements if isinstance(e, syntax.WindowBlock) or self._moves(e)]
        return syntax.all_variables(moving)

    def _is_static(
        self, element: syntax.Element, group: Sequence[syntax.Element], at: int, moving: frozenset[str]
    ) -> bool:
        """Return True if only static elements bind what an element uses, so that it does not depend on any window."""
        if isinstance(element, JOINING):
            return True
        others = [e for e in group if isinstance(e, JOINING) and not self._moves(e)]
        if isinstance(element, syntax.Filter):
            return syntax.all_variables([element]) <= syntax.bound_variables(others)
        before = syntax.bound_variables(e for e in group[:at] if e in others)
        later = syntax.all_variables(e for e in group if e is not element and not (isinstance(e, syntax.Filter)))
        if isinstance(element, syntax.Bind):
            return element.inputs <= before and element.bound.isdisjoint(moving)
        if isinstance(element, syntax.Optional | syntax.Minus):
            new = syntax.all_variables([element]) - before
            return new.isdisjoint(moving) and new.isdisjoint(later)
        return isinstance(element, syntax.GraphBlock)

    def _expressions(self, certain: frozenset[str]) -> Iterator[PlanExpression]:
        """Yield BINDs in their order, then FILTERs, then the expressions in SELECT."""
        computed: set[str] = set()
        for element in sorted(self.looking, key=lambda e: isinstance(e, syntax.Filter)):
            if element.parts or _is_nondeterministic(element.items):
                raise NotNativeError(f"{_short(element)} is not a deterministic function of its variables", element)
            if isinstance(element, syntax.Bind):
                looked, (name,) = element.inputs, element.bound
                if not looked <= self.before[element] | computed:
                    raise NotNativeError(
                        f"{_short(element)} uses a variable that not all solutions bind before it", element
                    )
                yield self._computed(element.text, looked, name, certain, computed)
            else:
                looked = syntax.all_variables([element])
                if not looked <= certain | computed:
                    raise NotNativeError(f"{_short(element)} uses a variable that not all solutions bind", element)
                yield PlanExpression(element.text, tuple(sorted(looked)), None, _differ(element))
        for name, text in self.head.computed:
            items = tokenize(text).items
            if _is_nondeterministic(items):
                raise NotNativeError(
                    f"?{name} is not a deterministic function of variables", self._first_occurrence(name)
                )
            if not (looked := names_in(items)) <= certain | computed:
                raise NotNativeError(
                    f"?{name} uses a variable that not all solutions bind", self._first_occurrence(name)
                )
            yield self._computed(f"BIND({text} AS ?{name})", looked, name, certain, computed)

    def _computed(
        self, text: str, looked: frozenset[str], name: str, certain: frozenset[str], computed: set[str]
    ) -> PlanExpression:
        if name in certain | computed or name in syntax.all_variables(self.statics):
            raise NotNativeError(f"?{name} is computed and also bound elsewhere", self._first_occurrence(name))
        computed.add(name)
        return PlanExpression(text, tuple(sorted(looked)), name)

    def _parts(self, wanted: frozenset[str]) -> Iterator[StaticPart]:
        """Yield the static elements in connected parts: those that share variables stay together."""
        # Solving connected parts apart avoids their Cartesian product.
        rest = list(self.statics)
        while rest:
            part, names, grew = [rest.pop(0)], syntax.all_variables([]), True
            while grew:
                names = syntax.all_variables(part)
                more = [e for e in rest if not names.isdisjoint(syntax.all_variables([e]))]
                grew = bool(more)
                part, rest = part + more, [e for e in rest if e not in more]
            ordered = tuple(e for e in self.statics if e in part)
            shown = tuple(sorted(frozenset().union(*(e.bound for e in ordered)) & wanted))
            sure = syntax.bound_variables(ordered)
            joined = frozenset(shown) & frozenset().union(*(p.variables for p in self.patterns))
            if not joined <= sure:
                raise NotNativeError(
                    "a static part joins a window by a variable that not all of its solutions bind", part[0]
                )
            yield StaticPart(ordered, shown)


def _is_nondeterministic(items: Sequence[Token]) -> bool:
    return any(token.is_word(*NONDETERMINISTIC, "EXISTS") for token in items)


def _plain(elements: Sequence[syntax.Element], graph: str) -> Iterator[tuple[str, Terms]]:
    for element in elements:
        if isinstance(element, syntax.TriplePattern) and element.of_terms:
            yield from ((graph, terms) for terms in _terms(element))
        elif type(element) is syntax.GroupBlock:
            yield from _plain(element.inner, graph)
        elif type(element) is syntax.GraphBlock and element.iri is not None:
            inside = [*_plain(element.inner, element.iri)]
            if not inside:  # GRAPH <g> {} has a solution if there is such a graph, which no triple pattern tells
                raise NotNativeError("it asks whether a graph exists")
            yield from inside
        else:
            raise NotNativeError("it is more than a join")


def _terms(element: syntax.TriplePattern) -> Iterator[Terms]:
    """Yield the triples of a pattern, with names of variables for blank nodes."""
    for triple in element.triples:
        s, p, o = (_position_name(term) for term in triple if not isinstance(term, Path | Quoted))
        yield s, p, o


def _position_name(term: "str | Term") -> "str | Term":
    if isinstance(term, str) and term.startswith("_:"):
        return blank_variable(term)
    return term


def _within_graph(outer: syntax.Element, inner: syntax.Element) -> bool:
    """Return True if an element is inside a GRAPH block of another one."""
    blocks = (element for element in outer.walk() if isinstance(element, syntax.GraphBlock))
    return any(inner is element for block in blocks for element in block.walk())


def _differ(element: syntax.Element) -> bool | None:
    """Recognise FILTER(?a != ?b) and FILTER(?a = ?b), which ids alone decide if both are IRIs."""
    words = [token.text for token in element.items]
    if len(words) == 6 and words[1] == "(" and words[3] in ("=", "!=") and words[2][0] == words[4][0] == "?":
        return words[3] == "!="
    return None


def _short(element: syntax.Element) -> str:
    text = element.flat
    return text if len(text) <= 60 else f"{text[:57]}..."
