"""Terminal output: data on standard output, everything else on standard error, progress only on a terminal."""

import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from textwrap import wrap
from threading import Event, Thread
from typing import Any
from unicodedata import combining, east_asian_width

from freshkeeper.maintenance.base.addresses import mask_secrets

WIDTH_IN_A_PIPE = 160
REDRAW_INTERVAL_S = 0.125
LINE_INTERVAL_S = 10.0
BAR_CELLS = 40
BOLD, NORMAL = "\x1b[1m", "\x1b[0m"


def complain(message: object) -> None:
    """Print one line on standard error, or log it if there is a log."""
    log = logging.getLogger("freshkeeper")
    if log.handlers:
        log.error("error", extra={"details": {"said": mask_secrets(str(message))}})
        return
    print(f"freshkeeper: {mask_secrets(str(message))}", file=sys.stderr)


def say(message: str) -> None:
    """Print a message on standard error."""
    print(mask_secrets(message), file=sys.stderr)


def teller(log: str) -> Callable[[str], None]:
    """Return the function that prints messages, or logs them if there is a log: standard error is all JSON then."""
    if not log:
        return say
    from freshkeeper.maintenance.observe import logs

    logs.start(log)
    return lambda message: logs.log_event(logging.INFO, "news", said=message)


def print_json(data: Any) -> None:
    """Print data as one line of JSON."""
    print(json.dumps(data))


def number(value: float | None) -> str:
    """Format a share with three digits; unknown is empty."""
    return "" if value is None else f"{value:.3f}"


@dataclass(frozen=True)
class TextTable:
    """A table of texts with a title above and a caption below; the first `words` columns are left-aligned.

    `narrow` breaks the headers of columns of single words into lines; the first cell of row `bold` stands out on a
    terminal.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    caption: str = ""
    narrow: bool = False
    bold: int | None = None

    def lines(self, width: int, bold: bool = False) -> Iterator[str]:
        """Yield the lines of the table, at most `width` wide; cells that do not fit go over several lines."""
        widths = self._widths(width)
        yield "┏" + "┳".join("━" * (each + 2) for each in widths) + "┓"
        yield from self._row(self.columns, widths, "┃")
        yield "┡" + "╇".join("━" * (each + 2) for each in widths) + "┩"
        for n, row in enumerate(self.rows):
            yield from self._row(row, widths, "│", bold=bold and n == self.bold)
        yield "└" + "┴".join("─" * (each + 2) for each in widths) + "┘"

    def _widths(self, width: int) -> list[int]:
        """Return the width of each column: as wide as its text, and less for the widest where that is too much."""
        widths = []
        for n, head in enumerate(self.columns):
            cells = [row[n] for row in self.rows]
            heads = [head]
            if self.narrow and not any(len(cell.split()) > 1 for cell in cells):
                heads = head.split()
            widths.append(max(cell_width(text) for text in (*heads, *cells, "")))
        room = max(width - 3 * len(widths) - 1, len(widths))
        while sum(widths) > room:
            widest = max(range(len(widths)), key=widths.__getitem__)
            widths[widest] -= 1
        return widths

    def _row(self, cells: Sequence[str], widths: list[int], edge: str, bold: bool = False) -> Iterator[str]:
        wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for texts in zip_longest(*wrapped, fillvalue=""):
            padded = []
            for n, (text, width) in enumerate(zip(texts, widths, strict=True)):
                space = " " * (width - cell_width(text))
                padded.append(text + space if n < self.words else space + text)
            if bold:
                padded[0] = f"{BOLD}{padded[0]}{NORMAL}"
            yield f"{edge} " + f" {edge} ".join(padded) + f" {edge}"


def cell_width(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def _wrapped(text: str, width: int) -> list[str]:
    if cell_width(text) <= width:
        return [text]
    return [line for part in text.splitlines() for line in wrap(part, width, break_on_hyphens=False)]


def show(table: TextTable) -> None:
    """Print a table on standard output: as wide as the terminal, or as wide as needed in a pipe."""
    on_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else WIDTH_IN_A_PIPE
    if table.title:
        print(table.title)
    for line in table.lines(width, bold=on_terminal):
        print(line)
    if table.caption:
        print(table.caption)


class Bar:
    """Progress of long work: a bar with room for a table on a terminal, a bar in a notebook, elsewhere lines.

    A line is printed every ten seconds, also while nothing is finished.
    """

    def __init__(self, what: str, unit: str = "") -> None:
        self._what, self._unit = what, f" {unit}" if unit else ""
        self._done = self._of = self._counted = 0
        self._begin = time.monotonic()
        self._drawn_lines = 0
        self._drawn_at = 0.0
        self._is_running = False
        self._picture: Any = None
        """the output of a notebook's cell"""

    @property
    def room(self) -> int:
        """The number of rows that a table below the bar may have."""
        return max(3, shutil.get_terminal_size().lines - 8)

    @property
    def on_terminal(self) -> bool:
        """The bar is on a terminal, where it can be redrawn."""
        return self._is_running and self._picture is None and sys.stderr.isatty()

    @property
    def time_left(self) -> str:
        """The time left, in words; empty at the end."""
        if self._done >= self._of:
            return ""
        if not self._counted:
            return "time left unknown"
        each = (time.monotonic() - self._begin) / self._counted
        return f"{time_in_words(each * (self._of - self._done))} left"

    @property
    def line(self) -> str:
        """The progress in words."""
        left = self.time_left
        return f"{self._what}: {self._done:,} of {self._of:,}{self._unit}" + (f", {left}" if left else "")

    def update(self, done: int, of: int, below: TextTable | None = None, counted: bool = True) -> None:
        """Show that `done` of `of` are done; what an earlier process did is not `counted` for the time left."""
        self._done, self._of = done, of
        self._counted += counted
        due = done == of or time.monotonic() - self._drawn_at >= REDRAW_INTERVAL_S
        if self.on_terminal and due:
            self._draw(below)
        elif self._picture is not None and due:
            self._drawn_at = time.monotonic()
            self._picture.update(self._bundle(), raw=True)

    def _draw(self, below: TextTable | None) -> None:
        """Draw the bar and the table over those that were drawn last."""
        width, height = shutil.get_terminal_size()
        filled = round(BAR_CELLS * min(self._done / max(self._of, 1), 1))
        bar = "━" * filled + " " * (BAR_CELLS - filled)
        lines = [f"{self._what} {bar} {self._done}/{self._of} {self.time_left}"[: width - 1]]
        if below is not None:
            lines += [below.title] if below.title else []
            lines += below.lines(width - 1)
        self._erase()
        sys.stderr.write("".join(f"{each}\n" for each in lines[: height - 1]))
        sys.stderr.flush()
        self._drawn_lines, self._drawn_at = min(len(lines), height - 1), time.monotonic()

    def _erase(self) -> None:
        if self._drawn_lines:
            sys.stderr.write(f"\x1b[{self._drawn_lines}F\x1b[J")  # to the first line of the drawing; clear from there
            self._drawn_lines = 0

    @contextmanager
    def running(self) -> Iterator["Bar"]:
        """Show the progress while the work goes on."""
        self._is_running, self._begin = True, time.monotonic()
        over = Event()
        if _in_notebook():
            from IPython import display as jupyter

            display: Callable[..., Any] = jupyter.display
            self._picture = display(self._bundle(), raw=True, display_id=True)
        elif not sys.stderr.isatty():
            Thread(target=self._print_lines, args=(over,), name="progress", daemon=True).start()
        try:
            yield self
        finally:
            self._is_running = False
            over.set()
            self._erase()

    def _print_lines(self, over: Event) -> None:
        while not over.wait(LINE_INTERVAL_S):
            if self._of:
                say(self.line)

    def _bundle(self) -> dict[str, str]:
        """Return what a notebook shows."""
        bar = f'<progress value="{self._done}" max="{max(1, self._of)}"></progress>'
        return {"text/plain": self.line, "text/html": f"<div>{bar} {escape(self.line)}</div>"}


def _in_notebook() -> bool:
    """Tell whether a notebook's kernel runs this; IPython on a terminal has none."""
    loaded = sys.modules.get("IPython")
    return loaded is not None and hasattr(loaded.get_ipython(), "kernel")


def time_in_words(seconds: float) -> str:
    """Return a time as people say it: 45 s, 3 min 20 s, 2 h 5 min."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
