"""The paper's experiments from run directories, for notebooks and documents, beside the numbers of 002."""

from dataclasses import dataclass
from pathlib import Path

from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import load
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
