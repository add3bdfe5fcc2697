"""Triples in the text of a query: where terms and paths end, and the triples for which a sentence stands."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, parse

from freshkeeper.maintenance.query.syntax.source_text import RDF, Path, Position, Quoted, SourceText, Span, Triple
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, Tokens


@dataclass(eq=False)
class SentenceExpansion:
    """The expansion of a sentence into triples, bracketed nodes and collections included."""

    source: SourceText
    triples: list[Triple] = field(default_factory=list)

    def properties(self, subject: Position, first: int, stop: int) -> None:
        """Add the triples of `p o, o ; p o`."""
        for verb, value in statements(self.source.tokens, first, stop):
            self.add(subject, verb, value)

    def add(self, subject: Position, verb: Span, value: Span) -> None:
        """Add a triple, and those of its object behind it."""
        at = len(self.triples)  # a triple stands before those of its object, as in the text
        self.triples.insert(at, (subject, self._predicate(*verb), self.node(*value)))

    def node(self, first: int, stop: int) -> Position:
        """Return the term that stands for a node, whose own triples are added."""
        token = self.source.items[first]
        if node_end(self.source.tokens, first, stop) < stop:  # an annotation follows, which says more than one triple
            return Quoted(*self.source.in_full(first, stop, " "))
        if token.is_mark("["):
            name = _node_name(token)
            self.properties(name, first + 1, stop - 1)
            return name
        if token.is_mark("("):
            return self._collection(first + 1, stop - 1)
        if token.kind is TokenKind.VAR:
            return token.text[1:]
        if token.kind is TokenKind.BLANK:
            return token.text
        if token.is_name:
            return NamedNode(self.source.resolve(token))
        return self._literal(first, stop)

    def _predicate(self, first: int, stop: int) -> Position:
        token = self.source.items[first]
        iri = self.source.iri(token)
        if stop - first > 1 or (iri is None and token.kind is not TokenKind.VAR):
            return Path(*self.source.in_full(first, stop))
        if iri is None:
            return token.text[1:]
        return NamedNode(iri)

    def _collection(self, first: int, stop: int) -> Position:
        """Add the cells of a collection, linked by rdf:first and rdf:rest, and return the first."""
        nil = NamedNode(f"{RDF}nil")
        head: Position | None = None
        last: Position = nil
        while first < stop:
            cell = _node_name(self.source.items[first], "(")
            if head is None:
                head = cell
            else:
                self.triples.append((last, NamedNode(f"{RDF}rest"), cell))
            end = node_end(self.source.tokens, first, stop)
            self.triples.append((cell, NamedNode(f"{RDF}first"), self.node(first, end)))
            first = end
            last = cell
        if head is None:
            return nil
        self.triples.append((last, NamedNode(f"{RDF}rest"), nil))
        return head

    def _literal(self, first: int, stop: int) -> Position:
        """Return a literal, or a quoted triple if the text is not a literal."""
        text, _ = self.source.in_full(first, stop)
        quads: list[Quad] = []
        with suppress(SyntaxError):
            quads = list(parse(f"<a:a> <a:a> {text} .", format=RdfFormat.TURTLE))
        if len(quads) == 1 and isinstance(quads[0].object, Literal):
            return quads[0].object
        return Quoted(*self.source.in_full(first, stop, " "))


def _node_name(token: Token, mark: str = "[") -> str:
    """Return a name for a node that has none in the text."""
    return f"_:{mark}{token.start}"


def statements(tokens: Tokens, first: int, stop: int) -> Iterator[tuple[Span, Span]]:
    """Yield predicate and object of every triple of one subject."""
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
        end = annotation_end(tokens, node_end(tokens, first, stop), stop)
        yield first, end
        if end >= stop or not tokens.items[end].is_mark(","):
            return
        first = end + 1


def node_end(tokens: Tokens, first: int, stop: int) -> int:
    """Return the end of one term, which may be bracketed, or a literal with its type or language."""
    items = tokens.items
    if items[first].is_mark("<<"):
        return _quoted_end(tokens, first, stop)
    if first in tokens.closing:
        return tokens.closing[first] + 1
    end = first + 1
    if end >= stop:
        return end
    if items[first].kind is TokenKind.STRING:
        if items[end].is_mark("^^"):
            return min(end + 2, stop)
        return end + (items[end].kind is TokenKind.LANG)
    return end


def annotation_end(tokens: Tokens, first: int, stop: int) -> int:
    """Return the end of the reifiers and annotations behind an object: `~ ?r`, `{| :said ?when |}`."""
    items = tokens.items
    while first < stop and items[first].is_mark("~", "{|"):
        if items[first].is_mark("{|"):
            first = tokens.closing[first] + 1
            continue
        first += 1
        if first < stop and not items[first].is_mark("~", "{|", ",", ";", "."):
            first += 1
    return first


def _quoted_end(tokens: Tokens, first: int, stop: int) -> int:
    depth = 0
    for index in range(first, stop):
        depth += tokens.items[index].is_mark("<<") - tokens.items[index].is_mark(">>")
        if depth == 0:
            return index + 1
    return stop


def path_end(tokens: Tokens, index: int, stop: int) -> int:
    """Return the end of a predicate: a variable, a name, or a property path."""
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
