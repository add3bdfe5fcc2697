"""A continuous query inside a Python program: text in, a query to run out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypedDict, TypeVar, Unpack

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.cache_settings import CacheSettings
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Feed
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import (
    MaintenanceSettings,
    Shares,
)
from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition, RegisteredQuery
from freshkeeper.maintenance.engine.service_join.service_checks import Missing
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.engine.snapshot import Graphs
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build, build_all
from freshkeeper.maintenance.runtime.query_runtime import QueryRuntime
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.streams.gap_limit import LONGEST_GAP

Choice = TypeVar("Choice", bound=StrEnum)


class QueryOptions(TypedDict, total=False):
    """The options of a query: how entries of its sources are cached. Defaults are those of `CacheSettings`."""

    policy: str
    """a policy, as "plan" or "plan(windows=2)"; "" (default) selects plan, and bundle for aggregates"""
    budget: float | SharedBudget
    """cost units per evaluation and SERVICE pattern (default: 10), or a budget that other queries share"""
    bank: float
    """the cost units that may be saved for later evaluations (default: 0)"""
    target: float
    """the share of answers that should be fresh; the budget is then the maximum per evaluation"""
    audit: float
    """the share of the budget that measures how fresh the answers are (default: 0)"""
    capacity: int
    """the maximal number of cached entries of a view (default: no limit)"""
    seed: int
    """random seed of policies and audits (default: 0)"""
    shares: Shares | None
    """the shares of this query in a budget that others share (default: None)"""
    edges: bool
    """whether the entries that a lookup key needs change over time (default: False)"""
    fetch: str
    """"view" (default), or without a view "always" or "once\""""
    missing: str
    """whether answers whose SERVICE part was never fetched are given without it: "emit" (default) or "drop\""""


def continuous_query(
    text: str,
    sources: Mapping[str, Source] | None = None,
    graphs: Graphs | None = None,
    *,
    streams: Sequence[str] = (),
    **options: Unpack[QueryOptions],
) -> ContinuousQuery:
    """Build a query over sources and graphs, both by IRI; `run` and `run_async` feed it streams.

    `options` are those of `QueryOptions`. A source where nothing changes needs no volatile predicates. `streams` names
    all streams, for a query in CQELS-QL that reads any of them.

    >>> from freshkeeper import Source, continuous_query
    >>> text = '''PREFIX : <urn:>
    ... SELECT ?topic ?n FROM NAMED WINDOW :posts ON :stream [RANGE PT4S STEP PT1S]
    ... { WINDOW :posts { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n } }'''
    >>> blog = Source.embedded("PREFIX : <urn:> :jazz :discussedBy :ann . :ann :followers 10 .", ["urn:followers"])
    >>> query = continuous_query(text, {"urn:blog": blog}, budget=1)
    >>> [window.stream for window in query.query.windows]
    ['urn:stream']
    """
    return build(parse(text, streams=streams), graphs, sources=sources, settings=_settings(options))


def continuous_queries(
    texts: Mapping[str, str],
    sources: Mapping[str, Source] | None = None,
    graphs: Graphs | None = None,
    *,
    streams: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    **options: Unpack[QueryOptions],
) -> list[ContinuousQuery]:
    """Build several queries by name over the same sources and graphs; `run` and `run_async` take them together.

    SERVICE patterns that differ only in the names of their variables have one view, which is kept fresh for all of
    their queries. With `shares`, all queries share one budget, and `weights` say by name how much of it a query brings
    to its views (default: 1). The other parameters are those of `continuous_query`.

    >>> from freshkeeper import Source, continuous_queries
    >>> text = '''PREFIX : <urn:>
    ... SELECT ?topic ?n FROM NAMED WINDOW :posts ON :stream [RANGE PT4S STEP PT1S]
    ... { WINDOW :posts { ?post :topic ?topic } SERVICE :blog { ?topic :discussedBy ?user . ?user :followers ?n } }'''
    >>> blog = Source.embedded("PREFIX : <urn:> :jazz :discussedBy :ann . :ann :followers 10 .", ["urn:followers"])
    >>> queries = continuous_queries({"all": text, "short": text.replace("PT4S", "PT2S")}, {"urn:blog": blog}, budget=1)
    >>> [query.name for query in queries]
    ['all', 'short']
    """
    settings, weight_of = _settings(options), weights or {}
    queries = []
    for name, text in texts.items():
        definition = QueryDefinition(query=text, weight=weight_of.get(name, 1))
        queries.append(RegisteredQuery(parse(text, streams=streams), name, settings, definition))
    return build_all(queries, graphs, sources=sources)


def run(
    query: ContinuousQuery | Sequence[ContinuousQuery],
    streams: Mapping[str, Feed],
    delay: int = 0,
    drain: bool = False,
    gap: int = LONGEST_GAP,
) -> Iterator[Result]:
    """Run one query, or several, over streams; yield their results.

    Results of several queries (see `continuous_queries`) come by time and then in order of the queries, and carry the
    query's name. `delay` is the lateness in milliseconds that every stream is allowed, `gap` the longest plausible step
    in its timestamps; `drain` continues until the windows are empty. The first query that fails ends the run.

    >>> from pyoxigraph import NamedNode, Triple
    >>> from freshkeeper import continuous_query, run
    >>> text = '''PREFIX : <urn:>
    ... SELECT ?topic FROM NAMED WINDOW :w ON :s [RANGE PT2S STEP PT1S] { WINDOW :w { ?post :topic ?topic } }'''
    >>> post = Triple(NamedNode("urn:p"), NamedNode("urn:topic"), NamedNode("urn:jazz"))
    >>> results = run(continuous_query(text), {"urn:s": [(500, post), (2500, post)]})
    >>> [(result.t, len(result.answers)) for result in results]
    [(1000, 1), (2000, 1)]
    """
    runtime = QueryRuntime.of(query, drain, gap)
    for name, feed in streams.items():
        runtime.listen(name, feed, delay)
    return runtime.results()


def _settings(options: QueryOptions) -> MaintenanceSettings:
    known = list(QueryOptions.__annotations__)
    for name in options:
        if name not in known:
            raise ConfigError(f"a query has no option {name!r}: {nearest(name, known)}")
    fetch = _one_of(Fetch, "fetch", options.get("fetch", Fetch.VIEW))
    missing = _one_of(Missing, "missing", options.get("missing", Missing.EMIT))
    budget = options.get("budget")
    shared = budget if isinstance(budget, SharedBudget) else None
    chosen = {name: value for name, value in options.items() if name in CacheSettings.model_fields}
    chosen["edges"] = "refreshed" if options.get("edges") else "kept"
    if shared is not None:
        del chosen["budget"]
    settings = MaintenanceSettings.of(validated(CacheSettings, chosen), budget=shared)
    return replace(settings, fetch=fetch, missing=missing, shares=options.get("shares"))


def _one_of(kind: type[Choice], name: str, value: str) -> Choice:
    known = [one.value for one in kind]
    if value not in known:
        raise ConfigError(f"{name}={value!r}: {nearest(value, known)}")
    return kind(value)
