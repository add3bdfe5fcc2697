"""The syntax tree of a query: its groups with their triple patterns and blocks, each at its place in the text.

    Select    a query or sub-query: what it shows, its group, and the clauses behind it
    Group     { ... }, Union { ... } UNION { ... }, Optional, Minus, Lateral, Service, Graph, WindowBlock
    Filter, Bind, Values
    TriplePattern    one subject, predicate and object as written; `triples` are those that it stands for

An element is a span of tokens with elements inside; expressions are spans too, asked for their variables and for the
groups of their EXISTS. Nothing here reports an error: a tree is read of what SPARQL has accepted (see `reading`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeAlias

from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, parse

from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, Tokens

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")
CLAUSES = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")
"""The words that begin a clause behind a group."""
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
BLANK = "freshkeeper_blank_"


@dataclass(frozen=True)
class Path:
    """A property path, its names in full."""

    text: str
    predicates: frozenset[str]


@dataclass(frozen=True)
class Quoted:
    """A triple inside a triple, its names in full."""

    text: str
    iris: frozenset[str]


Position: TypeAlias = str | NamedNode | Literal | Path | Quoted
"""What stands in a triple; a variable is its name, a blank node `_:` and its label, or its place where it has none."""
Triple: TypeAlias = tuple[Position, Position, Position]
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Source:
    """A text as tokens, and what its names stand for."""

    tokens: Tokens
    prologue: Prologue = field(repr=False)
    _known: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def items(self) -> tuple[Token, ...]:
        """Every token of the text."""
        return self.tokens.items

    def resolve(self, token: Token) -> str:
        """The IRI of a name."""
        if token.text not in self._known:
            try:
                self._known[token.text] = self.prologue.resolve(token.text)
            except (KeyError, ValueError):
                self._known[token.text] = token.text
        return self._known[token.text]

    def text(self, first: int, stop: int) -> str:
        """What is written from one token up to another one."""
        return self.tokens.text[self.items[first].start : self.items[stop - 1].end] if stop > first else ""

    def iri(self, token: Token) -> str | None:
        """The IRI that a token stands for in a triple, if it does for one."""
        if token.is_word("A"):
            return f"{RDF}type"
        return self.resolve(token) if token.is_name else None

    def in_full(self, first: int, stop: int, gap: str = "") -> tuple[str, frozenset[str]]:
        """What is written with its names in full, and which names there are."""
        found = [(item.text, self.iri(item)) for item in self.items[first:stop]]
        return gap.join(f"<{iri}>" if iri else text for text, iri in found), frozenset(iri for _, iri in found if iri)

    @cached_property
    def without_blanks(self) -> "Source":
        """Blank node labels as variables: a pattern may then stand twice, its solutions told apart by them."""
        return self._mapped({t.text: blank_variable(t.text) for t in self.items if t.kind is Kind.BLANK})

    def renamed(self, names: Iterable[str], prefix: str) -> "Source":
        """Some variables under other names."""
        return self._mapped({f"{sigil}{name}": prefix + name for name in names for sigil in "?$"})

    def _mapped(self, variables: dict[str, str]) -> "Source":
        items, weaver = [], Weaver(self.tokens.text)
        for before, token in zip((None, *self.items[:-1]), self.items, strict=True):
            weaver.copy(before.end if before else 0, token.start)
            start, name = weaver.length, variables.get(token.text)
            weaver.add(token.text if name is None else f"?{name}", token.start)
            kind = token.kind if name is None else Kind.VAR
            items.append(Token(kind, token.text if name is None else f"?{name}", start, weaver.length))
        return Source(Tokens(weaver.done().text, tuple(items), self.tokens.closing), self.prologue, self._known)


def blank_variable(label: str) -> str:
    """The variable of a label; what a variable cannot have is spelled out, so that no two labels become one."""
    return BLANK + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in label[2:])


def names_in(tokens: Iterable[Token]) -> frozenset[str]:
    """The variables among tokens, and the labels of blank nodes, which join like variables."""
    names = (t.text[1:] if t.kind is Kind.VAR else t.text for t in tokens if t.kind in (Kind.VAR, Kind.BLANK))
    return frozenset(names)


@dataclass(frozen=True, eq=False)
class Element:
    """What stands at the tokens from `first` up to `stop`, with the groups inside it."""

    source: Source = field(repr=False)
    first: int
    stop: int
    parts: tuple[tuple["Element", ...], ...] = ()

    @property
    def items(self) -> tuple[Token, ...]:
        """Its tokens, those of its parts included."""
        return self.source.items[self.first : self.stop]

    @property
    def start(self) -> int:
        """Where it begins in the text."""
        return self.source.items[self.first].start

    @property
    def end(self) -> int:
        """Where it ends in the text."""
        return self.source.items[self.stop - 1].end

    @property
    def text(self) -> str:
        """As it is written."""
        return self.source.text(self.first, self.stop)

    def edited(self, edits: Iterable[Edit]) -> str:
        """As it is written, with the edits inside it made."""
        weaver = Weaver(self.source.tokens.text)
        weaver.copy(self.start, self.end, list(edits))
        return weaver.done().text

    @property
    def flat(self) -> str:
        """On one line, without comments."""
        return self.flat_with(())

    def flat_with(self, edits: Iterable[Edit]) -> str:
        """The same with the edits inside it made."""
        new, after = {edit.start: edit for edit in edits}, 0
        found, items = [], self.items
        for item, following in zip(items, (*items[1:], items[-1]), strict=True):
            edit = new.get(item.start)
            if item.start >= after:
                found += [edit.new if edit else item.text, " " if following.start > item.end else ""]
            after = edit.end if edit else after
        return "".join(found)

    @property
    def inner(self) -> tuple["Element", ...]:
        """The elements of the groups inside it."""
        return tuple(element for part in self.parts for element in part)

    def walk(self) -> Iterator["Element"]:
        """This element and all inside it."""
        yield self
        for element in self.inner:
            yield from element.walk()

    def deep(self) -> Iterator["Element"]:
        """The same, with what stands in the EXISTS of what queries select and of their clauses."""
        yield self
        for element in self.inner:
            yield from element.deep()

    def over(self, source: Source) -> Self:
        """The same over a source with other names."""
        parts = tuple(tuple(element.over(source) for element in part) for part in self.parts)
        return replace(self, source=source, parts=parts)

    @property
    def own(self) -> frozenset[str]:
        """The variables that it mentions itself."""
        return frozenset()

    @cached_property
    def variables(self) -> frozenset[str]:
        """All that it mentions, blank nodes too."""
        return self.own.union(*(e.variables for e in self.inner))

    @cached_property
    def bound(self) -> frozenset[str]:
        """What it can bind."""
        return self.own.union(*(e.bound for e in self.inner))

    @cached_property
    def always(self) -> frozenset[str]:
        """What all its solutions bind."""
        return frozenset()

    @cached_property
    def predicates(self) -> frozenset[str]:
        """The IRIs in predicate position, in paths and in nested groups too."""
        return frozenset().union(*(e.predicates for e in self.inner))

    @property
    def has_service(self) -> bool:
        """Whether a SERVICE stands in it."""
        return any(isinstance(e, Service) for e in self.walk())


class Group(Element):
    """A group inside a group."""

    @cached_property
    def always(self) -> frozenset[str]:
        """What its elements always bind, and the name that it ranges over."""
        return self.own | bound_variables(self.inner)


class _Named(Element):
    """A block with a name."""

    @property
    def name(self) -> Token:
        """An IRI, a prefixed name or a variable."""
        return self.items[1]

    @property
    def own(self) -> frozenset[str]:
        """The name, where it is a variable."""
        return names_in([self.name])

    @property
    def iri(self) -> str | None:
        """The name in full."""
        return None if self.name.kind is Kind.VAR else self.source.resolve(self.name)


class Graph(_Named, Group):
    """GRAPH: its patterns ask one graph, or each."""


class WindowBlock(Graph):
    """WINDOW: its patterns ask one window, or each."""


class Service(_Named):
    """SERVICE: what another source is asked for."""

    @property
    def silent(self) -> bool:
        """Whether a failure is one solution that binds nothing."""
        return self.items[1].is_word("SILENT")

    @property
    def name(self) -> Token:
        """The token of the endpoint: an IRI or a variable."""
        return self.items[1 + self.silent]

    @property
    def group(self) -> Group:
        """Its group with the brackets."""
        return Group(self.source, self.first + 2 + self.silent, self.stop, self.parts)


class Union(Element):
    """Groups with UNION between them."""

    @cached_property
    def always(self) -> frozenset[str]:
        """What every branch binds."""
        return frozenset.intersection(*map(bound_variables, self.parts))


class Optional(Element):
    """OPTIONAL: what it binds, solutions may lack."""


class Lateral(Element):
    """LATERAL: evaluated for each solution before it."""


class _Closed(Element):
    """What binds nothing outside."""

    @cached_property
    def bound(self) -> frozenset[str]:
        """Nothing that others could join with."""
        return frozenset()


class Minus(_Closed):
    """MINUS: takes solutions away, and binds nothing."""


class Filter(_Closed):
    """FILTER; its groups are those of EXISTS."""

    @property
    def own(self) -> frozenset[str]:
        """All that it looks at."""
        return names_in(self.items)


class Bind(Element):
    """BIND; its groups are those of EXISTS."""

    @property
    def own(self) -> frozenset[str]:
        """What it looks at, and what it sets."""
        return names_in(self.items)

    @cached_property
    def bound(self) -> frozenset[str]:
        """The variable behind AS."""
        return names_in(self.items[-2:])

    @property
    def looked(self) -> frozenset[str]:
        """What it looks at."""
        return everything([self]) - self.bound


class Values(Element):
    """VALUES: a table in the text; UNDEF leaves a variable unbound."""

    @property
    def own(self) -> frozenset[str]:
        """The variables of its head."""
        return names_in(self.items)

    @cached_property
    def always(self) -> frozenset[str]:
        """The same, but for UNDEF."""
        return frozenset() if any(t.is_word("UNDEF") for t in self.items) else self.own


@dataclass(frozen=True, eq=False)
class TriplePattern(Element):
    """Subject, predicate and object as written; where the subject is bracketed, it and all that follows."""

    spans: tuple[Span, ...] = ()

    @property
    def text(self) -> str:
        """A triple of its own, also where it shares its subject or predicate with others."""
        return " ".join(self.source.text(*span) for span in self.spans)

    def edited(self, edits: Iterable[Edit]) -> str:
        """There is nothing in it to edit."""
        del edits
        return self.text

    @property
    def items(self) -> tuple[Token, ...]:
        """Tokens of all its spans, as if they stood together."""
        return tuple(item for span in self.spans for item in self.source.items[slice(*span)])

    @property
    def own(self) -> frozenset[str]:
        """The variables that its triples mention."""
        return names_in(self.items)

    @cached_property
    def always(self) -> frozenset[str]:
        """All its variables: a triple that matches binds each of them."""
        return self.own

    @cached_property
    def triples(self) -> tuple[Triple, ...]:
        """The triples that it stands for: itself, and those of its nested nodes and collections."""
        expansion = _Expansion(self.source)
        subject = expansion.node(*self.spans[0])
        if len(self.spans) == 3:
            expansion.add(subject, self.spans[1], self.spans[2])
        elif len(self.spans) == 2:
            expansion.properties(subject, *self.spans[1])
        return tuple(expansion.found)

    @property
    def alone(self) -> bool:
        """Whether it shares neither subject nor predicate with another one."""
        return len(self.items) == self.stop - self.first and not self.source.items[self.stop].is_mark(";", ",")

    @property
    def plain(self) -> Triple | None:
        """Its one triple of three terms; nothing where it is more than that."""
        if len(self.triples) != 1 or len(self.spans) != 3:
            return None
        terms = self.triples[0]
        return None if any(isinstance(t, Path | Quoted) or str(t).startswith("_:[") for t in terms) else terms

    @cached_property
    def predicates(self) -> frozenset[str]:
        """Those that are written in it."""
        found = set[str]()
        for subject, predicate, value in self.triples:
            found |= {predicate.value} if isinstance(predicate, NamedNode) else set()
            for term in (subject, predicate, value):
                found |= term.predicates if isinstance(term, Path) else term.iris if isinstance(term, Quoted) else set()
        return frozenset(found - {f"{RDF}first", f"{RDF}rest"})

    @property
    def path(self) -> bool:
        """Whether its predicate is a property path."""
        return len(self.spans) == 3 and self.spans[1][1] - self.spans[1][0] > 1


@dataclass(frozen=True, eq=False)
class Select(Element):
    """A query or a sub-query: what is before its group, the group, and the clauses behind it."""

    opening: int = 0
    """the token that opens the group; `stop` where there is none"""
    expressions: tuple[tuple[Element, ...], ...] = ()
    """the groups of EXISTS in what it selects and in its clauses"""

    def deep(self) -> Iterator[Element]:
        """With what stands in the EXISTS of its expressions."""
        yield from super().deep()
        for element in (e for group in self.expressions for e in group):
            yield from element.deep()

    @property
    def head(self) -> tuple[Token, ...]:
        """What stands before the group."""
        return self.source.items[self.first : self.opening]

    @cached_property
    def tail(self) -> tuple[Token, ...]:
        """The clauses behind the group."""
        return self.source.items[self.source.tokens.closing.get(self.opening, self.opening - 1) + 1 : self.stop]

    @cached_property
    def columns(self) -> dict[str, tuple[Token, ...]]:
        """What it shows, by name, with the expressions of what it computes."""
        return dict(columns(self.source.tokens, self.first, self.opening))

    @property
    def distinct(self) -> Token | None:
        """The word DISTINCT or REDUCED, where there is one."""
        return next((t for t in self.head[1:2] if t.is_word("DISTINCT", "REDUCED")), None)

    @property
    def star(self) -> bool:
        """Whether it shows all that there is."""
        return self.head[1 + (self.distinct is not None)].is_mark("*")

    def has(self, *clauses: str) -> bool:
        """Whether one of these clauses stands behind the group."""
        return any(t.is_word(*clauses) for t in self.tail)

    @cached_property
    def aggregated(self) -> bool:
        """Whether its solutions are groups."""
        return self.has("GROUP", "HAVING") or any(t.is_word(*AGGREGATES) for t in (*self.head, *self.tail))

    @cached_property
    def grouped(self) -> frozenset[str]:
        """The variables that GROUP BY names as they are, not inside an expression."""
        found, inside = list[Token](), False
        for token in _outside(self.tail):
            inside = token.is_word("GROUP") or (inside and not token.is_word(*CLAUSES))
            found += [token] if inside else []
        return names_in(found)

    @cached_property
    def variables(self) -> frozenset[str]:
        """What it shows, and nothing else."""
        return frozenset(self.columns).union(*(e.bound for e in self.inner if self.star))

    @cached_property
    def bound(self) -> frozenset[str]:
        """Of its variables, no others than those that it shows."""
        return self.variables

    @cached_property
    def always(self) -> frozenset[str]:
        """Of what it shows, what its group always binds."""
        return self.bound & bound_variables(self.inner)

    @cached_property
    def passing(self) -> frozenset[str]:
        """What it shows as it is: of groups what it groups by, and none where it is cut off.

        Values of these may leave out solutions inside without changing what the rest shows.
        """
        if self.has("LIMIT", "OFFSET"):
            return frozenset()
        shown = self.bound if self.star else frozenset(name for name, made in self.columns.items() if not made)
        return shown & self.grouped if self.aggregated else shown


def columns(tokens: Tokens, first: int, stop: int) -> Iterator[tuple[str, tuple[Token, ...]]]:
    """The variables between SELECT and the group, with the expressions that some of them stand for."""
    index = first
    while index < stop:
        token, close = tokens.items[index], tokens.closing.get(index, index)
        if token.kind is Kind.VAR:
            yield token.text[1:], ()
        elif close - 2 > index and tokens.items[close - 2].is_word("AS"):
            yield tokens.items[close - 1].text[1:], tokens.items[index + 1 : close - 2]
        index = close + 1


def group_names(tokens: Tokens, first: int) -> list[str]:
    """The variables that groups have: what GROUP BY names as it is, or gives a name to."""
    stop = len(tokens.items)
    start = next((n for n in range(first, stop) if tokens.items[n].is_word("GROUP")), stop)
    end = next((n for n in range(start + 1, stop) if tokens.items[n].is_word(*CLAUSES)), stop)
    return [name for name, _ in columns(tokens, start, end)]


@dataclass(eq=False)
class _Expansion:
    """The triples of a sentence, bracketed nodes and collections taken apart."""

    source: Source
    found: list[Triple] = field(default_factory=list)

    def properties(self, subject: Position, first: int, stop: int) -> None:
        """The triples of `p o, o ; p o`."""
        for verb, value in statements(self.source.tokens, first, stop):
            self.add(subject, verb, value)

    def add(self, subject: Position, verb: Span, value: Span) -> None:
        """One triple, and those of its object."""
        at = len(self.found)
        self.found.insert(at, (subject, self._predicate(*verb), self.node(*value)))

    def node(self, first: int, stop: int) -> Position:
        """The term that stands for a node, whose own triples are found too."""
        token = self.source.items[first]
        if token.is_mark("["):
            name = _nameless(token)
            self.properties(name, first + 1, stop - 1)
            return name
        if token.is_mark("("):
            return self._collection(first + 1, stop - 1)
        if token.kind is Kind.VAR:
            return token.text[1:]
        if token.kind is Kind.BLANK:
            return token.text
        return NamedNode(self.source.resolve(token)) if token.is_name else self._literal(first, stop)

    def _predicate(self, first: int, stop: int) -> Position:
        iri = self.source.iri(self.source.items[first])
        if stop - first > 1 or (iri is None and self.source.items[first].kind is not Kind.VAR):
            return Path(*self.source.in_full(first, stop))
        return self.source.items[first].text[1:] if iri is None else NamedNode(iri)

    def _collection(self, first: int, stop: int) -> Position:
        """Cells of rdf:first and rdf:rest."""
        head: Position | None = None
        cell: Position = NamedNode(f"{RDF}nil")
        while first < stop:
            end, new = node_end(self.source.tokens, first, stop), _nameless(self.source.items[first], "(")
            if head is None:
                head = new
            else:
                self.found.append((cell, NamedNode(f"{RDF}rest"), new))
            self.found.append((new, NamedNode(f"{RDF}first"), self.node(first, end)))
            first, cell = end, new
        if head is None:
            return cell
        self.found.append((cell, NamedNode(f"{RDF}rest"), NamedNode(f"{RDF}nil")))
        return head

    def _literal(self, first: int, stop: int) -> Position:
        """A literal; what is none is a quoted triple."""
        written, _ = self.source.in_full(first, stop)
        try:
            found: list[Quad] = list(parse(f"<a:a> <a:a> {written} .", format=RdfFormat.TURTLE))
        except SyntaxError:
            found = []
        value = found[0].object if len(found) == 1 else None
        return value if isinstance(value, Literal) else Quoted(*self.source.in_full(first, stop, " "))


def _nameless(token: Token, mark: str = "[") -> str:
    """The name of a node that has none in the text."""
    return f"_:{mark}{token.start}"


def statements(tokens: Tokens, first: int, stop: int) -> Iterator[tuple[Span, Span]]:
    """The predicates and objects of one subject."""
    while first < stop:
        verb = first, path_end(tokens, first, stop)
        value = verb
        for value in _objects(tokens, verb[1], stop):
            yield verb, value
        first = value[1]
        while first < stop and not tokens.items[first].is_mark(";"):
            first += 1
        while first < stop and tokens.items[first].is_mark(";"):
            first += 1


def _objects(tokens: Tokens, first: int, stop: int) -> Iterator[Span]:
    while first < stop:
        end = node_end(tokens, first, stop)
        yield first, end
        if end >= stop or not tokens.items[end].is_mark(","):
            return
        first = end + 1


def node_end(tokens: Tokens, first: int, stop: int) -> int:
    """The end of one term, which may be bracketed, or a literal with its type or language."""
    items = tokens.items
    if items[first].is_mark("<<"):
        return _quoted_end(tokens, first, stop)
    if first in tokens.closing:
        return tokens.closing[first] + 1
    end = first + 1
    if items[first].kind is Kind.STRING and end < stop:
        return min(end + 2, stop) if items[end].is_mark("^^") else end + (items[end].kind is Kind.LANG)
    return end + (items[first].is_mark("+", "-") and end < stop and items[end].kind is Kind.NUMBER)


def _quoted_end(tokens: Tokens, first: int, stop: int) -> int:
    depth = 0
    for index in range(first, stop):
        depth += tokens.items[index].is_mark("<<") - tokens.items[index].is_mark(">>")
        if depth == 0:
            return index + 1
    return stop


def path_end(tokens: Tokens, index: int, stop: int) -> int:
    """The end of a predicate: a variable, a name, or a property path."""
    items = tokens.items
    while index < stop:
        while index < stop and items[index].is_mark("^", "!"):
            index += 1
        if index < stop:
            index = node_end(tokens, index, stop)
        while index < stop and items[index].is_mark("*", "+", "?"):
            index += 1
        if index >= stop or not items[index].is_mark("/", "|"):
            break
        index += 1
    return index


def bound_variables(elements: Iterable[Element]) -> frozenset[str]:
    """What every solution of a join of these elements binds."""
    return frozenset().union(*(element.always for element in elements))


def everything(elements: Iterable[Element]) -> frozenset[str]:
    """Every variable that stands anywhere in these elements, shown or not."""
    return frozenset().union(*(inner.variables for outer in elements for inner in outer.walk()))


def _outside(tokens: Iterable[Token]) -> Iterator[Token]:
    """Those that are in no parentheses."""
    depth = 0
    for token in tokens:
        depth += token.is_mark("(") - token.is_mark(")")
        if not depth and not token.is_mark(")"):
            yield token
