"""Caches that set no budget, in a file of their own beside summary.csv: marked in every row, and in no ranking."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from freshkeeper.simulator.experiment.summary import mean_and_ci, read_rows, write_rows

if TYPE_CHECKING:
    from freshkeeper.simulator.experiment.experiment_config import GridSetting

FILE = "baselines.csv"
MARK = "sets no budget"


@dataclass(frozen=True)
class Baseline:
    """The results of one cache in one setting: means over seeds."""

    setting: str
    policy: str
    case: str
    knowledge: str
    budget: float
    """γ of the setting, which `ttl` and `refresh-ahead` were given as many requests as it pays for"""
    ttl_ms: float | None
    """the mean TTL over seeds: each trace needs its own for so many requests; None for caches without a TTL"""
    seeds: int
    freshness: float | None
    ci95: float | None
    requests_per_evaluation: float
    """of the evaluations that count"""
    pooled: float | None = None
    """all fresh answers over all answers, the mean over seeds"""
    mark: str = MARK


def baselines_of(setting: "GridSetting", parts: Sequence[Sequence[dict[str, Any]]]) -> list[Baseline]:
    """Return the rows of a setting from the results of all seeds, or none if a seed has none."""
    if not all(parts):
        return []
    return [_row(setting, each) for each in zip(*parts, strict=True)]


def write_baselines(run: Path, rows: Sequence[Baseline]) -> None:
    """Write baselines.csv, if there are any baselines."""
    if rows:
        write_rows(run / FILE, Baseline, rows)


def read_baselines(run: Path) -> list[Baseline]:
    """Read the baselines of a run directory, if it has any."""
    return read_rows(run / FILE, Baseline) if (run / FILE).exists() else []


def _row(setting: "GridSetting", seeds: Sequence[dict[str, Any]]) -> Baseline:
    freshness, ci95 = mean_and_ci([one["freshness"] for one in seeds])
    lasting = [one["ttl_ms"] for one in seeds if one["ttl_ms"] is not None]
    requests = fmean(one["requests"] for one in seeds)
    return Baseline(
        setting=setting.name,
        policy=seeds[0]["policy"],
        case=setting.case.value,
        knowledge=setting.knowledge.value,
        budget=float(setting.rule.per_evaluation),
        ttl_ms=fmean(lasting) if lasting else None,
        seeds=len(seeds),
        freshness=freshness,
        ci95=ci95,
        requests_per_evaluation=requests,
        pooled=mean_and_ci([one["pooled"] for one in seeds])[0],
    )
