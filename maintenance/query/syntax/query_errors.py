"""What can be wrong with a query; every message says where, what, and what would be right.

InputError
├── QuerySyntaxError   the text is no query: line, column, the line with a caret, the problem, the remedy
├── DialectError       a dialect cannot say what the query says
└── SplitError         a SERVICE pattern cannot be split into its static and its dynamic part
"""

from freshkeeper.policies.errors import InputError

WIDTH = 100
"""How much of a long line is shown around the caret."""


class QuerySyntaxError(InputError):
    """The text is no query: where (line and column from 1), what is wrong, what would be right."""

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
        return f"{shown}\n{''.join(c if c == chr(9) else ' ' for c in before)}^"

    def __str__(self) -> str:
        head = f"line {self.line}, column {self.column}: {self.problem}"
        body = "\n".join("    " + line for line in self.caret.split("\n"))
        return "\n".join([head, body, *([self.remedy] if self.remedy else [])])


class DialectError(InputError):
    """A dialect cannot say what the query says; the message names the dialects that can."""


class SplitError(InputError):
    """A SERVICE pattern cannot be split; the message shows the pattern and says why."""


def place(text: str, offset: int) -> tuple[int, int]:
    """The line and the column, both from 1, of an offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
