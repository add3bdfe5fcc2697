"""The grid on which the evaluations of a query fall, as far as its windows determine it."""

from collections.abc import Sequence
from math import gcd

from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.round_builder import LONGEST_HORIZON
from freshkeeper.maintenance.engine.window_content import WindowState
from freshkeeper.maintenance.query.model import Query, Report, WindowKind

LONGEST_MS = 60_000
"""The planning horizon in milliseconds if no window limits how long its content stays."""


def spec_of(contents: Sequence[WindowState], grid: tuple[int, int] | None) -> WindowSpec:
    """Return the window as the manager sees it: how long elements stay at most, and when evaluations fall."""
    spans = [c.window.range or 0 for c in contents if c.window.kind in (WindowKind.TIME, WindowKind.NOW)]
    if grid is not None:
        step, start = grid
        return WindowSpec(max([*spans, step] if spans else [LONGEST_MS]), step, start)
    span = max(spans, default=LONGEST_MS)
    return WindowSpec(span, -(-span // LONGEST_HORIZON), grid=False)


def grid_of(query: Query, contents: Sequence[WindowState], start: int) -> tuple[int, int] | None:
    """Return step and start of the grid of all evaluations, or None if elements trigger them."""
    if Report.PERIODIC in query.times.report and query.times.every:
        return query.times.every, start
    closing = [c for c in contents if c.window.step is not None]
    if Report.ON_WINDOW_CLOSE in query.times.report:
        triggering = closing
    else:
        triggering = list(contents)
    if not triggering or any(c.window.kind is not WindowKind.TIME or c.window.step is None for c in triggering):
        return None
    return common_grid([(c.window.step or 1, c.start) for c in triggering])


def common_grid(grids: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Return the coarsest grid that contains all these, or None if it is very much finer than they are."""
    known = [grid for grid in grids if grid is not None]
    if not known or len(known) < len(grids):
        return None
    step = gcd(*(step for step, _ in known), *(start - known[0][1] for _, start in known))
    if step * LONGEST_HORIZON >= min(step for step, _ in known):
        return (step, known[0][1])
    return None
