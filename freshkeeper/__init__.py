"""The public face: the names that people import, and the `freshkeeper` command.

A ten-line example is in the README; `docs/writing-a-policy.md` shows how to add a policy. Names that bring much with
them, the query language and Spark, are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from maintenance.budget import BudgetRule, Ledger
from maintenance.evaluation import Answer, Answers, Evaluation, Record
from maintenance.inspection import to_networkx
from maintenance.manager import Manager
from maintenance.service.embedded import Embedded
from maintenance.service.endpoint import Copy, Endpoint, Expanded, Fetched, Price
from maintenance.service.memory import InMemory
from maintenance.sharing import SharedBudget
from maintenance.view.changes import ChangeModel
from maintenance.view.learned import Learned, Poisson
from maintenance.view.published import Published
from maintenance.view.schedule import FixedSchedule, RecordedChanges
from maintenance.view.survival import Survival
from maintenance.window import Closure, WindowSpec
from policies.base import Budget, Case, Graph, Honest, Knowledge, Policy, Round, Selection
from policies.contract import check as check_policy
from policies.errors import FreshkeeperError
from policies.registry import make as policy
from policies.rounds import round_of

if TYPE_CHECKING:
    from maintenance.engine.asynchronous import run_async
    from maintenance.engine.embedding import continuous_query
    from maintenance.engine.engine import run
    from maintenance.engine.sources import EmbeddedSource, Source, load_source
    from maintenance.pipeline.enrich import enrich
    from maintenance.query import parse as parse_query

__version__ = "0.1.0"

_LATER = {
    "continuous_query": ("maintenance.engine.embedding", "continuous_query"),
    "run": ("maintenance.engine.engine", "run"),
    "run_async": ("maintenance.engine.asynchronous", "run_async"),
    "Source": ("maintenance.engine.sources", "Source"),
    "EmbeddedSource": ("maintenance.engine.sources", "EmbeddedSource"),
    "load_source": ("maintenance.engine.sources", "load_source"),
    "parse_query": ("maintenance.query", "parse"),
    "enrich": ("maintenance.pipeline.enrich", "enrich"),
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
    "Honest",
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
