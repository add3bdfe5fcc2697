"""The rewriting of RSP-QL to SPARQL 1.1: WINDOW <w> becomes GRAPH <w>, and nothing else of the text changes.

`WINDOW ?w` ranges over the named windows, `GRAPH ?g` over the named graphs: both are graphs of one dataset at
evaluation time, and an RSP-QL dataset keeps them apart (SDS of RSP-QL: (u_i, G_i) and (w_j, W_j)).
"""

from collections.abc import Iterator, Sequence

from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, Tokens
from freshkeeper.maintenance.query.syntax.tree import AGGREGATES, columns

LONGEST_ALIAS = 2_000
"""Characters; an expression that grows longer, because its names stand for names, is left to SPARQL to refuse."""
NONDETERMINISTIC = ("RAND", "UUID", "STRUUID", "BNODE")


def alias_edits(tokens: Tokens, stop: int) -> list[Edit]:
    """Return edits that replace names set by an earlier `(... AS ?n)` by their expressions.

    Only a SELECT with aggregates needs it.

    Jena and with it RSP4J accept `(COUNT(?r) AS ?n) (?n > 5 AS ?many)`; pyoxigraph accepts such a name only without
    aggregates. Calls that return something different each time are left alone.
    """
    computed = [(name, expression) for name, expression in columns(tokens, 0, stop) if expression]
    if not any(t.is_word(*AGGREGATES) for _, expression in computed[:-1] for t in expression):
        return []
    edits: list[Edit] = []
    meaning: dict[str, str] = {}
    for name, expression in computed:
        variables = [t for t in expression if t.kind is TokenKind.VAR and t.text[1:] in meaning]
        replacements = [Edit(t.start, t.end, meaning[t.text[1:]]) for t in variables]
        if sum(len(edit.new) for edit in replacements) > LONGEST_ALIAS:
            break
        edits += replacements
        if not any(t.is_word(*NONDETERMINISTIC) for t in expression):
            weaver = Weaver(tokens.text)
            weaver.copy(expression[0].start, expression[-1].end, replacements)
            meaning[name] = f"({weaver.finish().text})"
    return edits


def window_edits(tokens: Tokens, windows: Sequence[str], first: int = 0, stop: int | None = None) -> list[Edit]:
    """Return the edits of the WINDOW and GRAPH blocks between two tokens.

    `windows` are the IRIs of the named windows.
    """
    edits = []
    for index in blocks(tokens, first, stop):
        word, name = tokens.items[index : index + 2]
        opening, closing = block_frame(word, name, windows)
        end = tokens.items[tokens.closing[index + 2]].end
        if opening != word.text:
            edits.append(Edit(word.start, word.end, opening))
        if closing:
            edits.append(Edit(end, end, closing))
    return sorted(edits)


def block_frame(word: Token, name: Token, windows: Sequence[str]) -> tuple[str, str]:
    """Return the SPARQL for the keyword of a WINDOW or GRAPH block, and the text to add behind the block."""
    is_variable = name.kind is TokenKind.VAR
    iris = [f"<{window}>" for window in windows]
    if word.is_word("WINDOW"):
        if is_variable:
            return f"{{ VALUES {name.text} {{ {' '.join(iris)} }} GRAPH", " }"
        return "GRAPH", ""
    if is_variable and iris:
        return "{ GRAPH", f" FILTER({name.text} NOT IN ({', '.join(iris)})) }}"
    return word.text, ""


def blocks(tokens: Tokens, first: int = 0, stop: int | None = None) -> Iterator[int]:
    """Yield the keywords that open a WINDOW or GRAPH block, as token indexes.

    Text inside SERVICE belongs to the source: its blocks are left out.
    """
    index = first
    if stop is None:
        stop = len(tokens.items)
    while index < stop:
        token = tokens.items[index]
        if token.is_word("SERVICE"):
            index = service_end(tokens, index)
        elif token.is_word("WINDOW", "GRAPH") and opens_block(tokens, index):
            yield index
        index += 1


def opens_block(tokens: Tokens, index: int) -> bool:
    """Return whether a keyword is followed by a name or variable and a group."""
    following = tokens.items[index + 1 : index + 3]
    return len(following) == 2 and _names(following[0]) and following[1].is_mark("{")


def service_end(tokens: Tokens, index: int) -> int:
    """Return the token that closes a SERVICE block, or `index` if no block follows."""
    start = min(index + 1, len(tokens.items) - 1)
    if tokens.items[start].is_word("SILENT"):
        start += 1
    brace = start + 1
    if brace < len(tokens.items) and _names(tokens.items[start]) and tokens.items[brace].is_mark("{"):
        return tokens.closing[brace]
    return index


def _names(token: Token) -> bool:
    return token.is_name or token.kind is TokenKind.VAR
