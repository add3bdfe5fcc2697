"""The tokenizer: strings, IRIs versus the operator `<`, comments, names, numbers and brackets, each with its place.

It distinguishes what the continuous shell needs; the grammar of expressions is left to SPARQL.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError, place

MAX_NESTED_BRACKETS = 50
"""Limit of nested brackets: the SPARQL parser recurses, and nobody writes as many by hand."""
MAX_STRUCTURE_TOKENS = 5_000
"""Limit of operators, keywords and brackets, for the same reason; terms and data are not counted."""


class TokenKind(StrEnum):
    """The kinds of tokens."""

    STRING = "string"
    IRI = "IRI"
    BLANK = "blank node"
    PNAME = "prefixed name"
    VAR = "variable"
    NUMBER = "number"
    LANG = "language tag"
    WORD = "word"
    MARK = "mark"
    END = "end of the query"


class Token(NamedTuple):
    """A token and its span in the text."""

    kind: TokenKind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Return whether this is one of these keywords, in any letter case."""
        return self.kind is TokenKind.WORD and self.text.upper() in words

    def is_mark(self, *marks: str) -> bool:
        """Return whether this is one of these punctuation marks."""
        return self.kind is TokenKind.MARK and self.text in marks

    @property
    def is_name(self) -> bool:
        """True for an IRI or a prefixed name, which can name a graph, a window or a stream."""
        return self.kind is TokenKind.IRI or self.kind is TokenKind.PNAME


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text, with the closing bracket of every opening one as an index into them."""

    text: str
    items: tuple[Token, ...]
    closing: Mapping[int, int]


_LETTER = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_REST = _LETTER + "_0-9\u00b7\u0300-\u036f\u203f\u2040"
# Bounded, so that a long run of letters and dots without a colon is not scanned anew from each of them.
_PREFIX = rf"(?:[{_LETTER}](?:[{_REST}.\-]{{0,100}}[{_REST}\-])?)?"
_ESCAPE = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_LOCAL = rf"(?:[{_LETTER}_:0-9]|{_ESCAPE})(?:\.*(?:[{_REST}:\-]|{_ESCAPE}))*"

_SPACE = re.compile(r"(?:[ \t\r\n\f\ufeff]+|#[^\n\r]*)+")
_TOKEN = re.compile(
    "|".join(
        f"(?P<{name}>{pattern})"
        for name, pattern in (
            (TokenKind.STRING.name, r'"""(?:"{0,2}(?:[^"\\]|\\.))*"""|' + r"'''(?:'{0,2}(?:[^'\\]|\\.))*'''"),
            ("SHORT", r'(?!""")"(?:[^"\\\n\r]|\\.)*"|' + r"(?!''')'(?:[^'\\\n\r]|\\.)*'"),
            (TokenKind.IRI.name, r'<(?:[^\x00-\x20<>"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>'),
            (TokenKind.BLANK.name, rf"_:[{_LETTER}_0-9](?:[{_REST}.\-]*[{_REST}\-])?"),
            (TokenKind.PNAME.name, rf"{_PREFIX}:(?:{_LOCAL})?"),
            (TokenKind.VAR.name, rf"[?$][{_LETTER}_0-9][{_REST}]*"),
            # A sign before a digit belongs to the number, as everywhere in SPARQL: `?s :p +5` is no path `:p+`.
            (TokenKind.NUMBER.name, r"[+-]?(?:(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+|[0-9]*\.[0-9]+|[0-9]+)"),
            (TokenKind.LANG.name, r"@[A-Za-z]+(?:--?[A-Za-z0-9]+)*"),
            (TokenKind.WORD.name, r"[A-Za-z_][A-Za-z0-9_]*"),
            (TokenKind.MARK.name, r"\^\^|&&|\|\||!=|<=|>=|<<|>>|\{\||\|\}|."),
        )
    ),
    re.DOTALL,
)
# SHORT is a string in single quotation marks: the regular expression needs another name for its group.
_KINDS = {**{kind.name: kind for kind in TokenKind}, "SHORT": TokenKind.STRING}
_PAIRS = {"(": ")", "[": "]", "{": "}", "{|": "|}"}
# Tokens behind which `<` is an operator: an IRI cannot follow an operand.
_OPERANDS = (TokenKind.VAR, TokenKind.NUMBER, TokenKind.STRING, TokenKind.LANG)


def tokenize(text: str) -> Tokens:
    """Split a text into tokens and pair its brackets."""
    try:
        text.encode()  # pyoxigraph takes UTF-8, which has no lone surrogates
    except UnicodeEncodeError as error:
        raise QuerySyntaxError("half of a surrogate pair is no character", text, error.start) from None
    items = (*_scan(text), Token(TokenKind.END, "", len(text), len(text)))
    return Tokens(text, items, _pair(items, text))


def check_size(tokens: Tokens) -> None:
    """Raise QuerySyntaxError for a text that would exhaust a recursive parser."""
    structure = [item for item in tokens.items if item.kind in (TokenKind.MARK, TokenKind.WORD) and item.text != ","]
    if len(structure) > MAX_STRUCTURE_TOKENS:
        raise QuerySyntaxError(
            f"the query has {len(structure):,} operators, keywords and brackets",
            tokens.text,
            structure[MAX_STRUCTURE_TOKENS].start,
            f"at most {MAX_STRUCTURE_TOKENS:,}; put the data into a graph and name it with FROM",
        )
    open_until: list[int] = []
    for opening, closing in sorted(tokens.closing.items()):
        while open_until and open_until[-1] < opening:
            open_until.pop()
        open_until.append(closing)
        if len(open_until) > MAX_NESTED_BRACKETS:
            problem = f"brackets nested deeper than {MAX_NESTED_BRACKETS}"
            raise QuerySyntaxError(problem, tokens.text, tokens.items[opening].start)


def _scan(text: str) -> Iterator[Token]:
    position = 0
    brackets = [""]  # those open at the position, the innermost last
    previous = None
    while True:
        space = _SPACE.match(text, position)
        if space is not None:
            position = space.end()
        match = _TOKEN.match(text, position)
        if match is None:
            return
        kind = _KINDS[match.lastgroup or TokenKind.MARK.name]
        word = match.group()
        # FILTER(?a<?b && ?c>?d) looks like an IRI to the regular expression
        if kind is TokenKind.IRI and brackets[-1] == "(" and _is_comparison(previous, word):
            kind = TokenKind.MARK
            word = "<"
        if kind is TokenKind.MARK:
            _check_mark(word, text, position)
            _update_brackets(brackets, word)
        previous = Token(kind, word, position, position + len(word))
        position = previous.end
        yield previous


def _is_comparison(previous: Token | None, candidate: str) -> bool:
    """Return whether `<...>` behind an operand in parentheses is two comparisons, as in (?a<?b&&?c>?d), not an IRI."""
    if previous is None or not (previous.kind in _OPERANDS or previous.is_mark(")")):
        return False
    return candidate[1:2] in set('?$(=!+-"') or candidate[1:2].isdigit() or "&&" in candidate


def _update_brackets(brackets: list[str], mark: str) -> None:
    if mark in _PAIRS:
        brackets.append(mark)
    elif mark in _PAIRS.values() and len(brackets) > 1:
        brackets.pop()


def _check_mark(mark: str, text: str, position: int) -> None:
    """Raise at a quotation mark: a closed string would have been a token."""
    if mark not in "\"'":
        return
    if text.startswith(mark * 3, position):
        raise QuerySyntaxError(f"this string is never closed: {mark * 3} is missing", text, position)
    raise QuerySyntaxError(
        f"this string is never closed: {mark} is missing",
        text,
        position,
        f"a string over several lines is written {mark * 3}...{mark * 3}",
    )


def _pair(items: tuple[Token, ...], text: str) -> dict[int, int]:
    """Return the closing bracket of every opening one, or raise at the one that has no partner."""
    stack: list[int] = []
    closing: dict[int, int] = {}
    for index, item in enumerate(items):
        if item.kind is not TokenKind.MARK:
            continue
        if item.text in _PAIRS:
            stack.append(index)
        elif item.text in _PAIRS.values():
            closing[_pop_opening(stack, items, item, text)] = index
    if stack:
        opening = items[stack[-1]]
        remedy = f"add the missing {_PAIRS[opening.text]}"
        raise QuerySyntaxError(f"this {opening.text} is never closed", text, opening.start, remedy)
    return closing


def _pop_opening(stack: list[int], items: tuple[Token, ...], item: Token, text: str) -> int:
    if not stack:
        raise QuerySyntaxError(f"this {item.text} closes nothing", text, item.start, "remove it, or open its pair")
    opening = items[stack[-1]]
    expected = _PAIRS[opening.text]
    if item.text != expected:
        line, column = place(text, opening.start)
        raise QuerySyntaxError(
            f"{item.text} where {expected} is missing",
            text,
            item.start,
            f"the {opening.text} of line {line}, column {column} is still open",
        )
    return stack.pop()
