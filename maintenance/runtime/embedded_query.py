"""A continuous query inside a Python program: text in, a query to run out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict, Unpack

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.cache.budget.ledger import BudgetRule
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.engine import Feed
from freshkeeper.maintenance.engine.r2s import Result
from freshkeeper.maintenance.engine.service_join.maintenance_settings import (
    MaintenanceSettings,
    PolicyName,
    Shares,
)
from freshkeeper.maintenance.engine.service_join.missing_answers import Missing
from freshkeeper.maintenance.engine.service_join.query_definition import QueryDefinition, RegisteredQuery
from freshkeeper.maintenance.engine.service_join.service_solutions import Fetch
from freshkeeper.maintenance.engine.window_dataset import Graphs
from freshkeeper.maintenance.query.parser import parse
from freshkeeper.maintenance.runtime.build import build, build_all
from freshkeeper.maintenance.runtime.query_runtime import QueryRuntime
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.streams.steps import LONGEST_GAP


class QueryOptions(TypedDict, total=False):
    """How what is remote is fetched; whatever is left out is as each says."""

    policy: str
    """A name; "", as it is unless told, is the best that handles the case."""
    budget: float | SharedBudget
    """Per evaluation and SERVICE pattern: 10, or one that other queries share."""
    bank: float
    """How much of it may be saved for later: 0."""
    shares: Shares | None
    """This query's shares of a budget that others share: None."""
    edges: bool
    """Whether it changes over time which entries a key has: False."""
    fetch: str
    """From the "view", or "always" or "once" for no view."""
    missing: str
    """Whether answers whose SERVICE part was never fetched are given without it: "emit" or "drop"."""


def continuous_query(
    text: str,
    sources: Mapping[str, Source] | None = None,
    graphs: Graphs | None = None,
    *,
    streams: Sequence[str] = (),
    **options: Unpack[QueryOptions],
) -> ContinuousQuery:
    """A query with what answers its SERVICE patterns and its graphs, by IRI; `run` and `run_async` feed it streams.

    `options` are those of `QueryOptions`: policy, budget, bank, shares, edges, fetch, missing. A source where nothing
    changes needs no volatile predicates. `streams` says which there are, for a query in CQELS-QL that asks any of them.

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
    """Several queries by name over the same sources and graphs; `run` and `run_async` take them together.

    SERVICE patterns that are the same but for the names of their variables have one view, which is kept fresh for all
    of their queries. The rest is as in `continuous_query`; with `shares`, one budget is all theirs, and `weights` say
    by name how much of it a query brings to its views: 1 where nothing is said.

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
    return _settings_of(**options)


def _settings_of(
    policy: str = "",
    budget: float | SharedBudget = 10,
    bank: float = 0,
    shares: Shares | None = None,
    edges: bool = False,
    fetch: str = Fetch.VIEW,
    missing: str = Missing.EMIT,
) -> MaintenanceSettings:
    for name, kind, given in (("fetch", Fetch, fetch), ("missing", Missing, missing)):
        known = [each.value for each in kind]
        if given not in known:
            raise ConfigError(f"{name}={given!r}: {nearest(given, known)}")
    rule = budget if isinstance(budget, SharedBudget) else BudgetRule.of(budget, bank)
    return MaintenanceSettings(
        PolicyName(policy), rule, fetch=Fetch(fetch), edges=edges, shares=shares, missing=Missing(missing)
    )
