"""Building queries that run from parsed ones, their graphs and sources: natively or by the snapshot evaluator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.engine.automaton.matched_queries import MIN_QUERIES, matched_queries
from freshkeeper.maintenance.engine.automaton.pattern_set import PatternSet
from freshkeeper.maintenance.engine.columns.dictionary import Dictionary
from freshkeeper.maintenance.engine.columns.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery, check_query
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimits
from freshkeeper.maintenance.engine.native.moving_query import MovingQuery
from freshkeeper.maintenance.engine.native.native_plan import plan_of
from freshkeeper.maintenance.engine.native.native_query import native_query, query_of_answers
from freshkeeper.maintenance.engine.native.plan_head import EvaluatorKind, NotNativeError
from freshkeeper.maintenance.engine.native.templates import template_query
from freshkeeper.maintenance.engine.service_join.federated_query import FederatedQuery
from freshkeeper.maintenance.engine.service_join.from_view import CachedService
from freshkeeper.maintenance.engine.service_join.lineage import trace
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.engine.service_join.query_services import QueryServices
from freshkeeper.maintenance.engine.service_join.service_answers import (
    NativeService,
    NativeServiceAnswers,
    ServiceGroups,
)
from freshkeeper.maintenance.engine.service_join.service_changes import ServiceChanges
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.engine.service_join.shared_views import ViewRegistry
from freshkeeper.maintenance.engine.snapshot import Graphs, LocalQuery, WindowDataset
from freshkeeper.maintenance.engine.windows import SharedWindows, windows_of
from freshkeeper.maintenance.query.model import Form, Operator, Query
from freshkeeper.maintenance.sources.sources import Source

T = TypeVar("T")
UNLIMITED = EvaluationLimits()
Factory = Callable[[], ContinuousQuery]
"""Creates a query once the views of all queries of a run are known."""


def build(
    query: Query,
    graphs: Graphs | None = None,
    start: int = 0,
    name: str = "",
    sources: Mapping[str, Source] | None = None,
    settings: MaintenanceSettings | None = None,
    evaluator: EvaluatorKind = EvaluatorKind.AUTO,
    dictionary: Dictionary | None = None,
) -> ContinuousQuery:
    """Build one query; `sources` answer its SERVICE patterns, as the settings say.

    `start` is where windows start that do not say it themselves, in ms; native plans take ids from `dictionary`.
    """
    registered = RegisteredQuery(query, name, settings)
    return build_all([registered], graphs, start, sources, evaluator, dictionary=dictionary)[0]


def build_all(
    queries: Sequence[RegisteredQuery],
    graphs: Graphs | None = None,
    start: int = 0,
    sources: Mapping[str, Source] | None = None,
    evaluator: EvaluatorKind = EvaluatorKind.AUTO,
    dictionary: Dictionary | None = None,
    failed: Callable[[RegisteredQuery, Exception], None] | None = None,
    quiet: bool = False,
    views: ViewRegistry | None = None,
    windows: SharedWindows | None = None,
    limits: EvaluationLimits = UNLIMITED,
) -> list[ContinuousQuery]:
    """Build the queries of a run: equal SERVICE patterns have one view, and a shared budget pays for all views.

    `failed` is called with a query that cannot be built, and the others are built; without it the error is raised.
    `quiet` queries may skip evaluations without answers. A service, whose queries come one after the other, passes the
    `views` and `windows` that they may share. `limits` are those of snapshots of queries without their own.
    """
    ids = dictionary or Dictionary()
    builder = QueryBuilder(
        graphs=StaticGraphs.of(graphs or {}, ids),
        start=start,
        views=views or ViewRegistry(sources or {}),
        evaluator=evaluator,
        dictionary=ids,
        windows=windows,
        limits=limits,
    )
    matched: dict[str, RegisteredQuery] = {}
    if quiet and failed is not None and evaluator is not EvaluatorKind.SNAPSHOT:
        matched = _conjunctions(queries)

    def cut(name: str, error: Exception) -> None:
        if failed is not None:
            failed(matched[name], error)

    # All queries are planned before any is created: a view is made for all its users.
    factories: list[tuple[RegisteredQuery, Factory]] = []
    for one in queries:
        if one.name not in matched:
            factory = _guarded(partial(builder.plan, one), one, failed)
            if factory is not None:
                factories.append((one, factory))
        elif one is next(iter(matched.values())):
            together = {name: each.query for name, each in matched.items()}
            factories.append((one, partial(matched_queries, together, ids, start, cut)))
    built = []
    for one, factory in factories:
        query = _guarded(factory, one, failed)
        if query is not None:
            built.append(query)
        if isinstance(query, MovingQuery):
            query.quiet = query.quiet or quiet
    return built


def _guarded(
    step: Callable[[], T], query: RegisteredQuery, failed: Callable[[RegisteredQuery, Exception], None] | None
) -> T | None:
    """Return what a step returns; if it fails, report it and return None, or raise where nobody takes reports."""
    try:
        return step()
    except FreshkeeperError as error:
        if failed is None:
            raise
        failed(query, error)
        return None


def _conjunctions(queries: Sequence[RegisteredQuery]) -> dict[str, RegisteredQuery]:
    """Return the queries that one automaton matches together, if there are enough of them."""
    found = {one.name: one for one in queries if _is_conjunction(one)}
    if len(found) >= MIN_QUERIES:
        return found
    return {}


def _is_conjunction(one: RegisteredQuery) -> bool:
    if one.template is not None or one.definition.limits:
        return False
    if one.settings is not None and one.settings.state is not None:
        return False
    return PatternSet.refusal(one.query) is None


@dataclass(frozen=True, eq=False, kw_only=True)
class QueryBuilder:
    """Plans queries over the graphs, views and windows that they share."""

    graphs: StaticGraphs
    start: int
    views: ViewRegistry
    evaluator: EvaluatorKind
    dictionary: Dictionary
    windows: SharedWindows | None
    limits: EvaluationLimits

    def plan(self, one: RegisteredQuery) -> Factory:
        check_query(one.query)
        if one.template is not None:
            return partial(template_query, one.template, self.graphs, self.start)
        limits = one.definition.limits
        if self.evaluator is EvaluatorKind.NATIVE and limits:
            raise ConfigError("the query cannot run natively: its evaluations have limits")
        if self.evaluator is not EvaluatorKind.SNAPSHOT and not limits:
            try:
                return self._plan_native(one)
            except NotNativeError as reason:
                if self.evaluator is EvaluatorKind.NATIVE:
                    raise ConfigError(f"the query cannot run natively: {reason.within(one.query)}") from None
        return self._plan_snapshot(one)

    def _plan_snapshot(self, one: RegisteredQuery) -> Factory:
        query = one.query
        contents = windows_of(query, self.start, self.dictionary)
        dataset = WindowDataset.create(query, self.graphs, contents, one.definition.limits or self.limits)
        create = partial(
            ContinuousQuery,
            query,
            contents=contents,
            start=self.start,
            name=one.name,
            follow=dataset.apply,
            refresh_graphs=dataset.refresh,
            dictionary=self.dictionary,
            is_native=False,
        )
        # A query that also has a native plan gives the same answers in the same order with both evaluators.
        has_plan = self._has_plan(query)
        if one.settings is None or not query.services:
            return partial(create, answering=LocalQuery(query, dataset, ordered_aggregation=has_plan))
        services = QueryServices(one, one.settings, contents, self.start, views=self.views, dataset=dataset).planned()

        def joined() -> ContinuousQuery:
            solvers = [make_solver() for make_solver in services]
            return create(answering=FederatedQuery(query, solvers, dataset, ordered_aggregation=has_plan))

        return joined

    def _has_plan(self, query: Query) -> bool:
        try:
            plan_of(query, self.graphs)
        except NotNativeError:
            return False
        return True

    def _plan_native(self, one: RegisteredQuery) -> Factory:
        """Plan a query over columns; NotNativeError if it has no such plan."""
        query = one.query
        plan = plan_of(query, self.graphs)
        compares = query.operator is not Operator.RSTREAM
        # The state keeps the whole result that R2S compares the next one with.
        keeps_result = compares and one.settings is not None and one.settings.state is not None
        if keeps_result and query.form is Form.CONSTRUCT:
            raise NotNativeError(
                f"the state keeps the solutions that {query.operator} compares, and CONSTRUCT shows none"
            )
        if not plan.services:
            return partial(
                native_query,
                query,
                plan,
                self.graphs,
                start=self.start,
                name=one.name,
                dictionary=self.dictionary,
                keep_full_result=keeps_result,
                windows=self.windows,
            )
        settings = _check_native(query, one.settings, self.views.sources)
        # Windows of a query that waits for its sources must stay as they are meanwhile: nobody shares them.
        windows = None if self._may_wait(query) else self.windows
        contents = windows_of(query, self.start, self.dictionary, windows)
        services = QueryServices(one, settings, contents, self.start, self.views).planned()

        def create() -> ContinuousQuery:
            joined = FederatedQuery(query, [create() for create in services])
            native = [NativeService(one, self.dictionary) for one in joined.services if isinstance(one, CachedService)]
            kind = NativeServiceAnswers
            if plan.head.grouping is not None:
                kind = ServiceGroups
            elif compares and not keeps_result:
                kind = ServiceChanges
            answers = kind(
                query,
                plan,
                contents,
                StaticGraphs.of(self.graphs, self.dictionary),
                self.dictionary,
                variables=joined.names([one.service.variables for one in native]),
                services=native,
                keep_full_result=keeps_result,
            )
            return query_of_answers(answers, self.start, one.name)

        return create

    def _may_wait(self, query: Query) -> bool:
        sources = [self.views.sources.get(one.endpoint or "") for one in query.outer_services]
        return any(source is not None and source.transport.dispatcher is not None for source in sources)


def _check_native(
    query: Query, settings: MaintenanceSettings | None, sources: Mapping[str, Source]
) -> MaintenanceSettings:
    """Raise NotNativeError unless views alone answer the SERVICE patterns, with copies for each answer."""
    if settings is None or settings.fetch is not Fetch.VIEW:
        raise NotNativeError("its SERVICE patterns are asked without a view")
    if settings.edges:
        raise NotNativeError("edges are refreshed")
    for service in query.outer_services:
        if service.silent and service.endpoint is not None and service.endpoint not in sources:
            raise NotNativeError(f"no source answers SERVICE SILENT <{service.endpoint}>", service.block)
    if trace(query).doubtful:
        raise NotNativeError("none of its answers is sure")
    return settings
