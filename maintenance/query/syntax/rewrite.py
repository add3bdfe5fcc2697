"""RSP-QL to SPARQL 1.1: WINDOW <w> becomes GRAPH <w>; nothing else of the text changes.

`WINDOW ?w` ranges over the named windows, `GRAPH ?g` over the named graphs: both are graphs of one dataset at
evaluation time, and an RSP-QL dataset keeps them apart (SDS of RSP-QL: (u_i, G_i) and (w_j, W_j)).
"""

from collections.abc import Iterator, Sequence

from freshkeeper.maintenance.query.syntax.source_map import Edit, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, Tokens
from freshkeeper.maintenance.query.syntax.tree import AGGREGATES, columns

LONGEST_ALIAS = 2_000
"""Names that stand for names that stand for names: what grows longer than this is left to SPARQL to refuse."""
CHANGEFUL = ("RAND", "UUID", "STRUUID", "BNODE")


def alias_edits(tokens: Tokens, stop: int) -> list[Edit]:
    """Names set by an earlier `(... AS ?n)` of a SELECT with aggregates, replaced by what they stand for.

    Jena and with it RSP4J take `(COUNT(?r) AS ?n) (?n > 5 AS ?many)`; pyoxigraph takes such a name only where nothing
    is aggregated. Calls that answer differently each time are left alone.
    """
    computed = [(name, made) for name, made in columns(tokens, 0, stop) if made]
    if not any(t.is_word(*AGGREGATES) for _, made in computed[:-1] for t in made):
        return []
    edits: list[Edit] = []
    meaning: dict[str, str] = {}
    for name, made in computed:
        own = [Edit(t.start, t.end, meaning[t.text[1:]]) for t in made if t.kind is Kind.VAR and t.text[1:] in meaning]
        if sum(len(edit.new) for edit in own) > LONGEST_ALIAS:
            break
        edits += own
        if not any(t.is_word(*CHANGEFUL) for t in made):
            weaver = Weaver(tokens.text)
            weaver.copy(made[0].start, made[-1].end, own)
            meaning[name] = f"({weaver.done().text})"
    return edits


def window_edits(tokens: Tokens, windows: Sequence[str], first: int = 0, stop: int | None = None) -> list[Edit]:
    """What becomes of the WINDOW and GRAPH blocks between two tokens; `windows` are the named windows' IRIs."""
    edits = []
    for index in blocks(tokens, first, stop):
        word, name = tokens.items[index : index + 2]
        opening, closing = block_frame(word, name, windows)
        end = tokens.items[tokens.closing[index + 2]].end
        edits += [Edit(word.start, word.end, opening)] if opening != word.text else []
        edits += [Edit(end, end, closing)] if closing else []
    return sorted(edits)


def block_frame(word: Token, name: Token, windows: Sequence[str]) -> tuple[str, str]:
    """What stands in SPARQL for the word of a WINDOW or GRAPH block, and what is added behind the block."""
    free = name.kind is Kind.VAR
    if free and word.is_word("WINDOW"):
        return f"{{ VALUES {name.text} {{ {' '.join(f'<{each}>' for each in windows)} }} GRAPH", " }"
    if free and windows:
        return "{ GRAPH", f" FILTER({name.text} NOT IN ({', '.join(f'<{each}>' for each in windows)})) }}"
    return "GRAPH" if word.is_word("WINDOW") else word.text, ""


def blocks(tokens: Tokens, first: int = 0, stop: int | None = None) -> Iterator[int]:
    """The indexes of WINDOW and GRAPH keywords that open a block here; what is inside SERVICE belongs to the source."""
    index, stop = first, len(tokens.items) if stop is None else stop
    while index < stop:
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
