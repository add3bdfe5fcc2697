"""The recursive reader from tokens to the syntax tree; whatever begins no block is read as triple patterns."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from freshkeeper.maintenance.query.syntax import tree as syntax
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE, Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.source_text import SourceText, Span
from freshkeeper.maintenance.query.syntax.tokens import tokenize
from freshkeeper.maintenance.query.syntax.triples import node_end, statements

BLOCKS: dict[str, type[syntax.Element]] = {
    "OPTIONAL": syntax.Optional,
    "MINUS": syntax.Minus,
    "GRAPH": syntax.GraphBlock,
    "WINDOW": syntax.WindowBlock,
    "SERVICE": syntax.ServiceBlock,
    "FILTER": syntax.Filter,
    "BIND": syntax.Bind,
    "VALUES": syntax.Values,
    "LATERAL": syntax.Lateral,
}
"""Words that begin a block of a group."""


def read_query(source: SourceText, opening: int | None = None) -> syntax.Select:
    """Return the tree of a query whose group opens at a token, by default the first group of SPARQL text."""
    reader = _Reader(source)
    stop = len(source.items) - 1
    if opening is None:
        opening = reader.pattern(stop)
    return reader.select(0, opening, stop)


def read_sparql(text: str) -> syntax.Select:
    """Return the tree of SPARQL text."""
    tokens = tokenize(text)
    return read_query(SourceText(tokens, read_prologue(Cursor(tokens), Prologue(), DEFAULT_BASE)))


@dataclass(frozen=True)
class _Reader:
    source: SourceText

    def pattern(self, stop: int) -> int:
        """Return the token that opens the group of SPARQL text; a template and expressions may come before it."""
        index = self._opening(0, stop)
        if 0 < index < stop and self.source.items[index - 1].is_word("CONSTRUCT"):
            return self._opening(self._behind(index), stop)  # the first group is the template
        return index

    def group(self, opening: int) -> Iterator[syntax.Element]:
        """Yield the elements of the group that opens at a token."""
        index = opening + 1
        stop = self.source.tokens.closing[opening]
        while index < stop:
            token = self.source.items[index]
            if token.is_word("SELECT"):
                yield self.select(index, self._opening(index, stop), stop)
                return
            if token.is_mark("."):
                index += 1
            elif token.is_mark("{"):
                element = self._alternatives(index, stop)
                yield element
                index = element.stop
            elif token.is_word(*BLOCKS):
                element = self._block(index, stop)
                yield element
                index = element.stop
            else:
                index = yield from self._triples(index, stop)

    def _alternatives(self, first: int, stop: int) -> syntax.Element:
        """Read a group, or several with UNION between them."""
        index = first
        parts = []
        while index < stop and self.source.items[index].is_mark("{"):
            parts.append(tuple(self.group(index)))
            end = index = self._behind(index)
            index += self.source.items[index].is_word("UNION")
            if index == end:
                break
        if len(parts) > 1:
            return syntax.Union(self.source, first, end, tuple(parts))
        return syntax.GroupBlock(self.source, first, end, tuple(parts))

    def _block(self, first: int, stop: int) -> syntax.Element:
        """Read a keyword and its operands, up to the end of the first bracket that holds a body."""
        block = BLOCKS[self.source.items[first].text.upper()]
        opening = self._opening(first, stop, "(", "{")
        if block is syntax.Values and opening < stop and self.source.items[opening].is_mark("("):
            opening = self._behind(opening)  # VALUES (?a ?b) { ... }: the body is behind the variables
        end = stop
        if opening < stop:
            end = self._behind(opening)
        if block is syntax.Values:
            return block(self.source, first, end)
        return block(self.source, first, end, self._groups(opening, end))

    def select(self, first: int, opening: int, stop: int) -> syntax.Select:
        """Read a query or a sub-query."""
        end = stop
        parts: tuple[tuple[syntax.Element, ...], ...] = ()
        if opening < stop:
            end = self._behind(opening)
            parts = (tuple(self.group(opening)),)
        expressions = self._groups(end, stop)
        if self.source.items[first].is_word("SELECT"):  # only SELECT computes columns, which may contain EXISTS
            expressions = (*self._groups(first, opening), *expressions)
        return syntax.Select(self.source, first, stop, parts, opening=opening, expressions=expressions)

    def _behind(self, opening: int) -> int:
        return self.source.tokens.closing[opening] + 1

    def _opening(self, index: int, stop: int, *brackets: str) -> int:
        """Return the first of these brackets, by default the first brace outside parentheses."""
        marks = brackets or ("{",)
        while index < stop and not self.source.items[index].is_mark(*marks):
            index = self.source.tokens.closing.get(index, index) + 1
        return index

    def _groups(self, index: int, stop: int) -> tuple[tuple[syntax.Element, ...], ...]:
        """Return the groups of a block: its own, or those of EXISTS inside its expressions."""
        found = []
        while index < stop:
            if self.source.items[index].is_mark("{"):
                found.append(tuple(self.group(index)))
                index = self.source.tokens.closing[index]
            index += 1
        return tuple(found)

    def _triples(self, first: int, stop: int) -> Generator[syntax.Element, None, int]:
        """Yield the triple patterns of one subject and return their end.

        A bracketed subject keeps all its triples together, in one element.
        """
        tokens = self.source.tokens
        subject = first, node_end(tokens, first, stop)
        end = self._sentence(subject[1], stop)
        pairs = list(statements(tokens, subject[1], end))
        if pairs and not self.source.items[first].is_mark("[", "(", "<<"):
            for verb, value in pairs:
                yield syntax.TriplePattern(self.source, first, value[1], (), (subject, verb, value))
            return end
        spans: tuple[Span, ...] = (subject,)
        if end > subject[1]:
            spans = (subject, (subject[1], end))
        yield syntax.TriplePattern(self.source, first, end, (), spans)
        return end

    def _sentence(self, index: int, stop: int) -> int:
        """Return the end of the triples of one subject: a full stop, or the keyword or group that follows."""
        while index < stop:
            token = self.source.items[index]
            if token.is_mark(".", "{") or token.is_word(*BLOCKS):
                return index
            index = node_end(self.source.tokens, index, stop)
        return index
