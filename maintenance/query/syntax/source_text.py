"""The text of a query as tokens, with the meaning of its names, and the terms that stand in triples."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from pyoxigraph import Literal, NamedNode

from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.source_map import Weaver
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, Tokens

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
"""A term of a triple: a variable as its name, a blank node as `_:` and its label, or its place if it has none."""
Triple: TypeAlias = tuple[Position, Position, Position]
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, eq=False)
class SourceText:
    """A text as tokens, with the prologue that gives its names their meaning."""

    tokens: Tokens
    prologue: Prologue = field(repr=False)
    _resolved: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def items(self) -> tuple[Token, ...]:
        """Every token of the text."""
        return self.tokens.items

    def resolve(self, token: Token) -> str:
        """Return the IRI of a name."""
        if token.text not in self._resolved:
            try:
                self._resolved[token.text] = self.prologue.resolve(token.text)
            except (KeyError, ValueError):
                self._resolved[token.text] = token.text
        return self._resolved[token.text]

    def text(self, first: int, stop: int) -> str:
        """Return the text from one token up to another one."""
        if stop <= first:
            return ""
        return self.tokens.text[self.items[first].start : self.items[stop - 1].end]

    def iri(self, token: Token) -> str | None:
        """Return the IRI for which a token stands in a triple, or None."""
        if token.is_word("A"):
            return f"{RDF}type"
        if token.is_name:
            return self.resolve(token)
        return None

    def in_full(self, first: int, stop: int, gap: str = "") -> tuple[str, frozenset[str]]:
        """Return the text with its names in full, and the IRIs of these names."""
        texts = []
        iris = set()
        for item in self.items[first:stop]:
            iri = self.iri(item)
            if iri:
                iris.add(iri)
                texts.append(f"<{iri}>")
            else:
                texts.append(item.text)
        return gap.join(texts), frozenset(iris)

    @cached_property
    def without_blanks(self) -> "SourceText":
        """The source with blank node labels as variables, so that a pattern can stand twice and share their values."""
        return self._mapped({t.text: blank_variable(t.text) for t in self.items if t.kind is TokenKind.BLANK})

    def renamed(self, names: Iterable[str], prefix: str) -> "SourceText":
        """Return the source with a prefix before the names of some variables."""
        return self._mapped({f"{sigil}{name}": prefix + name for name in names for sigil in "?$"})

    def _mapped(self, variables: dict[str, str]) -> "SourceText":
        weaver = Weaver(self.tokens.text)
        items = []
        copied = 0
        for token in self.items:
            weaver.copy(copied, token.start)
            start = weaver.length
            kind = token.kind
            text = token.text
            if text in variables:
                kind = TokenKind.VAR
                text = f"?{variables[text]}"
            weaver.add(text, token.start)
            items.append(Token(kind, text, start, weaver.length))
            copied = token.end
        tokens = Tokens(weaver.finish().text, tuple(items), self.tokens.closing)
        return SourceText(tokens, self.prologue, self._resolved)


def blank_variable(label: str) -> str:
    """Return a variable for a label; other characters are spelled out, so that no two labels share a variable."""
    return BLANK + re.sub(r"[\W_]", lambda match: f"_{ord(match[0]):x}_", label[2:])


def names_in(tokens: Iterable[Token]) -> frozenset[str]:
    """Return the variables among tokens, and the labels of blank nodes, which join like variables."""
    names = (
        t.text[1:] if t.kind is TokenKind.VAR else t.text for t in tokens if t.kind in (TokenKind.VAR, TokenKind.BLANK)
    )
    return frozenset(names)
