"""RSP-QL to SPARQL 1.1: WINDOW <w> becomes GRAPH <w>; nothing else of the text changes.

`WINDOW ?w` ranges over the named windows, `GRAPH ?g` over the named graphs: both are graphs of one dataset at
evaluation time, and an RSP-QL dataset keeps them apart (SDS of RSP-QL: (u_i, G_i) and (w_j, W_j)).
"""

import re
from collections.abc import Iterator, Sequence

from freshkeeper.maintenance.query.syntax.prologue import Prologue
from freshkeeper.maintenance.query.syntax.source_map import Edit, SourceMap, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, Tokens, tokenize

_AGGREGATED = re.compile(
    r"\b(COUNT|SUM|MIN|MAX|AVG|SAMPLE|GROUP_CONCAT)\s*\(.*\bAS\b.*\bAS\b", re.IGNORECASE | re.DOTALL
)
LONGEST_ALIAS = 2_000
"""Names that stand for names that stand for names: what grows longer than this is left to SPARQL to refuse."""
CHANGEFUL = ("RAND", "UUID", "STRUUID", "BNODE")


def to_sparql(prologue: Prologue, head: str, pattern: Tokens, tail: str, windows: Sequence[str]) -> SourceMap:
    """The SPARQL text, traced to the concatenation head + pattern + tail; `windows` are the named windows' IRIs."""
    where = pattern.text
    weaver = Weaver(head + where + tail)
    weaver.add(prologue.text, 0)
    weaver.copy(0, len(head), _alias_edits(head))
    if where:
        weaver.add("\nWHERE ", len(head))
        edits = [e._replace(start=e.start + len(head), end=e.end + len(head)) for e in _edits(pattern, windows)]
        weaver.copy(len(head), len(head) + len(where), edits)
    if tail:
        weaver.add("\n", len(head) + len(where))
        weaver.copy(len(head) + len(where), len(weaver.source))
    return weaver.done()


def _alias_edits(head: str) -> list[Edit]:
    """Names set by an earlier `(... AS ?n)` of a SELECT with aggregates, replaced by what they stand for.

    Jena and with it RSP4J take `(COUNT(?r) AS ?n) (?n > 5 AS ?many)`; pyoxigraph takes such a name only where nothing
    is aggregated. Calls that answer differently each time are left alone.
    """
    if not _AGGREGATED.search(head):
        return []
    tokens = tokenize(head)
    edits: list[Edit] = []
    meaning: dict[str, str] = {}
    index = 0
    while index < len(tokens.items):
        close = tokens.closing.get(index, index)
        inside = tokens.items[index + 1 : close - 2]
        if inside and tokens.items[close - 2].is_word("AS"):
            own = [
                Edit(t.start, t.end, meaning[t.text[1:]])
                for t in inside
                if t.kind is Kind.VAR and t.text[1:] in meaning
            ]
            if sum(len(edit.new) for edit in own) > LONGEST_ALIAS:
                break
            edits += own
            if not any(t.is_word(*CHANGEFUL) for t in inside):
                meaning[tokens.items[close - 1].text[1:]] = f"({_applied(head, inside, own)})"
        index = close + 1
    return edits


def _applied(text: str, tokens: Sequence[Token], edits: list[Edit]) -> str:
    """The text of these tokens with the edits made."""
    weaver = Weaver(text)
    weaver.copy(tokens[0].start, tokens[-1].end, edits)
    return weaver.done().text


def _edits(tokens: Tokens, windows: Sequence[str]) -> list[Edit]:
    listed = " ".join(f"<{name}>" for name in windows)
    edits: list[Edit] = []
    for block in blocks(tokens):
        edits += _block_edits(tokens, block, listed)
    return sorted(edits)


def _block_edits(tokens: Tokens, index: int, windows: str) -> Iterator[Edit]:
    word, name = tokens.items[index : index + 2]
    close = tokens.items[tokens.closing[index + 2]].end
    free = name.kind is Kind.VAR
    if word.is_word("WINDOW"):
        opening = f"{{ VALUES {name.text} {{ {windows} }} GRAPH" if free else "GRAPH"
        yield Edit(word.start, word.end, opening)
        if free:
            yield Edit(close, close, " }")
    elif free and windows:
        yield Edit(word.start, word.start, "{ ")
        yield Edit(close, close, f" FILTER({name.text} NOT IN ({windows.replace(' ', ', ')})) }}")


def blocks(tokens: Tokens) -> Iterator[int]:
    """The indexes of WINDOW and GRAPH keywords that open a block here; what is inside SERVICE belongs to the source."""
    index = 0
    while index < len(tokens.items):
        token = tokens.items[index]
        if token.is_word("SERVICE"):
            index = service_end(tokens, index)
        elif token.is_word("WINDOW", "GRAPH") and opens_block(tokens, index):
            yield index
        index += 1


def opens_block(tokens: Tokens, index: int) -> bool:
    """Whether a keyword is followed by a name or variable and a group."""
    following = tokens.items[index + 1 : index + 3]
    return len(following) == 2 and _names(following[0]) and following[1].is_mark("{")


def service_end(tokens: Tokens, index: int) -> int:
    """The index of the bracket that closes a SERVICE block, or `index` where no block follows."""
    start = index + 2 if tokens.items[min(index + 1, len(tokens.items) - 1)].is_word("SILENT") else index + 1
    brace = start + 1
    if brace < len(tokens.items) and _names(tokens.items[start]) and tokens.items[brace].is_mark("{"):
        return tokens.closing[brace]
    return index


def _names(token: Token) -> bool:
    return token.is_name or token.kind is Kind.VAR
