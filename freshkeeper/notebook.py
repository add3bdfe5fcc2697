"""Pieces for notebooks: pictures of a run with a sentence each, folded tables, figures and frontiers."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshkeeper.commands.screen import TextTable
from freshkeeper.maintenance.base.errors import ConfigError, nearest

if TYPE_CHECKING:
    from freshkeeper.maintenance.pages.pictures import Picture
    from freshkeeper.simulator.budget.sheet import Sheet
    from freshkeeper.simulator.experiment.run_directory import Run
    from freshkeeper.simulator.experiment.scores import Score


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

    @cached_property
    def scores(self) -> "list[Score]":
        """The scores of the setting, the best first: shares of all answers, or of a drawn workload means."""
        from freshkeeper.simulator.report.groups import groups

        found = []
        for group in groups(self.run):
            for policy in group.policies_in(self.setting):
                score = group.scores[self.setting, policy]
                if not isnan(score.freshness.mean):
                    found.append(score)
        return found

    def lead(self) -> NotebookPiece:
        """Say how fresh the answers were, policy by policy, against the target."""
        sentences = [f"{self._headline(score)}." for score in self.scores] or [
            f"{self.run.path}: nothing was answered."
        ]
        first, others = sentences[0], " ".join(sentences[1:])
        return NotebookPiece(" ".join(sentences), f"<p class='lead'>{escape(first)}</p><p>{escape(others)}</p>")

    def beside_ttl(self) -> None:
        """Show the policies beside a TTL cache that makes as many requests as the best of them."""
        from freshkeeper.maintenance.base.errors import FreshkeeperError
        from freshkeeper.maintenance.base.stats import Estimate
        from freshkeeper.maintenance.pages.amounts import duration, percent, percent_with_interval, points

        fair = [score for score in self.scores if self._keeps_budget(score)]
        if not fair:
            show_sentences("Nothing was answered within a budget, so there is nothing to compare with a TTL cache.")
            return
        best = fair[0]
        try:
            share, ttl_ms = self._ttl(best)
        except FreshkeeperError as error:
            show_sentences(f"What a TTL cache would have done cannot be told: {error}.")
            return
        ahead = Estimate(best.freshness.mean - share, float("nan"), 0)
        name, side = best.series.policy, "ahead of it" if ahead.mean >= 0 else "behind it"
        words = (
            f"A TTL cache that makes as many requests, whose entries live {duration(ttl_ms)}, keeps {percent(share)} "
            f"fresh; {name} is {points(ahead)} {side}."
        )
        shares = {score.series.policy: percent_with_interval(score.freshness) for score in self.scores}
        values = {score.series.policy: score.freshness.mean for score in self.scores}
        show_sentences(words)
        _show(
            bars(
                "The policies beside a TTL cache",
                "of answers fresh",
                values | {"ttl": share},
                shares | {"ttl": percent(share)},
                words,
            )
        )

    def _keeps_budget(self, score: "Score") -> bool:
        contender = self.run.contender(score.series.policy)
        return not contender.is_bound and contender.budgeted and not score.over_budget

    def _ttl(self, best: "Score") -> tuple[float, float]:
        """Return the share of fresh answers and the TTL: as the run has it, else by a replay of the journal."""
        from freshkeeper.simulator.report.groups import is_drawn

        for cache in self.run.baselines:
            share = cache.freshness if is_drawn(self.run) else cache.pooled
            if (cache.setting, cache.policy) == (self.setting, "ttl") and share is not None and cache.ttl_ms:
                return share, cache.ttl_ms
        return _replayed_ttl(self.run.path, self.setting, best.requests_per_evaluation)

    def figure(self, key: str) -> None:
        """Show a picture under its sentence; where there is nothing to draw the sentence says so."""
        found = self.figures.get(key)
        show_sentences(found.words if found else f"{key.replace('-', ' ')}: nothing is known of it in this run.")
        if found:
            _show(found)

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

    def _headline(self, score: "Score") -> str:
        from freshkeeper.maintenance.pages.amounts import percent, percent_with_interval
        from freshkeeper.simulator.report.groups import is_drawn

        policy = score.series.policy
        within = next((row["within_target"] for row in self._rows("freshness") if row["policy"] == policy), None)
        wanted = f"{100 * self.target:.3g} % or more"
        met = "" if within is None else f", {wanted} in {percent(within, 0)} of the evaluations"
        basis = "" if score.basis == "truth" else f" ({score.basis})"
        mean = " (mean over evaluations)" if is_drawn(self.run) else ""
        share = percent_with_interval(score.freshness)
        return f"{policy or 'The run'} kept {share} of the answers fresh{mean}{met}{basis}"


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


def _replayed_ttl(run: Path, setting: str, requests: float) -> tuple[float, float]:
    """Return the share of fresh answers and the TTL of a cache that sends so many requests in a replay."""
    from freshkeeper.simulator.experiment.replay import replay_of
    from freshkeeper.simulator.experiment.run_parts import task_of
    from freshkeeper.simulator.experiment.ttl_caches import Caches, Reads

    with tempfile.TemporaryDirectory(prefix="freshkeeper-") as place:
        task = task_of(replay_of(run, {"policies": "lru"}, Path(place) / "trace", setting).experiment, 0, 0)
        _, point = Caches([Reads.of(task)], task.warm_up, drawn=False).spending(requests)
    return point.freshness.mean, point.knob


def _show(picture: "Picture") -> None:
    _display(NotebookPiece(picture.words, svg=picture.svg))


def _display(piece: NotebookPiece) -> None:
    from IPython import display as jupyter

    display: Callable[[NotebookPiece], None] = jupyter.display
    display(piece)


def bars(title: str, axis: str, values: Mapping[str, float], texts: Mapping[str, str], words: str) -> "Picture":
    """Return bars with a text beside each, the first one on top; shares are percentages."""
    from freshkeeper.maintenance.pages.charts import PERCENT, Axis, Chart, ChartForm
    from freshkeeper.maintenance.pages.figures import ChartTable
    from freshkeeper.maintenance.pages.figures import figure as chart_of
    from freshkeeper.maintenance.pages.pictures import picture
    from freshkeeper.maintenance.pages.styles import looks

    styles = looks({label: label.split()[0] for label in values})
    rows = []
    for label, value in values.items():
        rows.append({"policy": label, "mid": value, "text": texts[label], "paint": styles[label].paint})
    chart = Chart(form=ChartForm.BARS, x=Axis(axis, PERCENT if max(values.values()) <= 1 else ""))
    return picture(chart_of("bars", title, chart, {"": ChartTable(rows, words)}, styles), "")


def folded(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> NotebookPiece:
    """Return a table folded behind its title."""
    if not rows:
        return NotebookPiece(f"{title}: nothing is known", f"<p>{escape(title)}: nothing is known</p>")
    html = f"<details><summary>{escape(title)}</summary>{_table_html(heads, rows)}</details>"
    return NotebookPiece("\n".join("  ".join(row) for row in [list(heads), *rows]), html)


def show_table(table: TextTable) -> None:
    """Show a table; printed, it is drawn with lines."""
    html = _table_html(table.columns, table.rows)
    if table.title:
        html = f"<p><b>{escape(table.title)}</b></p>{html}"
    if table.caption:
        html += f"<p class='caption'>{escape(table.caption)}</p>"
    _display(NotebookPiece("\n".join([table.title, *table.lines(120), table.caption]).strip(), html))


def show_sentences(*sentences: str) -> None:
    """Show sentences, a line for each."""
    _display(NotebookPiece("\n".join(sentences), "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)))


def _table_html(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th scope='col'>{escape(head)}</th>" for head in heads)
    body = ""
    for row in rows:
        body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    return f"<div class='table'><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


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


def frontier(sheet: "Sheet") -> "Picture":
    """Return freshness against requests, with the target, as a picture whose words are the answer."""
    from freshkeeper.maintenance.pages.pictures import picture
    from freshkeeper.simulator.budget.budget_page import figure as drawn

    return picture(drawn(sheet), "")


def needed(sheet: "Sheet") -> None:
    """Show what each policy and each cache needs for the target."""
    from freshkeeper.commands.budget import as_table

    show_table(as_table(sheet))


def freshness(run: Path) -> None:
    """Show the fresh answers in percent: a row per setting, a column per policy."""
    from freshkeeper.simulator.experiment.paper import freshness_table

    head, *rows = freshness_table(run)
    show_table(TextTable("", head, rows))


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
