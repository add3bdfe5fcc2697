"""Text to tokens: strings, IRIs versus the operator `<`, comments, names, numbers and brackets, each with its place.

Only what the continuous shell needs is told apart; expressions stay SPARQL's business.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError, place

DEEPEST = 50
"""Brackets nested deeper than this are refused: the SPARQL parser recurses, and no person writes them."""
LONGEST = 5_000
"""More operators, keywords and brackets than this are refused, for the same reason; terms and data are not counted."""


class Kind(StrEnum):
    """What a token is."""

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
    """One token and its span in the text."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these keywords, in any letter case."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_mark(self, *marks: str) -> bool:
        """Whether this is one of these punctuation marks."""
        return self.kind is Kind.MARK and self.text in marks

    @property
    def is_name(self) -> bool:
        """Whether this can name a graph, a window or a stream."""
        return self.kind is Kind.IRI or self.kind is Kind.PNAME


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text, and for each opening bracket the index of the closing one."""

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
            (Kind.STRING.name, r'"""(?:"{0,2}(?:[^"\\]|\\.))*"""|' + r"'''(?:'{0,2}(?:[^'\\]|\\.))*'''"),
            ("SHORT", r'(?!""")"(?:[^"\\\n\r]|\\.)*"|' + r"(?!''')'(?:[^'\\\n\r]|\\.)*'"),
            (Kind.IRI.name, r'<(?:[^\x00-\x20<>"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>'),
            (Kind.BLANK.name, rf"_:[{_LETTER}_0-9](?:[{_REST}.\-]*[{_REST}\-])?"),
            (Kind.PNAME.name, rf"{_PREFIX}:(?:{_LOCAL})?"),
            (Kind.VAR.name, rf"[?$][{_LETTER}_0-9][{_REST}]*"),
            (Kind.NUMBER.name, r"(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+|[0-9]*\.[0-9]+|[0-9]+"),
            (Kind.LANG.name, r"@[A-Za-z]+(?:--?[A-Za-z0-9]+)*"),
            (Kind.WORD.name, r"[A-Za-z_][A-Za-z0-9_]*"),
            (Kind.MARK.name, r"\^\^|&&|\|\||!=|<=|>=|<<|>>|."),
        )
    ),
    re.DOTALL,
)
_KINDS = {**{kind.name: kind for kind in Kind}, "SHORT": Kind.STRING}
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_OPERANDS = (Kind.VAR, Kind.NUMBER, Kind.STRING, Kind.LANG)


def tokenize(text: str) -> Tokens:
    """Cut a text into tokens and pair its brackets."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QuerySyntaxError("half of a surrogate pair is no character", text, error.start) from None
    items = (*_scan(text), Token(Kind.END, "", len(text), len(text)))
    return Tokens(text, items, _pair(items, text))


def check_size(tokens: Tokens) -> None:
    """Refuse what would exhaust a recursive parser."""
    structure = [item for item in tokens.items if item.kind in (Kind.MARK, Kind.WORD) and item.text != ","]
    if len(structure) > LONGEST:
        raise QuerySyntaxError(
            f"the query has {len(structure):,} operators, keywords and brackets",
            tokens.text,
            structure[LONGEST].start,
            f"at most {LONGEST:,}; put the data into a graph and name it with FROM",
        )
    open_until: list[int] = []
    for opening, closing in sorted(tokens.closing.items()):
        while open_until and open_until[-1] < opening:
            open_until.pop()
        open_until.append(closing)
        if len(open_until) > DEEPEST:
            raise QuerySyntaxError(f"brackets nested deeper than {DEEPEST}", tokens.text, tokens.items[opening].start)


def _scan(text: str) -> Iterator[Token]:
    position, brackets, previous = 0, [""], None
    while True:
        space = _SPACE.match(text, position)
        position = space.end() if space else position
        match = _TOKEN.match(text, position)
        if match is None:
            return
        kind, word = _KINDS[match.lastgroup or Kind.MARK.name], match.group()
        if kind is Kind.IRI and brackets[-1] == "(" and _is_comparison(previous, word):
            kind, word = Kind.MARK, "<"
        if kind is Kind.MARK:
            _check_mark(word, text, position)
            _follow(brackets, word)
        previous = Token(kind, word, position, position + len(word))
        position = previous.end
        yield previous


def _is_comparison(previous: Token | None, candidate: str) -> bool:
    """Whether `<...>` after an operand inside parentheses is two comparisons, as in (?a<?b&&?c>?d), and no IRI."""
    if previous is None or not (previous.kind in _OPERANDS or previous.is_mark(")")):
        return False
    return candidate[1:2] in set('?$(=!+-"') or candidate[1:2].isdigit() or "&&" in candidate


def _follow(brackets: list[str], mark: str) -> None:
    if mark in _PAIRS:
        brackets.append(mark)
    elif mark in _PAIRS.values() and len(brackets) > 1:
        brackets.pop()


def _check_mark(mark: str, text: str, position: int) -> None:
    if mark in "\"'":
        long = text.startswith(mark * 3, position)
        end = mark * 3 if long else mark
        raise QuerySyntaxError(
            f"this string is never closed: {end} is missing",
            text,
            position,
            "" if long else f"a string over several lines is written {mark * 3}...{mark * 3}",
        )


def _pair(items: tuple[Token, ...], text: str) -> dict[int, int]:
    """The closing bracket of every opening one, or an error at the one that has no partner."""
    stack: list[int] = []
    closing: dict[int, int] = {}
    for index, item in enumerate(items):
        if item.kind is not Kind.MARK:
            continue
        if item.text in _PAIRS:
            stack.append(index)
        elif item.text in _PAIRS.values():
            closing[_opening(stack, items, item, text)] = index
    if stack:
        opened = items[stack[-1]]
        raise QuerySyntaxError(
            f"this {opened.text} is never closed", text, opened.start, f"add the missing {_PAIRS[opened.text]}"
        )
    return closing


def _opening(stack: list[int], items: tuple[Token, ...], item: Token, text: str) -> int:
    if not stack:
        raise QuerySyntaxError(f"this {item.text} closes nothing", text, item.start, "remove it, or open its pair")
    opened = items[stack[-1]]
    wanted = _PAIRS[opened.text]
    if item.text != wanted:
        line, column = place(text, opened.start)
        raise QuerySyntaxError(
            f"{item.text} where {wanted} is missing",
            text,
            item.start,
            f"the {opened.text} of line {line}, column {column} is still open",
        )
    return stack.pop()
