"""The question: a target freshness, a trace and window, policies, and the price of a request."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.journal.run_json import About
from freshkeeper.policies.base import Knowledge
from freshkeeper.policies.registry import find
from freshkeeper.simulator.budget.sheet import PERIODS, check_question
from freshkeeper.simulator.experiment.experiment_config import Experiment, GridSetting, PolicySettings, settings_of

ASSUMED: Mapping[str, Any] = {"knowledge": Knowledge.LEARNED.value, "start": "cold", "policies": "lru,gain,plan"}
"""Defaults for recordings: only refreshes reveal changes, and the view starts empty."""


@dataclass(frozen=True)
class Question:
    """A question about budgets; `experiment` has one setting."""

    experiment: Experiment
    target: float
    price: float = 0.0
    per: str = "day"

    def __post_init__(self) -> None:
        """Raise ConfigError for a question without an answer, before anything runs."""
        check_question(self.target, self.price, self.per)
        if self.experiment.sweep:
            what = min(self.experiment.sweep)
            raise ConfigError(f"{what} has several values; a budget is asked for one of them: give it one, with --set")
        if not self.policies:
            raise ConfigError("name a policy that heeds a budget (--policy): the ones that do not are compared anyway")

    @property
    def policies(self) -> list[PolicySettings]:
        """The policies that heed a budget."""
        return [one for one in self.experiment.policies if _heeds_budget(one, settings_of(self.experiment)[0])]

    @property
    def periods(self) -> float:
        """The number of evaluations in a period."""
        return PERIODS[self.per] / self.experiment.step

    @property
    def draws_traces(self) -> bool:
        """True if every seed draws a trace, False for a recorded trace."""
        return self.experiment.trace is None

    def with_budget(self, policy: PolicySettings, budget: float) -> Experiment:
        """Return the experiment that tries one budget with one policy."""
        return self.experiment.model_copy(update={"budget": budget, "policies": [policy], "bound": "never"})


def assumed(place: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given keys and defaults for the others: a simulated run provides all but the policies."""
    about = About.read(place) or About()
    simulated = "workload" in about.config
    usual = {key: word for key, word in ASSUMED.items() if not simulated or key == "policies"}
    return {**usual, **given}


def _heeds_budget(chosen: PolicySettings, setting: GridSetting) -> bool:
    kind = find(chosen.name)
    budgeted = getattr(kind, "budgeted", True) and not kind.is_bound and chosen.make().keeps_budget
    if budgeted and not (setting.case in kind.cases and setting.knowledge in kind.knowledge):
        raise ConfigError(
            f"the policy {chosen.title!r} does not handle {setting.case} answers with {setting.knowledge} knowledge"
        )
    return budgeted
