"""A position among tokens, with methods to take, accept and expect them and to report errors there."""

from dataclasses import replace
from typing import NoReturn

from freshkeeper.maintenance.base import durations
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, Tokens

UNITS = {*durations.UNITS, "month", "months", "year", "years"}
"""Words accepted behind a number. Months and years are recognised so that the error can say why they are refused."""
MINUS = "-–−"
"""A hyphen, and the dash and the sign that word processors write for it."""
DELIMITERS = ("]", "[", "{", "}", ",", "(", ")")


class Cursor:
    """A walk over tokens from left to right, which stops at the END token."""

    def __init__(self, tokens: Tokens, index: int = 0) -> None:
        self.tokens = tokens
        self.index = index

    @property
    def now(self) -> Token:
        """The next token."""
        return self.tokens.items[self.index]

    def ahead(self, distance: int = 1) -> Token:
        """Return the token at a distance from the next one, or the END token."""
        return self.tokens.items[min(self.index + distance, len(self.tokens.items) - 1)]

    def take(self) -> Token:
        """Return the next token and step over it."""
        token = self.now
        self.index = min(self.index + 1, len(self.tokens.items) - 1)
        return token

    def accept(self, *words: str) -> Token | None:
        """Step over the next token if it is one of these keywords, and return it."""
        if not self.now.is_word(*words):
            return None
        return self.take()

    def accept_mark(self, mark: str) -> Token | None:
        """Step over the next token if it is this mark, and return it."""
        if not self.now.is_mark(mark):
            return None
        return self.take()

    def accept_minus(self) -> bool:
        """Step over a minus sign, also over that of a negative number, and return whether there was one."""
        number = self.now
        if number.kind is TokenKind.NUMBER and number.text.startswith("-"):
            items = list(self.tokens.items)
            items[self.index] = Token(TokenKind.NUMBER, number.text[1:], number.start + 1, number.end)
            self.tokens = replace(self.tokens, items=tuple(items))
            return True
        return any(self.accept_mark(mark) for mark in MINUS)

    def expect(self, *words: str) -> Token:
        """Step over one of these keywords, or fail because it is missing."""
        return self.accept(*words) or self.fail(f"{' or '.join(words)} is missing before {describe_token(self.now)}")

    def expect_mark(self, mark: str, remedy: str = "") -> Token:
        """Step over this mark, or fail because it is missing."""
        return self.accept_mark(mark) or self.fail(f"{mark} is missing before {describe_token(self.now)}", remedy)

    def name(self, what: str) -> Token:
        """Step over an IRI or prefixed name; `what` says in messages what it names."""
        remedy = f"name the {what} by an IRI, <http://...> or prefix:name"
        if self.now.kind is TokenKind.VAR:
            self.fail(f"a {what} cannot be a variable: {self.now.text}", remedy)
        if not self.now.is_name:
            self.fail(f"{describe_token(self.now)} where the name of a {what} is missing", remedy)
        if self.now.text.endswith(":") and self.ahead().is_mark("/") and self.ahead().start == self.now.end:
            self.fail(f"{self.now.text}// outside angle brackets", "an IRI is written <http://...>")
        return self.take()

    def skip_block(self) -> Token:
        """Step over a bracketed block and return its closing bracket."""
        self.index = self.tokens.closing[self.index]
        return self.take()

    def take_text(self) -> tuple[str, Token]:
        """Return the text up to the next gap, comma or bracket, with its first token."""
        first = last = self.now
        while self.now.kind is not TokenKind.END and not self.now.is_mark(*DELIMITERS):
            if self.now.start != first.start and self.now.start != last.end:
                break
            last = self.take()
        if self.now.start == first.start:
            return "", first  # a delimiter comes first: nothing was taken
        return self.tokens.text[first.start : last.end], first

    def duration(self, what: str, least: int = 1) -> int:
        """Return a duration in milliseconds, positive unless `least` is 0.

        Its unit may stand apart, as in 10 MINUTES.
        """
        text, first = self.take_text()
        if text.isdigit() and self.now.kind is TokenKind.WORD and self.now.text.lower() in UNITS:
            text += self.take().text
        if not text:
            self.fail(f"the duration of {what} is missing before {describe_token(self.now)}", durations.HOW)
        try:
            if least:
                return durations.to_ms(text)
            return durations.to_delay(text)
        except ValueError as error:
            self.fail(f"{what}: {error}", token=first)

    def count(self, what: str) -> int:
        """Return a positive whole number of elements."""
        text, first = self.take_text()
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) == 0:
            self.fail(f"{what}: {text or describe_token(first)!r} is no count", "write a whole number from 1 on", first)
        return int(text)

    def instant(self) -> int:
        """Return an instant in milliseconds since the epoch; it may be written as a (typed) string."""
        if self.now.kind is TokenKind.STRING:
            first = self.take()
            text = first.text.strip("\"'")
            if self.accept_mark("^^"):
                self.name("datatype")
        else:
            text, first = self.take_text()
        try:
            return durations.to_instant(text)
        except (ValueError, OverflowError) as error:
            self.fail(f"STARTING AT: {error}", token=first)

    def fail(self, problem: str, remedy: str = "", token: Token | None = None) -> NoReturn:
        """Raise QuerySyntaxError at a token, by default the next one."""
        place = token or self.now
        start = place.start
        if place.kind is TokenKind.END:
            start = len(self.tokens.text.rstrip())  # point behind the last character, not at trailing blank lines
        raise QuerySyntaxError(problem, self.tokens.text, start, remedy)


def describe_token(token: Token) -> str:
    """Return the text of a token for a message, shortened if it is long."""
    if token.kind is TokenKind.END:
        return "the end of the query"
    return shorten(token.text, 60)


def shorten(text: str, width: int) -> str:
    """Return a text, cut off at a width."""
    if len(text) <= width:
        return text
    return text[: width - 3] + "..."
