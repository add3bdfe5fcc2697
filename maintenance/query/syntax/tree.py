"""The syntax tree of a query: its groups with their triple patterns and blocks, each at its place in the text.

    Select    a query or sub-query: its columns, its group, and the clauses behind it
    GroupBlock    { ... }, Union { ... } UNION { ... }, Optional, Minus, Lateral, ServiceBlock, GraphBlock, WindowBlock
    Filter, Bind, Values
    TriplePattern    one subject, predicate and object as written; `triples` are those that it stands for

An element is a span of tokens with elements inside. Expressions are spans too: only their variables and the groups of
their EXISTS are read. Nothing here reports an error, because trees are read from text that SPARQL has accepted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from pyoxigraph import NamedNode

from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.source_text import RDF, Path, Quoted, SourceText, Span, Triple, names_in
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, Tokens
from freshkeeper.maintenance.query.syntax.triples import SentenceExpansion

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")
CLAUSES = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")
"""Words that begin a clause behind a group."""


@dataclass(frozen=True, eq=False)
class Element:
    """The part of a query at the tokens from `first` up to `stop`, with the groups inside it."""

    source: SourceText = field(repr=False)
    first: int
    stop: int
    parts: tuple[tuple["Element", ...], ...] = ()

    @property
    def items(self) -> tuple[Token, ...]:
        """Every token of the element, those of its parts included."""
        return self.source.items[self.first : self.stop]

    @property
    def start(self) -> int:
        """The offset in the text at which the element begins."""
        return self.source.items[self.first].start

    @property
    def end(self) -> int:
        """The offset in the text at which the element ends."""
        return self.source.items[self.stop - 1].end

    @property
    def text(self) -> str:
        """The element as written."""
        return self.source.text(self.first, self.stop)

    def edited(self, edits: Iterable[Edit]) -> str:
        """Return the element as written, with the edits inside it applied."""
        weaver = Weaver(self.source.tokens.text)
        weaver.copy(self.start, self.end, list(edits))
        return weaver.finish().text

    @property
    def flat(self) -> str:
        """The element on one line, without comments."""
        return self.flat_with(())

    def flat_with(self, edits: Iterable[Edit]) -> str:
        """Return the element on one line, with the edits inside it applied."""
        edit_at = {edit.start: edit for edit in edits}
        texts = []
        after = 0  # where the last edit ends: tokens before it are replaced
        items = self.items
        for item, following in zip(items, (*items[1:], items[-1]), strict=True):
            edit = edit_at.get(item.start)
            # tokens inside an edit are part of its new text
            if item.start >= after:
                texts.append(edit.new if edit else item.text)
                if following.start > item.end:
                    texts.append(" ")
            if edit:
                after = edit.end
        return "".join(texts)

    @property
    def inner(self) -> tuple["Element", ...]:
        """The elements of the groups inside this one."""
        return tuple(element for part in self.parts for element in part)

    def walk(self) -> Iterator["Element"]:
        """Yield this element and all inside it, in the order of the text."""
        yield self
        for element in self.inner:
            yield from element.walk()

    def deep(self) -> Iterator["Element"]:
        """Yield what `walk` does, and the elements of EXISTS in the columns and clauses of queries."""
        yield self
        for element in self.inner:
            yield from element.deep()

    def over(self, source: SourceText) -> Self:
        """Return the same element over a source with other names."""
        parts = tuple(_over(part, source) for part in self.parts)
        return replace(self, source=source, parts=parts)

    @property
    def own_variables(self) -> frozenset[str]:
        """Variables that the element mentions itself, outside the elements inside it."""
        return frozenset()

    @cached_property
    def variables(self) -> frozenset[str]:
        """Every variable that the element mentions, blank nodes included."""
        return self.own_variables.union(*(e.variables for e in self.inner))

    @cached_property
    def bound(self) -> frozenset[str]:
        """Variables that the element can bind."""
        return self.own_variables.union(*(e.bound for e in self.inner))

    @cached_property
    def always(self) -> frozenset[str]:
        """Variables that every solution of the element binds."""
        return frozenset()

    @cached_property
    def predicates(self) -> frozenset[str]:
        """The IRIs in predicate position, those in paths and nested groups included."""
        return frozenset().union(*(e.predicates for e in self.inner))

    @property
    def has_service(self) -> bool:
        """True if a SERVICE stands in the element."""
        return any(isinstance(e, ServiceBlock) for e in self.walk())


def _over(elements: Iterable[Element], source: SourceText) -> tuple[Element, ...]:
    return tuple(element.over(source) for element in elements)


class GroupBlock(Element):
    """A group inside a group."""

    @cached_property
    def always(self) -> frozenset[str]:
        return self.own_variables | bound_variables(self.inner)


class _NamedBlock(Element):
    """A block whose keyword is followed by a name."""

    @property
    def name(self) -> Token:
        """The name of the block: an IRI, a prefixed name or a variable."""
        return self.items[1]

    @property
    def own_variables(self) -> frozenset[str]:
        """The name of the block, if it is a variable."""
        return names_in([self.name])

    @property
    def iri(self) -> str | None:
        """The IRI of the block's name, or None for a variable."""
        if self.name.kind is TokenKind.VAR:
            return None
        return self.source.resolve(self.name)


class GraphBlock(_NamedBlock, GroupBlock):
    """GRAPH: patterns over one graph, or over each if the name is a variable."""


class WindowBlock(GraphBlock):
    """WINDOW: patterns over one window, or over each if the name is a variable."""


class ServiceBlock(_NamedBlock):
    """SERVICE: a pattern that another source evaluates."""

    @property
    def silent(self) -> bool:
        """True if a failure counts as one solution that binds nothing."""
        return self.items[1].is_word("SILENT")

    @property
    def name(self) -> Token:
        """The endpoint's token, an IRI or a variable."""
        return self.items[1 + self.silent]  # SERVICE SILENT <iri>

    @property
    def group(self) -> GroupBlock:
        """The pattern of the block, with its brackets."""
        return GroupBlock(self.source, self.first + 2 + self.silent, self.stop, self.parts)


class Union(Element):
    """Groups with UNION between them."""

    @cached_property
    def always(self) -> frozenset[str]:
        return frozenset.intersection(*map(bound_variables, self.parts))


class Optional(Element):
    """OPTIONAL: solutions may lack the variables that it binds."""


class Lateral(Element):
    """LATERAL: evaluated for each solution before it."""


class _Closed(Element):
    """An element that binds nothing outside."""

    @cached_property
    def bound(self) -> frozenset[str]:
        return frozenset()


class Minus(_Closed):
    """MINUS: removes solutions, and binds nothing."""


class Filter(_Closed):
    """FILTER; its groups are those of EXISTS."""

    @property
    def own_variables(self) -> frozenset[str]:
        return names_in(self.items)


class Bind(Element):
    """BIND; its groups are those of EXISTS."""

    @property
    def own_variables(self) -> frozenset[str]:
        return names_in(self.items)

    @cached_property
    def bound(self) -> frozenset[str]:
        """The variable behind AS."""
        return names_in(self.items[-2:])  # BIND( ... AS ?name )

    @property
    def inputs(self) -> frozenset[str]:
        """Variables that the expression reads."""
        return all_variables([self]) - self.bound


class Values(Element):
    """VALUES: a table in the text; UNDEF leaves a variable unbound."""

    @property
    def own_variables(self) -> frozenset[str]:
        return names_in(self.items)

    @cached_property
    def always(self) -> frozenset[str]:
        if any(t.is_word("UNDEF") for t in self.items):
            return frozenset()
        return self.own_variables


@dataclass(frozen=True, eq=False)
class TriplePattern(Element):
    """A subject, predicate and object as written; with a bracketed subject, the subject and all that follows."""

    spans: tuple[Span, ...] = ()

    @property
    def text(self) -> str:
        """The triple as written out in full, even if it shares subject or predicate with others."""
        return " ".join(self.source.text(*span) for span in self.spans)

    def edited(self, edits: Iterable[Edit]) -> str:
        del edits  # a triple pattern has no blocks inside that could be replaced
        return self.text

    @property
    def items(self) -> tuple[Token, ...]:
        """The tokens of all spans, as if they stood together."""
        return tuple(item for span in self.spans for item in self.source.items[slice(*span)])

    @property
    def own_variables(self) -> frozenset[str]:
        return names_in(self.items)

    @cached_property
    def always(self) -> frozenset[str]:
        return self.own_variables

    @cached_property
    def triples(self) -> tuple[Triple, ...]:
        """The triples that it stands for: itself, and those of its nested nodes and collections."""
        expansion = SentenceExpansion(self.source)
        subject = expansion.node(*self.spans[0])
        if len(self.spans) == 3:
            expansion.add(subject, self.spans[1], self.spans[2])
        elif len(self.spans) == 2:
            expansion.properties(subject, *self.spans[1])
        return tuple(expansion.triples)

    @property
    def of_terms(self) -> bool:
        """True if it says no more than triples of variables, names and literals: no path, triple term or annotation."""
        parts = (Path, Quoted)
        return bool(self.triples) and not any(isinstance(term, parts) for triple in self.triples for term in triple)

    @property
    def alone(self) -> bool:
        """True if it shares neither subject nor predicate with another pattern."""
        return len(self.items) == self.stop - self.first and not self.source.items[self.stop].is_mark(";", ",")

    @property
    def plain(self) -> Triple | None:
        """The triple, if there is only one and its terms have no parts; else None."""
        if len(self.triples) != 1 or len(self.spans) != 3:
            return None
        triple = self.triples[0]
        if any(isinstance(term, Path | Quoted) or str(term).startswith("_:[") for term in triple):
            return None
        return triple

    @cached_property
    def predicates(self) -> frozenset[str]:
        found = set[str]()
        for triple in self.triples:
            if isinstance(triple[1], NamedNode):
                found.add(triple[1].value)
            for term in triple:
                if isinstance(term, Path):
                    found |= term.predicates
                elif isinstance(term, Quoted):
                    found |= term.iris
        # collections are written with brackets: their predicates are none of the query's
        return frozenset(found - {f"{RDF}first", f"{RDF}rest"})

    @property
    def path(self) -> bool:
        """True if the predicate is a property path."""
        return len(self.spans) == 3 and self.spans[1][1] - self.spans[1][0] > 1


@dataclass(frozen=True, eq=False)
class Select(Element):
    """A query or a sub-query: its head, its group, and the clauses behind the group."""

    opening: int = 0
    """the token that opens the group; `stop` if there is none"""
    expressions: tuple[tuple[Element, ...], ...] = ()
    """the groups of EXISTS in columns and clauses"""

    def deep(self) -> Iterator[Element]:
        yield from super().deep()
        for element in (e for group in self.expressions for e in group):
            yield from element.deep()

    @property
    def head(self) -> tuple[Token, ...]:
        """The tokens before the group."""
        return self.source.items[self.first : self.opening]

    @cached_property
    def tail(self) -> tuple[Token, ...]:
        """The clauses behind the group."""
        return self.source.items[self.source.tokens.closing.get(self.opening, self.opening - 1) + 1 : self.stop]

    @cached_property
    def columns(self) -> dict[str, tuple[Token, ...]]:
        """Columns by name, with the expressions of those that are computed."""
        return dict(columns(self.source.tokens, self.first, self.opening))

    @property
    def distinct(self) -> Token | None:
        """The word DISTINCT or REDUCED, if there is one."""
        return next((t for t in self.head[1:2] if t.is_word("DISTINCT", "REDUCED")), None)

    @property
    def star(self) -> bool:
        """True if the query is a SELECT *."""
        return self.head[1 + (self.distinct is not None)].is_mark("*")  # SELECT [DISTINCT] *

    def has(self, *clauses: str) -> bool:
        """Return whether one of these clauses stands behind the group."""
        return any(t.is_word(*clauses) for t in self.tail)

    @cached_property
    def aggregated(self) -> bool:
        """True if the solutions are groups."""
        return self.has("GROUP", "HAVING") or any(t.is_word(*AGGREGATES) for t in (*self.head, *self.tail))

    @cached_property
    def grouped(self) -> frozenset[str]:
        """The variables that GROUP BY names as they are, not inside an expression."""
        found = list[Token]()
        in_clause = False
        for token in _outside_parentheses(self.tail):
            in_clause = token.is_word("GROUP") or (in_clause and not token.is_word(*CLAUSES))
            if in_clause:
                found.append(token)
        return names_in(found)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The columns: variables inside that are no columns do not exist outside."""
        return frozenset(self.columns).union(*(e.bound for e in self.inner if self.star))

    @cached_property
    def bound(self) -> frozenset[str]:
        return self.variables

    @cached_property
    def always(self) -> frozenset[str]:
        return self.bound & bound_variables(self.inner)

    @cached_property
    def passing(self) -> frozenset[str]:
        """Columns whose values may restrict the solutions inside without changing the other columns.

        These are variables shown as they are; in a query with groups, those that it groups by; none with LIMIT or
        OFFSET.
        """
        if self.has("LIMIT", "OFFSET"):
            return frozenset()
        columns = self.bound
        if not self.star:
            columns = frozenset(name for name, expression in self.columns.items() if not expression)
        if self.aggregated:
            return columns & self.grouped
        return columns


def columns(tokens: Tokens, first: int, stop: int) -> Iterator[tuple[str, tuple[Token, ...]]]:
    """Yield the columns between SELECT and the group, with the expressions of those that are computed."""
    index = first
    while index < stop:
        token, close = tokens.items[index], tokens.closing.get(index, index)
        if token.kind is TokenKind.VAR:
            yield token.text[1:], ()
        elif close - 2 > index and tokens.items[close - 2].is_word("AS"):  # ( ... AS ?name )
            yield tokens.items[close - 1].text[1:], tokens.items[index + 1 : close - 2]
        index = close + 1


def group_names(tokens: Tokens, first: int) -> list[str]:
    """Return the variables of groups: those that GROUP BY names as they are, or gives a name to."""
    stop = len(tokens.items)
    start = next((n for n in range(first, stop) if tokens.items[n].is_word("GROUP")), stop)
    end = next((n for n in range(start + 1, stop) if tokens.items[n].is_word(*CLAUSES)), stop)
    return [name for name, _ in columns(tokens, start, end)]


def bound_variables(elements: Iterable[Element]) -> frozenset[str]:
    """Return the variables that every solution of a join of these elements binds."""
    return frozenset().union(*(element.always for element in elements))


def all_variables(elements: Iterable[Element]) -> frozenset[str]:
    """Return every variable that stands anywhere in these elements, also below a column list that hides it."""
    return frozenset().union(*(inner.variables for outer in elements for inner in outer.walk()))


def _outside_parentheses(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens outside parentheses."""
    depth = 0
    for token in tokens:
        depth += token.is_mark("(") - token.is_mark(")")
        if not depth and not token.is_mark(")"):
            yield token
