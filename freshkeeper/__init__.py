"""The public face: the names that people import, and the `freshkeeper` command.

A ten-line example is in the README; `docs/writing-a-policy.md` shows how to add a policy. Names that bring much with
them, the query language and Spark, are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from freshkeeper.maintenance.budget.ledger import BudgetRule, Ledger
from freshkeeper.maintenance.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.demand.inspection import to_networkx
from freshkeeper.maintenance.demand.window import Closure, WindowSpec
from freshkeeper.maintenance.evaluation import Answer, Answers, Evaluation, Record
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.service.embedded import Embedded
from freshkeeper.maintenance.service.endpoint import Copy, Endpoint, Expanded, Fetched, Price
from freshkeeper.maintenance.service.memory import InMemory
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned, Poisson
from freshkeeper.maintenance.view.published import Published
from freshkeeper.maintenance.view.schedule import FixedSchedule, RecordedChanges
from freshkeeper.maintenance.view.survival import Survival
from freshkeeper.policies.base import BasePolicy, Budget, Case, Graph, Knowledge, Policy, Round, Selection
from freshkeeper.policies.contract import check as check_policy
from freshkeeper.policies.errors import FreshkeeperError
from freshkeeper.policies.registry import make as policy
from freshkeeper.policies.rounds_by_hand import round_of

if TYPE_CHECKING:
    from freshkeeper.maintenance.pipeline.enrich import enrich
    from freshkeeper.maintenance.query import parse as parse_query
    from freshkeeper.maintenance.rsp.engine import run
    from freshkeeper.maintenance.run.asynchronous import run_async
    from freshkeeper.maintenance.run.embedded_query import continuous_query
    from freshkeeper.maintenance.service.sources import EmbeddedSource, Source, load_source

__version__ = "0.1.0"

_LATER = {
    "continuous_query": ("freshkeeper.maintenance.run.embedded_query", "continuous_query"),
    "run": ("freshkeeper.maintenance.rsp.engine", "run"),
    "run_async": ("freshkeeper.maintenance.run.asynchronous", "run_async"),
    "Source": ("freshkeeper.maintenance.service.sources", "Source"),
    "EmbeddedSource": ("freshkeeper.maintenance.service.sources", "EmbeddedSource"),
    "load_source": ("freshkeeper.maintenance.service.sources", "load_source"),
    "parse_query": ("freshkeeper.maintenance.query", "parse"),
    "enrich": ("freshkeeper.maintenance.pipeline.enrich", "enrich"),
}

__all__ = [
    "Answer",
    "Answers",
    "Budget",
    "BudgetRule",
    "Case",
    "ChangeModel",
    "Closure",
    "Copy",
    "Embedded",
    "EmbeddedSource",
    "Endpoint",
    "Evaluation",
    "Expanded",
    "Fetched",
    "FixedSchedule",
    "FreshkeeperError",
    "Graph",
    "BasePolicy",
    "InMemory",
    "Knowledge",
    "Learned",
    "Ledger",
    "Manager",
    "Poisson",
    "Policy",
    "Price",
    "Published",
    "Record",
    "RecordedChanges",
    "Round",
    "Selection",
    "SharedBudget",
    "Source",
    "Survival",
    "WindowSpec",
    "__version__",
    "check_policy",
    "continuous_query",
    "enrich",
    "load_source",
    "parse_query",
    "policy",
    "round_of",
    "run",
    "run_async",
    "to_networkx",
]


def __getattr__(name: str) -> object:
    """A name that is loaded when it is first used."""
    if name not in _LATER:
        raise AttributeError(f"freshkeeper has no {name!r}")
    module, own = _LATER[name]
    return getattr(import_module(module), own)
