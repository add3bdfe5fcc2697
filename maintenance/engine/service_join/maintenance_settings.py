"""Settings for keeping the views of a query fresh: policy, budget, knowledge of changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.cache_settings import CacheSettings
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.engine.service_join.service_checks import Missing
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.policies.base import Case, Policy
from freshkeeper.policies.registry import make

DEFAULTS = {Case.BGP: "plan", Case.AGGREGATE: "bundle"}
"""The default policy for each case."""

Observer = Callable[[str, Manager, Evaluation], None]


@dataclass(frozen=True)
class PolicyName:
    """Creates policies by name; "" selects the best one for each case."""

    name: str = ""

    def __call__(self, case: Case) -> Policy:
        """Create a policy for one view."""
        return make(self.name or DEFAULTS[case])


@dataclass(frozen=True)
class Shares:
    """The division of one budget between the SERVICE patterns of a query, by source IRI."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """1 for sources that are not listed"""
    minimum: Mapping[str, float] = field(default_factory=dict)
    """the share that is reserved for a source; 0 for sources that are not listed"""


@dataclass(frozen=True)
class MaintenanceSettings:
    """Settings of views: each SERVICE pattern has a view and a policy, and its own or a shared budget."""

    policy: Callable[[Case], Policy]
    budget: BudgetRule | SharedBudget
    """a rule, or a budget that several queries share and that was created beside them"""
    model: Callable[[], ChangeModel] = Learned
    fetch: Fetch = Fetch.VIEW
    capacity: int | None = None
    seed: int = 0
    edges: bool = False
    """edges change over time and are refreshed too"""
    audit: float = 0
    """the share of the budget that is spent on measuring how fresh answers are"""
    target: float | None = None
    """the share of answers that shall be fresh; the budget is then the maximum per evaluation"""
    shares: Shares | None = None
    """how the budget is divided; None: each SERVICE pattern has all of it"""
    observe: Observer = field(default=lambda *_: None)
    state: State | None = None
    """stores the views across a restart"""
    missing: Missing = Missing.DROP
    """what happens to answers that lack an entry that was never fetched"""
    dropping: Callable[[str], None] = field(default=lambda _: None)
    """called with the reason why answers with missing entries are dropped"""
    skips_policy_errors: bool = False
    """an evaluation whose policy fails refreshes nothing; otherwise its query fails"""
    speed: float = 1
    """event time per wall-clock time; steps are shorter by this factor when waiting for sources"""

    @classmethod
    def of(
        cls,
        settings: CacheSettings,
        observe: Observer = lambda *_: None,
        state: State | None = None,
        budget: SharedBudget | None = None,
        minimum: Mapping[str, float] | None = None,
    ) -> "MaintenanceSettings":
        """Return the settings of a configuration; `budget` is one that queries share beside it."""
        return cls(
            PolicyName(settings.policy),
            budget or settings.rule,
            capacity=settings.capacity,
            seed=settings.seed,
            edges=settings.edges == "refreshed",
            audit=settings.audit,
            target=settings.target,
            shares=Shares(settings.weights, minimum or {}) if settings.shared else None,
            observe=observe,
            state=state,
        )
