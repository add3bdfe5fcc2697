"""The public face: the names that people import, and the `freshkeeper` command.

A ten-line example is in the README; `docs/writing-a-policy.md` shows how to add a policy. Every name is loaded when it
is first used: type checkers read the imports below, and so does `__getattr__`.
"""

import inspect
import re
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freshkeeper.maintenance.base.closure import Closure
    from freshkeeper.maintenance.base.errors import FreshkeeperError
    from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger
    from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
    from freshkeeper.maintenance.cache.demand.inspection import to_networkx
    from freshkeeper.maintenance.cache.demand.window import WindowSpec
    from freshkeeper.maintenance.cache.evaluate_together import evaluate_together
    from freshkeeper.maintenance.cache.evaluation import Answer, Answers, Evaluation, Record
    from freshkeeper.maintenance.cache.manager import Manager
    from freshkeeper.maintenance.cache.view.changes import ChangeModel
    from freshkeeper.maintenance.cache.view.learned import Learned, Poisson
    from freshkeeper.maintenance.cache.view.published import Published
    from freshkeeper.maintenance.cache.view.schedule import FixedSchedule, RecordedChanges
    from freshkeeper.maintenance.cache.view.survival import Survival
    from freshkeeper.maintenance.engine.automaton.pattern_set import PatternSet
    from freshkeeper.maintenance.enricher.async_enricher import AsyncEnricher
    from freshkeeper.maintenance.enricher.cached import cached
    from freshkeeper.maintenance.enricher.enricher import Enricher
    from freshkeeper.maintenance.enricher.enricher_journal import EnricherJournal
    from freshkeeper.maintenance.enricher.lookup_requests import RetryAfter
    from freshkeeper.maintenance.enricher.lookups.http_lookup import HttpLookup
    from freshkeeper.maintenance.enricher.lookups.redis_lookup import RedisLookup
    from freshkeeper.maintenance.enricher.lookups.sql_changes import SqlChanges
    from freshkeeper.maintenance.enricher.lookups.sql_lookup import SqlLookup
    from freshkeeper.maintenance.enricher.lookups.whole_tables import enrich_table
    from freshkeeper.maintenance.enricher.remote_enricher import RemoteEnricher
    from freshkeeper.maintenance.enricher.row import CachedRow, Row, RowError
    from freshkeeper.maintenance.enricher.statistics import Stats
    from freshkeeper.maintenance.fetching.endpoint import (
        Copy,
        Delivery,
        Endpoint,
        Expanded,
        Fetched,
        Order,
        Price,
        Remote,
    )
    from freshkeeper.maintenance.query.parser import parse as parse_query
    from freshkeeper.maintenance.runtime.asynchronous import run_async
    from freshkeeper.maintenance.runtime.embedded_query import continuous_queries, continuous_query, run
    from freshkeeper.maintenance.sources.memory import InMemory
    from freshkeeper.maintenance.sources.source_contract import check_source
    from freshkeeper.maintenance.sources.sources import EmbeddedSource, Source, load_source
    from freshkeeper.maintenance.sources.sparql_lookup import SparqlLookup
    from freshkeeper.maintenance.spark.enrich import enrich_windows
    from freshkeeper.policies.base import BasePolicy, Budget, Case, Graph, Knowledge, Policy, Results, Round, Selection
    from freshkeeper.policies.contract import check as check_policy
    from freshkeeper.policies.contract import check_contract
    from freshkeeper.policies.ranked import Ranked
    from freshkeeper.policies.registry import make as policy
    from freshkeeper.policies.rounds_by_hand import round_of
    from freshkeeper.simulation import Simulation, simulate

    __version__: str

__all__ = [
    "Answer",
    "Answers",
    "AsyncEnricher",
    "BasePolicy",
    "Budget",
    "BudgetRule",
    "CachedRow",
    "Case",
    "ChangeModel",
    "Closure",
    "Copy",
    "Delivery",
    "EmbeddedSource",
    "Endpoint",
    "Enricher",
    "EnricherJournal",
    "Evaluation",
    "Expanded",
    "Fetched",
    "FixedSchedule",
    "FreshkeeperError",
    "Graph",
    "HttpLookup",
    "InMemory",
    "Knowledge",
    "Learned",
    "Ledger",
    "Manager",
    "Order",
    "PatternSet",
    "Poisson",
    "Policy",
    "Price",
    "Published",
    "Ranked",
    "Record",
    "RecordedChanges",
    "RedisLookup",
    "Remote",
    "RemoteEnricher",
    "Results",
    "RetryAfter",
    "Round",
    "Row",
    "RowError",
    "Selection",
    "SharedBudget",
    "Simulation",
    "Source",
    "SparqlLookup",
    "SqlChanges",
    "SqlLookup",
    "Stats",
    "Survival",
    "WindowSpec",
    "__version__",
    "cached",
    "check_contract",
    "check_policy",
    "check_source",
    "continuous_queries",
    "continuous_query",
    "enrich_table",
    "enrich_windows",
    "evaluate_together",
    "load_source",
    "parse_query",
    "policy",
    "round_of",
    "run",
    "run_async",
    "simulate",
    "to_networkx",
]

EXTRAS = {
    "maintenance.cache.demand.inspection": "graph",
    "maintenance.cache": "manager",
    "maintenance.engine": "rdf",
    "maintenance.query": "rdf",
    "maintenance.runtime": "run",
    "maintenance.sources": "run",
    "maintenance.spark": "spark",
    "policies": "manager",
}
"""The extra that all of a package needs, longer names first: other names need the core alone."""


@cache
def _names() -> dict[str, tuple[str, str]]:
    """Map every public name to its module and its name there, read from the imports above."""
    found = {}
    source = inspect.getsource(sys.modules[__name__]).partition("__version__: str")[0]
    for module, names in re.findall(r"^    from (\S+) import (\([^)]*\)|.*)$", source, re.MULTILINE):
        for name, alias in re.findall(r"(\w+)(?: as (\w+))?", names):
            found[alias or name] = (module, name)
    return found


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"freshkeeper has no {name!r}")
    from freshkeeper.maintenance.base.errors import naming_extra

    module, own = _names()[name]
    extra = next((extra for package, extra in EXTRAS.items() if module.startswith(f"freshkeeper.{package}")), "")
    with naming_extra(name, extra):
        found = getattr(import_module(module), own)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes a while, and few ask for it

    try:
        return version("freshkeeper")
    except PackageNotFoundError:  # as a zip on a Spark executor
        return "unknown"
