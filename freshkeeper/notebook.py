"""What notebooks show: a figure of a run, its freshness as a table, some columns of an analysis."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshkeeper.commands.screen import show, table
from freshkeeper.policies.errors import ConfigError, nearest

if TYPE_CHECKING:
    from freshkeeper.simulator.budget.answer import Answer
    from freshkeeper.simulator.report.page import Picture


def figure(run: Path, key: str, choice: str = "") -> "Picture":
    """One figure of a run's page, the first choice where there are several and none is named."""
    from freshkeeper.simulator.report.page import pictures

    found = pictures(run, key, choice=choice)
    if not found:
        there = pictures(run)
        known = [picture.choice for picture in there if picture.key == key] or [picture.key for picture in there]
        raise ConfigError(f"{run} has no figure {key!r} {choice!r}; {nearest(choice or key, sorted(set(known)))}")
    return found[0]


def frontier(answer: "Answer") -> "Picture":
    """Freshness against requests, with the target, as a picture whose words are the answer."""
    from freshkeeper.simulator.budget.page import figure as drawn
    from freshkeeper.simulator.report.page import picture

    return picture(drawn(answer), "")


def needed(answer: "Answer") -> None:
    """What each policy and each cache needs for the target."""
    from freshkeeper.commands.budget import as_table

    show(as_table(answer))


def freshness(run: Path) -> None:
    """Settings down, policies across, fresh answers in percent."""
    from freshkeeper.simulator.experiment.paper import freshness_table

    head, *rows = freshness_table(run)
    show(table("", head, rows))


def told(analysis: Mapping[str, Any], name: str, *columns: str) -> None:
    """Some columns of one table of an analysis, or why there is none."""
    rows = analysis.get(name, [])
    if not rows:
        print(f"{name}: nothing is known")
        return
    cells = [[_written(row[column]) for column in columns] for row in rows]
    show(table("", list(columns), cells, words=2))


def _written(value: object) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else "" if value is None else str(value)
