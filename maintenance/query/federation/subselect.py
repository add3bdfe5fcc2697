"""Sub-queries: whose values may leave out solutions inside without changing what the rest shows."""

from freshkeeper.maintenance.query.syntax.patterns import Element
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, Tokens, tokenize

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")
BEHIND_GROUPS = ("HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")


def passing(select: Element) -> frozenset[str]:
    """The variables that a sub-query shows as they are: of groups those it groups by, and none where it is cut off."""
    tokens = tokenize(select.text)
    opening = next(n for n, item in enumerate(tokens.items) if item.is_mark("{"))
    head, tail = tokens.items[:opening], tokens.items[tokens.closing[opening] + 1 :]
    if any(item.is_word("LIMIT", "OFFSET") for item in tail):
        return frozenset()
    shown = select.bound if any(item.is_mark("*") for item in _outside(head)) else _plain(head)
    if any(item.is_word("GROUP", "HAVING") for item in tail) or any(item.is_word(*AGGREGATES) for item in head):
        shown &= grouped(tail)
    return shown


def grouped(tail: tuple[Token, ...]) -> frozenset[str]:
    """The variables that GROUP BY names as they are, not inside an expression."""
    found, inside = set(), False
    for token in _outside(tail):
        ends = token.is_word(*BEHIND_GROUPS)
        inside = token.is_word("GROUP") or (inside and not ends)
        if inside and token.kind is Kind.VAR:
            found.add(token.text[1:])
    return frozenset(found)


def group_names(tail: Tokens) -> list[str]:
    """The variables that groups have: what GROUP BY names as it is, or gives a name to."""
    found: list[str] = []
    items = tail.items
    index = next((n for n, item in enumerate(items) if item.is_word("GROUP")), len(items))
    while index < len(items) and not items[index].is_word(*BEHIND_GROUPS):
        close = tail.closing.get(index, index)
        if items[close].kind is Kind.VAR:
            found.append(items[close].text[1:])
        elif close > index and items[close - 2].is_word("AS"):
            found.append(items[close - 1].text[1:])
        index = close + 1
    return found


def _plain(head: tuple[Token, ...]) -> frozenset[str]:
    return frozenset(token.text[1:] for token in _outside(head) if token.kind is Kind.VAR)


def _outside(tokens: tuple[Token, ...]) -> list[Token]:
    """Those that are in no parentheses."""
    found, depth = [], 0
    for token in tokens:
        depth += token.is_mark("(") - token.is_mark(")")
        if not depth and not token.is_mark(")"):
            found.append(token)
    return found
