"""Tables of run directories for papers, notebooks and documents, and the runs of the paper's own experiments."""

from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.pages.amounts import config_value
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import load
from freshkeeper.simulator.experiment.scores import scores
from freshkeeper.simulator.experiment.summary import SummaryRow, read_summary


@dataclass(frozen=True)
class Runs:
    """Run directories by the name of their config: existing ones, and new ones with few seeds."""

    place: Path
    seeds: int = 2
    ready: Path | None = None

    def of(self, name: str, baselines: bool = False) -> Path:
        """Return the run of a shipped config, as fig2a, or of a file; with TTL caches it is called fig2a-baselines."""
        directory = f"{name}-baselines" if baselines else name
        if self.ready is not None and (self.ready / directory).is_dir():
            return self.ready / directory
        made = self.place / directory
        if not made.exists():
            changes = {"baselines": True} if baselines else {}
            simulate(load(Path(name), {"seeds": self.seeds, **changes}), made)
        return made


def headline_rows(place: Path) -> list[dict[str, Any]]:
    """Return a row per setting and policy of a run or a journal, with a cell for every swept key."""
    run = run_directory.read(place)
    rows = []
    for score in scores(run):
        setting, series = run.setting(score.series.setting), score.series
        half = None if isnan(score.freshness.half) else score.freshness.half
        rows.append(
            {"case": series.case, "knowledge": series.knowledge}
            | (setting.varied or {"setting": series.setting})
            | {"policy": series.policy, "seeds": score.freshness.seeds, "freshness": score.freshness.mean, "ci95": half}
            | {"requests_per_evaluation": score.requests_per_evaluation, "over_budget": score.over_budget}
        )
    return rows


MEASURED = ("policy", "seeds", "freshness", "ci95", "requests_per_evaluation", "over_budget")
LATEX_SIGNS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}


def latex_table(place: Path) -> str:
    """Return freshness in percent as a LaTeX table (booktabs): settings by policies, the best of a row in bold."""
    rows = headline_rows(place)
    keys = [key for key in rows[0] if key not in MEASURED]
    values = {key: [config_value(row[key]) for row in rows] for key in keys}
    # Values that all rows share belong into the caption.
    keys = [key for key in keys if len(set(values[key])) > 1]
    by_setting: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for n, row in enumerate(rows):
        by_setting.setdefault(tuple(values[key][n] for key in keys), {})[row["policy"]] = row
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    seeds = max(row["seeds"] for row in rows)
    lines = [
        f"% Fresh answers in percent over {seeds} seeds, with 95 % intervals; * is over the budget. Needs booktabs.",
        f"\\begin{{tabular}}{{{'l' * len(keys)}{'r' * len(policies)}}}",
        r"\toprule",
        _latex_row([*map(_latex, keys), *map(_latex, policies)]),
        r"\midrule",
    ]
    for setting, cells in by_setting.items():
        fair = [row["freshness"] for row in cells.values() if not row["over_budget"]]
        best = max(fair, default=nan)
        row_cells = [_latex_cell(cells.get(policy), best) for policy in policies]
        lines.append(_latex_row([*map(_latex, setting), *row_cells]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex_cell(row: dict[str, Any] | None, best: float) -> str:
    if row is None or isnan(row["freshness"]):
        return "--"
    text = f"{100 * row['freshness']:.1f}"
    if row["freshness"] == best:
        text = rf"\textbf{{{text}}}"
    if row["ci95"] is not None:
        text += rf" $\pm$ {100 * row['ci95']:.1f}"
    return text + ("*" if row["over_budget"] else "")


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex(text: str) -> str:
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in text)


def freshness_table(run: Path) -> list[list[str]]:
    """Return freshness in percent: a header, then settings by policies, the bound last; * is over the budget."""
    rows = read_summary(run / "summary.csv")
    policies = dict.fromkeys(row.policy for row in rows)
    found = {(row.setting, row.policy): row for row in rows}
    table = [["setting", *policies, "bound"]]
    for setting in dict.fromkeys(row.setting for row in rows):
        cells = [_cell(found.get((setting, policy))) for policy in policies]
        table.append([setting, *cells, _bound(rows, setting)])
    return table


def lifts(run: Path, policy: str, baseline: str) -> dict[str, float]:
    """(freshness − baseline)/baseline by setting, for a policy over another."""
    of = {(row.setting, row.policy): row.freshness for row in read_summary(run / "summary.csv")}
    pairs = {setting: (of.get((setting, policy)), of.get((setting, baseline))) for setting, _ in of}
    return {setting: mine / other - 1 for setting, (mine, other) in pairs.items() if mine is not None and other}


def _cell(row: SummaryRow | None) -> str:
    if row is None or row.freshness is None:
        return ""
    spent = f"* ({row.requests_per_evaluation:.1f})" if row.over_budget else ""
    return f"{100 * row.freshness:.1f}{spent}"


def _bound(rows: list[SummaryRow], setting: str) -> str:
    for row in rows:
        if row.setting == setting and row.share_of_bound and row.freshness is not None:
            return f"{100 * row.freshness / row.share_of_bound:.1f}"
    return ""
