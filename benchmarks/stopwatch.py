"""Timing for benchmarks: medians of repeated runs, a table for people, one JSON line of ratios for machines."""

import json
import statistics
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table


def seconds(
    run: Callable[[], object],
    repeats: int = 9,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The median time of `run`, warmed up once, `before` left out; `time.process_time` leaves out what others do."""
    taken = []
    for _ in range(repeats + 1):
        before()
        began = clock()
        run()
        taken.append(clock() - began)
    return statistics.median(taken[1:])


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on standard output."""
    table = Table(title=title, title_justify="left")
    for n, column in enumerate(columns):
        table.add_column(column, justify="left" if n == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)


def ratios(named: Mapping[str, float]) -> None:
    """The last line: named ratios as JSON."""
    print(json.dumps({name: round(value, 4) for name, value in named.items()}))
