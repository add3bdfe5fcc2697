"""How the views of a query are kept fresh: policy, budget, what is known of changes, and what is the query's own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from freshkeeper.maintenance.cache.budget.ledger import Amount, BudgetRule
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.evaluation import Evaluation
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.learned import Learned
from freshkeeper.maintenance.engine.evaluation_limits import Limits
from freshkeeper.maintenance.engine.native.templates import Template
from freshkeeper.maintenance.engine.service_join.missing_answers import Missing
from freshkeeper.maintenance.engine.service_join.service_solutions import Fetch
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.policies.base import Case, Policy
from freshkeeper.policies.registry import make

DEFAULTS = {Case.BGP: "plan", Case.AGGREGATE: "bundle"}
"""The policy where none is named."""

Observer = Callable[[str, Manager, Evaluation], None]


@dataclass(frozen=True)
class PolicyName:
    """The policy of a name for either case; "" the best that handles it."""

    name: str = ""

    def __call__(self, case: Case) -> Policy:
        """A policy of its own for each view: by name, or by case where none is said."""
        return make(self.name or DEFAULTS[case])


@dataclass(frozen=True)
class Shares:
    """How one budget is parted between the SERVICE patterns of a query, by source."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """1 for those that are not in it"""
    minimum: Mapping[str, float] = field(default_factory=dict)
    """the part that is a source's own whatever the others want; 0 for those that are not in it"""


@dataclass(frozen=True)
class MaintenanceSettings:
    """How views are kept fresh: each SERVICE pattern has a view and a policy, and its own or a shared budget."""

    policy: Callable[[Case], Policy]
    budget: BudgetRule | SharedBudget
    """a budget that several queries share is made beside them"""
    model: Callable[[], ChangeModel] = Learned
    fetch: Fetch = Fetch.VIEW
    capacity: int | None = None
    seed: int = 0
    edges: bool = False
    """whether edges change over time and are refreshed too"""
    audit: float = 0
    """the share of the budget that measures how fresh the answers are"""
    target: float | None = None
    """the share of answers that is to be fresh: the budget is then the most that an evaluation may cost"""
    shares: Shares | None = None
    """how the budget is shared; None: each SERVICE pattern has all of it"""
    observe: Observer = field(default=lambda *_: None)
    state: State | None = None
    """what keeps the views over a restart"""
    missing: Missing = Missing.DROP
    """what becomes of answers that lack what was never fetched"""
    dropping: Callable[[str], None] = field(default=lambda _: None)
    """who is told why a SERVICE pattern's answers cannot be given without it"""
    speed: float = 1
    """how many times as fast as the clock event time passes: a step is so much shorter to wait in"""


@dataclass(frozen=True, eq=False)
class Registration:
    """One query of a run, with what is its own."""

    query: Query
    name: str = ""
    settings: MaintenanceSettings | None = None
    weight: Amount = 1
    """its part of a shared budget, beside those of other queries"""
    limits: Limits = field(default_factory=Limits)
    """of one evaluation; with any, it is the snapshot evaluator's, which can be cut off"""
    template: Template | None = None
    """several queries that are one plan"""
