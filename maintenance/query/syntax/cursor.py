"""A place in the tokens: look, take, expect, and say what is wrong here."""

from typing import NoReturn

from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token, Tokens
from freshkeeper.maintenance.settings import durations

UNITS = {*durations.UNITS, "month", "months", "year", "years"}
"""Words behind a number; the last ones are refused."""


class Cursor:
    """Walks over tokens from left to right; it stops at the END token and never walks past it."""

    def __init__(self, tokens: Tokens, index: int = 0) -> None:
        self.tokens = tokens
        self.index = index

    @property
    def now(self) -> Token:
        """The token that comes next."""
        return self.tokens.items[self.index]

    def ahead(self, distance: int = 1) -> Token:
        """A token further on."""
        return self.tokens.items[min(self.index + distance, len(self.tokens.items) - 1)]

    def take(self) -> Token:
        """The next token, and step over it."""
        token = self.now
        self.index = min(self.index + 1, len(self.tokens.items) - 1)
        return token

    def took(self, *words: str) -> Token | None:
        """Step over one of these keywords if it comes next."""
        return self.take() if self.now.is_word(*words) else None

    def took_mark(self, mark: str) -> Token | None:
        """Step over this mark if it comes next."""
        return self.take() if self.now.is_mark(mark) else None

    def expect(self, *words: str) -> Token:
        """Step over one of these keywords, or say that it is missing."""
        return self.took(*words) or self.fail(f"{' or '.join(words)} is missing before {shown(self.now)}")

    def expect_mark(self, mark: str, remedy: str = "") -> Token:
        """Step over this mark, or say that it is missing."""
        return self.took_mark(mark) or self.fail(f"{mark} is missing before {shown(self.now)}", remedy)

    def name(self, what: str) -> Token:
        """Step over the IRI or prefixed name of a `what`."""
        remedy = f"name the {what} by an IRI, <http://...> or prefix:name"
        if self.now.kind is Kind.VAR:
            self.fail(f"a {what} cannot be a variable: {self.now.text}", remedy)
        if not self.now.is_name:
            self.fail(f"{shown(self.now)} where the name of a {what} is missing", remedy)
        if self.now.text.endswith(":") and self.ahead().is_mark("/") and self.ahead().start == self.now.end:
            self.fail(f"{self.now.text}// outside angle brackets", "an IRI is written <http://...>")
        return self.take()

    def skip_block(self) -> Token:
        """Step over a bracketed block and return its closing bracket."""
        self.index = self.tokens.closing[self.index]
        return self.take()

    def written(self) -> tuple[str, Token]:
        """What is written up to the next gap, comma or bracket, as one string, and its first token."""
        first = last = self.now
        while self.now.kind is not Kind.END and not self.now.is_mark("]", "[", "{", "}", ",", "(", ")"):
            if self.now.start != first.start and self.now.start != last.end:
                break
            last = self.take()
        end = last.end if self.now.start != first.start else first.start
        return self.tokens.text[first.start : end], first

    def duration(self, what: str, least: int = 1) -> int:
        """A duration in milliseconds, positive unless `least` is 0; a unit may stand apart, as in 10 MINUTES."""
        text, first = self.written()
        if text.isdigit() and self.now.kind is Kind.WORD and self.now.text.lower() in UNITS:
            text += self.take().text
        if not text:
            self.fail(f"the duration of {what} is missing before {shown(self.now)}", durations.HOW)
        try:
            return durations.to_ms(text) if least else durations.to_delay(text)
        except ValueError as error:
            self.fail(f"{what}: {error}", token=first)

    def count(self, what: str) -> int:
        """A positive whole number of elements."""
        text, first = self.written()
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) == 0:
            self.fail(f"{what}: {text or shown(first)!r} is no count", "write a whole number from 1 on", first)
        return int(text)

    def instant(self) -> int:
        """An instant in milliseconds since the epoch; it may be written as a (typed) string."""
        if self.now.kind is Kind.STRING:
            first = self.take()
            text = first.text.strip("\"'")
            if self.took_mark("^^"):
                self.name("datatype")
        else:
            text, first = self.written()
        try:
            return durations.to_instant(text)
        except (ValueError, OverflowError) as error:
            self.fail(f"STARTING AT: {error}", token=first)

    def fail(self, problem: str, remedy: str = "", token: Token | None = None) -> NoReturn:
        """Say what is wrong at the next token, or at the one given."""
        place = token or self.now
        start = len(self.tokens.text.rstrip()) if place.kind is Kind.END else place.start
        raise QuerySyntaxError(problem, self.tokens.text, start, remedy)


def shown(token: Token) -> str:
    """A token as messages show it."""
    if token.kind is Kind.END:
        return "the end of the query"
    return token.text if len(token.text) <= 60 else token.text[:57] + "..."
