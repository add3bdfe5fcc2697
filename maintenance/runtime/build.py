"""From a query, its graphs and its sources to one that runs: by a native plan, or by the snapshot evaluator."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from freshkeeper.maintenance.base.errors import ConfigError, FreshkeeperError
from freshkeeper.maintenance.engine.automaton.matched_queries import FEWEST, matched_queries
from freshkeeper.maintenance.engine.automaton.pattern_set import PatternSet
from freshkeeper.maintenance.engine.continuous_query import ContinuousQuery
from freshkeeper.maintenance.engine.local_query import LocalQuery
from freshkeeper.maintenance.engine.native.dictionary import Dictionary
from freshkeeper.maintenance.engine.native.evaluator_kind import EvaluatorKind
from freshkeeper.maintenance.engine.native.moving_query import MovingQuery
from freshkeeper.maintenance.engine.native.native_plan import plan_of
from freshkeeper.maintenance.engine.native.native_query import continuous, native_query
from freshkeeper.maintenance.engine.native.plan_head import NotNativeError
from freshkeeper.maintenance.engine.native.service_answers import NativeService, NativeServiceAnswers
from freshkeeper.maintenance.engine.native.service_changes import ServiceChanges
from freshkeeper.maintenance.engine.native.service_groups import ServiceGroups
from freshkeeper.maintenance.engine.native.shared_windows import SharedWindows, slot_contents
from freshkeeper.maintenance.engine.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.engine.native.templates import template_query
from freshkeeper.maintenance.engine.service_join.federated_query import FederatedQuery
from freshkeeper.maintenance.engine.service_join.from_view import FromView
from freshkeeper.maintenance.engine.service_join.lineage import trace
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.engine.service_join.query_services import QueryServices
from freshkeeper.maintenance.engine.service_join.service_solutions import Fetch
from freshkeeper.maintenance.engine.service_join.shared_views import Views
from freshkeeper.maintenance.engine.window_dataset import Graphs
from freshkeeper.maintenance.engine.window_kinds import content_of
from freshkeeper.maintenance.query.model import Form, Operator, Query
from freshkeeper.maintenance.sources.sources import Source

T = TypeVar("T")


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
    """A query that runs over its graphs; its SERVICE patterns are answered from `sources` as `settings` say.

    `start` is t0 of windows that do not say theirs. Native plans have their ids from `dictionary`.
    """
    return build_all([RegisteredQuery(query, name, settings)], graphs, start, sources, evaluator, dictionary)[0]


def build_all(
    registrations: Sequence[RegisteredQuery],
    graphs: Graphs | None = None,
    start: int = 0,
    sources: Mapping[str, Source] | None = None,
    evaluator: EvaluatorKind = EvaluatorKind.AUTO,
    dictionary: Dictionary | None = None,
    failed: Callable[[RegisteredQuery, Exception], None] | None = None,
    quiet: bool = False,
    views: Views | None = None,
    windows: SharedWindows | None = None,
) -> list[ContinuousQuery]:
    """The queries of one run: SERVICE patterns that are the same have one view, and a shared budget is all theirs.

    `failed` is told of a query that cannot be built, and the others are; without it that ends the building. `quiet`
    ones may leave out evaluations without answers. `views` and `windows` are those of a service, whose queries come one
    by one.
    """
    ids = Dictionary() if dictionary is None else dictionary
    static = StaticGraphs.of(graphs or {}, ids)
    views = Views(sources or {}) if views is None else views

    def tried(registration: RegisteredQuery, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except FreshkeeperError as error:
            if failed is None:
                raise
            failed(registration, error)
            return None

    matched = _matched(registrations) if quiet and evaluator is not EvaluatorKind.SNAPSHOT and failed else {}

    def cut(name: str, error: Exception) -> None:
        if failed is not None:
            failed(matched[name], error)

    planned: list[tuple[RegisteredQuery, Callable[[], ContinuousQuery] | None]] = []
    for each in registrations:
        if each.name not in matched:
            planned.append((each, tried(each, partial(_planned, each, static, start, views, evaluator, ids, windows))))
        elif each is next(iter(matched.values())):
            queries = {name: one.query for name, one in matched.items()}
            planned.append((each, partial(matched_queries, queries, ids, start, cut)))
    made = [tried(each, make) for each, make in planned if make is not None]
    built = [query for query in made if query is not None]
    for query in built:
        if isinstance(query, MovingQuery):
            query.quiet = query.quiet or quiet
    return built


def _matched(registrations: Sequence[RegisteredQuery]) -> dict[str, RegisteredQuery]:
    """The queries that are matched together, where there are some."""
    found = {each.name: each for each in registrations if _is_conjunction(each)}
    return found if len(found) >= FEWEST else {}


def _is_conjunction(one: RegisteredQuery) -> bool:
    free = one.template is None and not one.definition.limits and (one.settings is None or one.settings.state is None)
    return free and PatternSet.refusal(one.query) is None


def _planned(
    registration: RegisteredQuery,
    graphs: StaticGraphs,
    start: int,
    views: "Views",
    evaluator: EvaluatorKind,
    dictionary: Dictionary,
    windows: SharedWindows | None,
) -> Callable[[], ContinuousQuery]:
    """How a query is made when it is known what the others are."""
    if registration.template is not None:
        return partial(template_query, registration.template, graphs, start)
    query, name, settings = registration.query, registration.name, registration.settings
    made = partial(ContinuousQuery, query, graphs=graphs, start=start, name=name, limits=registration.definition.limits)
    if evaluator is EvaluatorKind.NATIVE and registration.definition.limits:
        raise ConfigError("the query cannot run natively: its evaluations have limits")
    if evaluator is not EvaluatorKind.SNAPSHOT and not registration.definition.limits:
        try:
            return _native(registration, graphs, start, views, dictionary, windows)
        except NotNativeError as reason:
            if evaluator is EvaluatorKind.NATIVE:
                raise ConfigError(f"the query cannot run natively: {reason.within(query)}") from None
    contents = [content_of(window, start) for window in query.windows]
    planned = _has_plan(query, graphs)
    if settings is None or not query.services:
        return partial(made, contents=contents, answering=LocalQuery(query, one_order=planned))
    services = QueryServices(registration, settings, contents, start, views).planned()
    return lambda: made(
        contents=contents, answering=FederatedQuery(query, [make() for make in services], one_order=planned)
    )


def _has_plan(query: Query, graphs: Graphs) -> bool:
    """Whether the native evaluator may run it elsewhere, and says the same then."""
    try:
        plan_of(query, graphs)
    except NotNativeError:
        return False
    return True


def _native(
    registration: RegisteredQuery,
    graphs: Graphs,
    start: int,
    views: "Views",
    dictionary: Dictionary,
    windows: SharedWindows | None,
) -> Callable[[], ContinuousQuery]:
    """How a query is made that runs by a plan; NotNativeError where there is none."""
    query, settings, name = registration.query, registration.settings, registration.name
    plan = plan_of(query, graphs)
    compares = query.operator is not Operator.RSTREAM
    tells_all = compares and settings is not None and settings.state is not None
    if tells_all and query.form is Form.CONSTRUCT:
        raise NotNativeError(f"the state keeps the solutions that {query.operator} compares, and CONSTRUCT shows none")
    if not plan.services:
        return partial(native_query, query, plan, graphs, start, name, dictionary, tells_all, windows)
    checked = _check_native(query, settings)
    contents = slot_contents(query, start, dictionary, None if _waits(query, views.sources) else windows)
    services = QueryServices(registration, checked, contents, start, views).planned()

    def made() -> ContinuousQuery:
        joined = FederatedQuery(query, [make() for make in services])
        native = [NativeService(one, dictionary) for one in joined.services if isinstance(one, FromView)]
        names = joined.names([one.service.variables for one in native])
        static = StaticGraphs.of(graphs, dictionary)
        kind = ServiceChanges if compares and not tells_all else NativeServiceAnswers
        if plan.head.grouping is not None:
            kind = ServiceGroups
        answers = kind(query, plan, contents, static, dictionary, variables=names, services=native, tells_all=tells_all)
        return continuous(answers, graphs, start, name)

    return made


def _waits(query: Query, sources: Mapping[str, Source]) -> bool:
    """Whether an evaluation may have to wait for a source while others go on."""
    asked = [sources.get(one.endpoint or "") for one in query.outer_services]
    return any(source is not None and source.transport.dispatcher is not None for source in asked)


def _check_native(query: Query, settings: MaintenanceSettings | None) -> MaintenanceSettings:
    """Whether views alone answer the SERVICE patterns, each answer with copies of its own."""
    if settings is None or settings.fetch is not Fetch.VIEW:
        raise NotNativeError("its SERVICE patterns are asked without a view")
    if settings.edges:
        raise NotNativeError("edges are refreshed")
    if trace(query).doubtful:
        raise NotNativeError("none of its answers is sure")
    return settings
