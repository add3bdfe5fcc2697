"""Terminal output: data on standard output, everything else on standard error, progress only on a terminal."""

import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from freshkeeper.maintenance.base.addresses import mask_secrets

errors = Console(stderr=True, highlight=False)


def complain(message: object) -> None:
    """Print one line on standard error, or log it if there is a log."""
    log = logging.getLogger("freshkeeper")
    if log.handlers:
        log.error("error", extra={"details": {"said": mask_secrets(str(message))}})
        return
    print(f"freshkeeper: {mask_secrets(str(message))}", file=sys.stderr)


def say(message: str) -> None:
    """Print a message on standard error."""
    errors.print(mask_secrets(message), markup=False, soft_wrap=True)


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


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    words: int = 1,
    caption: str = "",
    narrow: bool = False,
) -> Table:
    """Return a table: the first `words` columns are left-aligned; `narrow` breaks the headers into lines."""
    made = Table(title_justify="left", caption=caption or None, caption_justify="left")
    if title:
        made.title = Text(title)
    for n, column in enumerate(columns):
        cells = [str(row[n]) for row in rows]
        head = column
        unbroken = narrow and not any(len(cell.split()) > 1 for cell in cells)
        if unbroken:
            head = fill(column, max(map(len, [*cells, *column.split()])))
        made.add_column(head, justify="left" if n < words else "right", overflow="fold", no_wrap=unbroken)
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))  # rich reads markup in a str
    return made


def show(made: Table) -> None:
    """Print a table on standard output: as wide as the terminal, or as wide as needed in a pipe."""
    console = Console(highlight=False)
    if not sys.stdout.isatty():
        console = Console(highlight=False, width=160)
    # Title and caption are printed apart: as parts of the table they would be wrapped to its width.
    title, caption = made.title, made.caption
    made.title = made.caption = None
    for part in (title, made, caption):
        if part is not None:
            console.print(part, soft_wrap=part is not made)


class Bar:
    """A progress bar with room for a table below it on a terminal, or an occasional line elsewhere."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=errors
        )
        self._task = self._progress.add_task(what, total=None)
        self._live: Live | None = None
        self._reported_share = 0.0

    @property
    def room(self) -> int:
        """The number of rows that a table below the bar may have."""
        return max(3, errors.height - 8)

    @property
    def on_terminal(self) -> bool:
        """The bar is on a terminal, where it can be redrawn."""
        return self._live is not None

    def update(self, done: int, of: int, below: Table | None = None) -> None:
        """Show progress: `done` of `of`."""
        self._progress.update(self._task, completed=done, total=of)
        if self._live is not None:
            group = Table.grid()
            group.add_row(self._progress)
            if below is not None:
                group.add_row(below)
            self._live.update(group)
        elif done == of or done / of - self._reported_share >= 0.25:
            self._reported_share = done / of
            say(f"{self._what}: {done} of {of}")

    @contextmanager
    def running(self) -> Iterator["Bar"]:
        """Show the bar while the work goes on."""
        if not errors.is_terminal:
            yield self
            return
        with Live(self._progress, console=errors, refresh_per_second=8, transient=True) as self._live:
            yield self
