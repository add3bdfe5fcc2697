"""Window mappings: what the windows give a SERVICE pattern to join with, and until when.

The window part of a query is what stands around a SERVICE block and joins with it: its solutions are the mappings, and
each stays as long as the oldest of the elements it was made of. Elements are found by filling in the triple patterns of
WINDOW blocks; what cannot be filled in (a path, a bracketed node) does not count.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyoxigraph import NamedNode, Quad, RdfFormat, parse

from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.sound import sound
from freshkeeper.maintenance.query.syntax.blanks import without_blanks
from freshkeeper.maintenance.query.syntax.patterns import Element, read_group
from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.rewrite import to_sparql
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, tokenize
from freshkeeper.maintenance.rsp.evaluator import Evaluator, Function, Row, Table, Term
from freshkeeper.maintenance.rsp.functions import time_of
from freshkeeper.maintenance.rsp.r2s import Freshness
from freshkeeper.maintenance.rsp.window_content import FOREVER, Content

Position: TypeAlias = str | Term
"""A variable's name, or a term."""
UNBOUND: Row = ()
"""In place of the SN of a mapping that lacks one."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """A triple pattern and the windows that it asks."""

    terms: tuple[Position, Position, Position]
    contents: tuple[Content, ...]

    def expiry(self, bound: Mapping[str, Term]) -> int:
        """When the element that this solution is made of is over; an older window than asked does not count."""
        terms = [bound.get(term) if isinstance(term, str) else term for term in self.terms]
        found = [c.expiry(at) for c in self.contents if (at := time_of(c, *terms)) is not None]
        return max(found, default=FOREVER)


@dataclass(frozen=True)
class WindowMapping:
    """One window mapping: all that it binds, the values that join, and the first instant without it."""

    identity: Row
    sn: Row
    expiry: int


@dataclass(frozen=True, eq=False)
class Mappings:
    """Those of one instant."""

    joined: Sequence[WindowMapping]
    unbound: bool = False
    """whether some lack a value to join with: they would join all that the source has, which nobody asks it for"""

    @property
    def lacking(self) -> dict[Row, Freshness]:
        """How sure it is that those have all their solutions, as `ServiceRows.complete` has it."""
        return {UNBOUND: Freshness(0.0)} if self.unbound else {}


@dataclass(frozen=True, eq=False)
class WindowPart:
    """The query that finds the mappings of one SERVICE pattern."""

    sparql: str
    patterns: tuple[Pattern, ...]
    sn: tuple[str, ...]

    @classmethod
    def of(cls, query: Query, service: int, sn: Sequence[str], contents: Sequence[Content]) -> "WindowPart":
        """For the SERVICE pattern of this number, joined by these variables."""
        prologue = query.expression.prologue
        text = without_blanks(query.around(service).text)
        names = [window.name for window in query.dataset.named_windows]
        sparql = sound(to_sparql(prologue, "SELECT *", tokenize(text), "", names).text)
        elements = read_group(tokenize(text), prologue)
        return cls(sparql, tuple(_patterns(elements, contents, prologue)), tuple(sn))

    def read(self, evaluator: Evaluator, functions: Mapping[str, Function]) -> "Mappings":
        """The mappings of this instant."""
        table = evaluator.find(self.sparql, functions)
        assert isinstance(table, Table)
        if not set(self.sn) <= set(table.variables):
            return Mappings([], bool(table.rows))
        places = [table.variables.index(name) for name in self.sn]
        seen: dict[Row, int] = {}
        found, unbound = [], False
        for row in table.rows:
            sn = tuple(row[n] for n in places)
            if None in sn:
                unbound = True
                continue
            copy = seen[row] = seen.get(row, 0) + 1
            bound = {name: term for name, term in zip(table.variables, row, strict=True) if term is not None}
            expiry = min((pattern.expiry(bound) for pattern in self.patterns), default=FOREVER)
            found.append(WindowMapping(row if copy == 1 else (*row, *[None] * copy), sn, expiry))
        return Mappings(found, unbound)


def _patterns(
    elements: Sequence[Element],
    contents: Sequence[Content],
    prologue: Prologue,
    asked: tuple[Content, ...] | None = None,
) -> Iterator[Pattern]:
    """The triple patterns over windows; those outside WINDOW ask the merged windows."""
    merged = tuple(c for c in contents if not c.window.named)
    for element in elements:
        if element.kind == "TRIPLE":
            terms = _terms(element, prologue)
            if terms is not None and (asked or merged):
                yield Pattern(terms, merged if asked is None else asked)
        elif element.kind not in ("GRAPH", "MINUS", "FILTER", "SERVICE"):
            inner = _asked(element, contents, prologue) if element.kind == "WINDOW" else asked
            for part in element.parts:
                yield from _patterns(part, contents, prologue, inner)


def _asked(element: Element, contents: Sequence[Content], prologue: Prologue) -> tuple[Content, ...]:
    assert element.name is not None
    if element.name.kind is Kind.VAR:
        return tuple(c for c in contents if c.window.named)
    name = prologue.resolve(element.name.text)
    return tuple(c for c in contents if c.window.named and c.window.name == name)


def _terms(element: Element, prologue: Prologue) -> tuple[Position, Position, Position] | None:
    """Subject, predicate and object, where each is one term."""
    if element.path:
        return None
    found: list[Position | None] = []
    group: list[Token] = []
    for token in tokenize(element.text).items[:-1]:
        if group and not _continues(group[-1], token):
            found.append(_term(group, prologue))
            group = []
        group.append(token)
    found.append(_term(group, prologue))
    known = [term for term in found if term is not None]
    return (known[0], known[1], known[2]) if len(found) == len(known) == 3 else None


def _continues(before: Token, token: Token) -> bool:
    """Whether a token belongs to the literal before it, or to its sign."""
    return token.kind is Kind.LANG or token.is_mark("^^") or before.is_mark("^^", "+", "-")


def _term(tokens: list[Token], prologue: Prologue) -> Position | None:
    first = tokens[0]
    if first.kind is Kind.VAR:
        return first.text[1:]
    if first.is_word("A"):
        return NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
    if first.is_name:
        return NamedNode(prologue.resolve(first.text))
    turtle = f"{prologue.text}<a:a> <a:a> {''.join(token.text for token in tokens)} ."
    try:
        found: list[Quad] = list(parse(turtle, format=RdfFormat.TURTLE))
    except SyntaxError:
        return None
    return found[0].object if len(found) == 1 else None
