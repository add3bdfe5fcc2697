"""Errors of queries; every message gives the place, the problem and a remedy.

InputError
├── QuerySyntaxError   the text is not a query: line, column, the line with a caret, the problem, the remedy
├── DialectError       a dialect cannot express the query
└── SplitError         a SERVICE pattern cannot be split into its static and its dynamic part
"""

import re

from freshkeeper.maintenance.base.errors import InputError

WIDTH = 100
"""Characters of a long line that are shown around the caret."""


class QuerySyntaxError(InputError):
    """Raised for a text that is not a query, with line and column (from 1), the problem and a remedy."""

    def __init__(self, problem: str, text: str, offset: int, remedy: str = "") -> None:
        """Place `problem` at `offset` of `text`."""
        super().__init__(problem, text, offset, remedy)
        self.problem = problem
        self.remedy = remedy
        self.offset = max(0, min(offset, len(text)))
        self.line, self.column = place(text, self.offset)
        start = self.offset - self.column + 1
        self.source_line = text[start:].partition("\n")[0].rstrip("\r")

    @property
    def caret(self) -> str:
        """The source line with a caret under the place."""
        first = max(0, self.column - 1 - WIDTH * 2 // 3)
        shown = self.source_line[first : first + WIDTH].rstrip()
        before = self.source_line[first : self.column - 1]
        # tabs stay tabs, so that the caret stands under its character however wide they are drawn
        indent = re.sub(r"[^\t]", " ", before)
        return f"{shown}\n{indent}^"

    def __str__(self) -> str:
        head = f"line {self.line}, column {self.column}: {self.problem}"
        body = "\n".join("    " + line for line in self.caret.split("\n"))
        return "\n".join(filter(None, [head, body, self.remedy]))


class DialectError(InputError):
    """Raised for a query that a dialect cannot express; the message names the dialects that can."""


class SplitError(InputError):
    """Raised for a SERVICE pattern that cannot be split; the message shows the pattern and the reason."""


def place(text: str, offset: int) -> tuple[int, int]:
    """Return line and column, both from 1, of an offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
