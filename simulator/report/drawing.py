"""What figures are made of: a plot, its rows for each choice, and the same in words for who cannot see it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any, TypeVar

from freshkeeper.simulator.report.charts import apart
from freshkeeper.simulator.report.costs import Costs
from freshkeeper.simulator.report.groups import Group
from freshkeeper.simulator.report.scores import BOUND
from freshkeeper.simulator.report.staleness import Staleness
from freshkeeper.simulator.report.styles import Style

T = TypeVar("T")
Rows = dict[str, list[dict[str, Any]]]
"""Datasets by name, each a list of blocks: `is` holds what all rows share, `columns` what they do not."""

NONE: Mapping[str, float] = {}
SETTING = "setting"
"""The chooser that all figures of single settings share."""


@dataclass(frozen=True)
class View:
    """What one figure shows for one choice."""

    rows: Rows
    words: str


@dataclass(frozen=True)
class Figure:
    """One plot with all it can show. `chooser` names the list of choices; "" where there is but one."""

    key: str
    title: str
    spec: dict[str, Any]
    views: dict[str, View]
    caption: str = ""
    chooser: str = ""
    wide: bool = False


@dataclass(frozen=True, eq=False)
class Drawn:
    """What the figures of one group are made from; a line has `points` points at most."""

    group: Group
    costs: Costs
    staleness: Staleness
    styles: Mapping[str, Style]
    points: int

    @cached_property
    def at(self) -> dict[tuple[str, str], int]:
        """Which series each setting and policy of the group is."""
        mine = self.group.case, self.group.knowledge
        every = enumerate(self.group.run.evaluations.series)
        return {(s.setting, s.policy): i for i, s in every if (s.case, s.knowledge) == mine}

    def of(self, known: Mapping[int, T]) -> dict[tuple[str, str], T]:
        """What is known by series, by setting and policy."""
        return {pair: known[at] for pair, at in self.at.items() if at in known}

    @property
    def chooser(self) -> str:
        """The chooser of settings, where there is something to choose."""
        return SETTING if len(self.group.settings) > 1 else ""

    def policies(self, setting: str, bounds: bool = True) -> list[str]:
        """The policies of a setting, the best first, then those over the budget, then bounds."""
        there = [p for p in self.group.policies if (setting, p) in self.group.scores]
        there = there if bounds else [p for p in there if not self.group.is_bound(p)]
        rank = {p: 2 if self.group.is_bound(p) else int(p in self.group.overspent) for p in there}
        return sorted(there, key=lambda p: (rank[p], -self.group.sort_key(setting, p)))

    def shown(self, setting: str, bounds: bool = True) -> list[str]:
        """The same with the clairvoyant bound, also where it was computed but not run."""
        found = self.policies(setting, bounds)
        implied = bounds and BOUND not in found and not isnan(self.group.headline(setting, BOUND).mean)
        return [*found, BOUND] if implied else found

    def is_unlimited(self, policy: str) -> bool:
        """The bound that spends what it likes: all is fresh with it, and beside that all others would look alike."""
        return (self.group.run.contender(policy).name or policy) == "unlimited"


def framed(x: Any, ends: Mapping[str, float], axis: tuple[float, float], rules: Mapping[str, float] = NONE) -> Rows:
    """The ends of the axis, and the names of policies and rules where their lines end, moved apart."""
    low, high = axis
    at = short(apart([*ends.values(), *rules.values()], low, high).tolist())
    policies = {"policy": list(ends), "text": list(ends), "y": at[: len(ends)]}
    return {
        "frame": [{"is": {}, "columns": {"y": short([low, high])}}],
        "names": [
            {"is": {"x": x}, "columns": policies},
            {"is": {"x": x, "policy": ""}, "columns": {"text": list(rules), "y": at[len(ends) :]}},
        ],
        "rules": [{"is": {}, "columns": {"y": list(rules.values())}}] if rules else [],
    }


def row(**values: Any) -> dict[str, Any]:
    """A block of one row."""
    return {"is": values, "columns": {}}


def expanded(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Blocks as rows: what page.js does, for PNGs."""
    rows: list[dict[str, Any]] = []
    for block in blocks:
        columns = block["columns"]
        values = zip(*columns.values(), strict=True) if columns else [()]
        rows += [{**block["is"], **dict(zip(columns, one, strict=True))} for one in values]
    return rows


def short(numbers: Iterable[float]) -> list[float | int | None]:
    """Five digits are more than a screen shows; instants, which are large, keep theirs; NaN is a gap."""
    rounded = (number if abs(number) >= 1e5 else float(f"{number:.5g}") for number in numbers)
    return [None if isnan(number) else int(number) if number == int(number) else number for number in rounded]
