"""Blank nodes of patterns as variables, which they are but for not being shown."""

from collections.abc import Callable, Iterable

from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, tokenize

BLANK = "freshkeeper_blank_"


def without_blanks(text: str) -> str:
    """Blank node labels as variables: a pattern may then stand twice, and its solutions are told apart by them."""
    return _replaced(text, lambda token: f"?{blank_variable(token.text)}" if token.kind is Kind.BLANK else None)


def blank_variable(label: str) -> str:
    """The variable of a label; what a variable cannot have is spelled out, so that no two labels become one."""
    return BLANK + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in label[2:])


def renamed(text: str, names: Iterable[str], prefix: str) -> str:
    """Some variables under other names."""
    marked = frozenset(names)
    return _replaced(text, lambda t: f"?{prefix}{t.text[1:]}" if t.kind is Kind.VAR and t.text[1:] in marked else None)


def _replaced(text: str, new: Callable[[Token], str | None]) -> str:
    found, at = [], 0
    for token in tokenize(text).items:
        instead = new(token)
        if instead is not None:
            found += [text[at : token.start], instead]
            at = token.end
    return "".join([*found, text[at:]])
