"""Pieces for notebooks: pictures of a run with a sentence each, folded tables, figures and frontiers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshkeeper.commands.screen import TextTable, show
from freshkeeper.maintenance.base.errors import ConfigError, nearest

if TYPE_CHECKING:
    from freshkeeper.maintenance.pages.pictures import Picture
    from freshkeeper.simulator.budget.answer import BudgetAnswer
    from freshkeeper.simulator.experiment.run_directory import Run


@dataclass(frozen=True)
class NotebookPiece:
    """A piece of a notebook: words, and their HTML or picture."""

    words: str
    html: str = ""
    svg: str = ""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        forms = {"text/plain": self.words, "text/html": self.html, "image/svg+xml": self.svg}
        return {form: text for form, text in forms.items() if text}

    def __repr__(self) -> str:
        return self.words


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A run with the tables of its analysis; of several settings one."""

    run: "Run"
    target: float
    setting: str
    figures: Mapping[str, "Picture"]

    def lead(self) -> NotebookPiece:
        """Say how fresh the answers were, policy by policy, against the target."""
        rows = sorted(self._rows("freshness"), key=lambda row: -row["freshness"])
        said = " ".join(f"{self._headline(row)}." for row in rows) or f"{self.run.path}: nothing was answered."
        return NotebookPiece(said, f"<p class='lead'>{escape(said)}</p>")

    def figure(self, key: str) -> None:
        """Show a picture under its sentence; where there is nothing to draw the sentence says so."""
        from IPython import display as jupyter

        display: Callable[[NotebookPiece], None] = jupyter.display
        found = self.figures.get(key)
        said = found.words if found else f"{key}: nothing is known of it in this run."
        display(NotebookPiece(said, f"<p>{escape(said)}</p>"))
        if found:
            display(NotebookPiece(said, svg=found.svg))

    def table(self, name: str, *columns: str) -> NotebookPiece:
        """Show some columns of a table of the analysis, folded."""
        rows = []
        for row in self._rows(name):
            rows.append([_cell_text(row[column]) for column in columns])
        return folded(name.replace("_", " "), columns, rows)

    def limits(self) -> NotebookPiece:
        """Say what cannot be told."""
        notes = [*self.run.notes, *self.run.analysis.missing, *self.run.analysis.remarks]
        listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
        return NotebookPiece("\n".join(notes) or "Nothing is missing.", f"<ul>{listed}</ul>" if notes else "")

    def _rows(self, name: str) -> list[Mapping[str, Any]]:
        return [row for row in self.run.analysis.tables.get(name, ()) if row["setting"] == self.setting]

    def _headline(self, row: Mapping[str, Any]) -> str:
        from freshkeeper.maintenance.base.stats import Estimate
        from freshkeeper.maintenance.pages.amounts import percent, percent_with_interval

        within, half = row["within_target"], row["ci95"]
        wanted = f"{100 * self.target:.3g} % or more"
        met = "" if within is None else f", {wanted} in {percent(within, 0)} of the evaluations"
        basis = "" if row["basis"] == "truth" else f" ({row['basis']})"
        kept = percent_with_interval(Estimate(row["freshness"], nan if half is None else half, 0))
        return f"{row['policy'] or 'The run'} kept {kept} of the answers fresh{met}{basis}"


def judged_run(run: Path, target: float = 0.9, setting: str = "") -> JudgedRun:
    """Read a run or a journal with all that can be shown of it; of several settings the first, unless one is named."""
    from freshkeeper.simulator.experiment.run_directory import read_whole
    from freshkeeper.simulator.report.page import pictures, with_target

    whole = with_target(read_whole(run, target), target)
    settings = list(dict.fromkeys(row["setting"] for row in whole.analysis.tables["freshness"]))
    if setting and setting not in settings:
        raise ConfigError(f"{run} has no setting {setting!r}; {nearest(setting, settings)}")
    chosen = setting or next(iter(settings), "")
    shown = pictures(whole, choice=chosen if len(settings) > 1 else "")
    return JudgedRun(whole, target, chosen, {picture.key: picture for picture in reversed(shown)})


def folded(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> NotebookPiece:
    """Return a table folded behind its title."""
    if not rows:
        return NotebookPiece(f"{title}: nothing is known", f"<p>{escape(title)}: nothing is known</p>")
    top = "".join(f"<th scope='col'>{escape(head)}</th>" for head in heads)
    body = ""
    for row in rows:
        body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    html = (
        f"<details><summary>{escape(title)}</summary><div class='table'><table><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div></details>"
    )
    return NotebookPiece("\n".join("  ".join(row) for row in [list(heads), *rows]), html)


def figure(run: Path, key: str, choice: str = "") -> "Picture":
    """Return one figure of a run's page, the first choice where there are several and none is named."""
    from freshkeeper.simulator.experiment.run_directory import read_whole
    from freshkeeper.simulator.report.page import pictures

    whole = read_whole(run)
    found = pictures(whole, key, choice=choice)
    if not found:
        there = pictures(whole)
        known = [picture.choice for picture in there if picture.key == key]
        if not known:
            known = [picture.key for picture in there]
        raise ConfigError(f"{run} has no figure {key!r} {choice!r}; {nearest(choice or key, sorted(set(known)))}")
    return found[0]


def frontier(answer: "BudgetAnswer") -> "Picture":
    """Return freshness against requests, with the target, as a picture whose words are the answer."""
    from freshkeeper.maintenance.pages.pictures import picture
    from freshkeeper.simulator.budget.budget_page import figure as drawn

    return picture(drawn(answer), "")


def needed(answer: "BudgetAnswer") -> None:
    """Print what each policy and each cache needs for the target."""
    from freshkeeper.commands.budget import as_table

    show(as_table(answer))


def freshness(run: Path) -> None:
    """Print the fresh answers in percent: a row per setting, a column per policy."""
    from freshkeeper.simulator.experiment.paper import freshness_table

    head, *rows = freshness_table(run)
    show(TextTable("", head, rows))


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
