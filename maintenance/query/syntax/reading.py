"""Tokens to the syntax tree: one recursive reader; what it does not know it takes for a triple pattern."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from freshkeeper.maintenance.query.syntax.tree import (
    Bind,
    Element,
    Filter,
    Graph,
    Group,
    Lateral,
    Minus,
    Optional,
    Select,
    Service,
    Source,
    TriplePattern,
    Union,
    Values,
    WindowBlock,
    node_end,
    statements,
)

BLOCKS: dict[str, type[Element]] = {
    "OPTIONAL": Optional,
    "MINUS": Minus,
    "GRAPH": Graph,
    "WINDOW": WindowBlock,
    "SERVICE": Service,
    "FILTER": Filter,
    "BIND": Bind,
    "VALUES": Values,
    "LATERAL": Lateral,
}
"""The words that begin a block of a group."""


def read_query(source: Source, opening: int | None = None) -> Select:
    """The tree of a query whose group opens at this token; of SPARQL text, where the first one stands."""
    reader, stop = _Reader(source), len(source.items) - 1
    return reader.select(0, reader.pattern(stop) if opening is None else opening, stop)


@dataclass(frozen=True)
class _Reader:
    source: Source

    def pattern(self, stop: int) -> int:
        """The bracket that opens the group of SPARQL text; a template and expressions come before it."""
        index = self._opening(0, stop)
        constructs = index < stop and index > 0 and self.source.items[index - 1].is_word("CONSTRUCT")
        return self._opening(self.source.tokens.closing[index] + 1, stop) if constructs else index

    def group(self, opening: int) -> Iterator[Element]:
        """The elements of the group that opens at a token."""
        index, stop = opening + 1, self.source.tokens.closing[opening]
        while index < stop:
            token = self.source.items[index]
            if token.is_word("SELECT"):
                yield self.select(index, self._opening(index, stop), stop)
                return
            if token.is_mark("."):
                index += 1
            elif token.is_mark("{") or token.is_word(*BLOCKS):
                element = self._alternatives(index, stop) if token.is_mark("{") else self._block(index, stop)
                yield element
                index = element.stop
            else:
                index = yield from self._triples(index, stop)

    def _alternatives(self, first: int, stop: int) -> Element:
        """A group, or several with UNION between them."""
        index, parts = first, []
        while index < stop and self.source.items[index].is_mark("{"):
            parts.append(tuple(self.group(index)))
            end = index = self.source.tokens.closing[index] + 1
            index += self.source.items[index].is_word("UNION")
            if index == end:
                break
        return (Union if len(parts) > 1 else Group)(self.source, first, end, tuple(parts))

    def _block(self, first: int, stop: int) -> Element:
        """A keyword with what belongs to it, up to the end of its first bracket that holds a body."""
        block = BLOCKS[self.source.items[first].text.upper()]
        opening = self._opening(first, stop, "(", "{")
        if block is Values and opening < stop and self.source.items[opening].is_mark("("):
            opening = self.source.tokens.closing[opening] + 1
        end = self.source.tokens.closing[opening] + 1 if opening < stop else stop
        return block(self.source, first, end, () if block is Values else self._groups(opening, end))

    def select(self, first: int, opening: int, stop: int) -> Select:
        """A query or a sub-query."""
        end = self.source.tokens.closing[opening] + 1 if opening < stop else stop
        parts = (tuple(self.group(opening)),) if opening < stop else ()
        chosen = self._groups(first, opening) if self.source.items[first].is_word("SELECT") else ()
        return Select(self.source, first, stop, parts, opening, (*chosen, *self._groups(end, stop)))

    def _opening(self, index: int, stop: int, *brackets: str) -> int:
        """The first of these brackets; by default the first brace that is in no parentheses."""
        marks = brackets or ("{",)
        while index < stop and not self.source.items[index].is_mark(*marks):
            index = self.source.tokens.closing.get(index, index) + 1
        return index

    def _groups(self, index: int, stop: int) -> tuple[tuple[Element, ...], ...]:
        """The groups of a block: its own, or those of the EXISTS inside an expression."""
        found = []
        while index < stop:
            if self.source.items[index].is_mark("{"):
                found.append(tuple(self.group(index)))
                index = self.source.tokens.closing[index]
            index += 1
        return tuple(found)

    def _triples(self, first: int, stop: int) -> Generator[Element, None, int]:
        """The triple patterns of one subject; a bracketed subject keeps all its triples together. Gives their end."""
        tokens = self.source.tokens
        subject = first, node_end(tokens, first, stop)
        end = self._sentence(subject[1], stop)
        found = list(statements(tokens, subject[1], end))
        if self.source.items[first].is_mark("[", "(", "<<") or not found:
            yield TriplePattern(self.source, first, end, (), (subject, (subject[1], end))[: 1 + (end > subject[1])])
        else:
            for verb, value in found:
                yield TriplePattern(self.source, first, value[1], (), (subject, verb, value))
        return end

    def _sentence(self, index: int, stop: int) -> int:
        """The end of the triples of one subject: the full stop, or the keyword or group that follows."""
        while index < stop:
            token = self.source.items[index]
            if token.is_mark(".", "{") or token.is_word(*BLOCKS):
                return index
            index = node_end(self.source.tokens, index, stop)
        return index
