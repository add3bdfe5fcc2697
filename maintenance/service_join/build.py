"""From a query, its graphs and its sources to one that runs."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import gcd
from typing import TypeVar

from freshkeeper.maintenance.budget.ledger import Amount, BudgetRule, Ledger, exact
from freshkeeper.maintenance.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.demand.round_builder import LONGEST_HORIZON
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.evaluation import Evaluation
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.evaluator_kind import EvaluatorKind
from freshkeeper.maintenance.native.native_query import continuous, native_query, slot_contents
from freshkeeper.maintenance.native.plan import plan_of
from freshkeeper.maintenance.native.plan_head import NotNativeError
from freshkeeper.maintenance.native.service_answers import NativeService, NativeServiceAnswers
from freshkeeper.maintenance.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.query.federation.service_patterns import ServicePattern
from freshkeeper.maintenance.query.federation.split import Split
from freshkeeper.maintenance.query.model import Operator, Query, Report, WindowKind
from freshkeeper.maintenance.rsp.continuous_query import ContinuousQuery
from freshkeeper.maintenance.rsp.evaluation_limits import Limits
from freshkeeper.maintenance.rsp.local_query import LocalQuery
from freshkeeper.maintenance.rsp.window_content import Content
from freshkeeper.maintenance.rsp.window_dataset import Graphs
from freshkeeper.maintenance.rsp.window_kinds import content_of
from freshkeeper.maintenance.service.pattern_endpoint import PatternEndpoint
from freshkeeper.maintenance.service.sources import Source
from freshkeeper.maintenance.service_join.direct import Directly, Whole
from freshkeeper.maintenance.service_join.edge_refreshes import KeepingEdges
from freshkeeper.maintenance.service_join.federated_query import FederatedQuery
from freshkeeper.maintenance.service_join.from_view import FromView
from freshkeeper.maintenance.service_join.lineage import aggregated, trace
from freshkeeper.maintenance.service_join.same_pattern import NumberedPattern
from freshkeeper.maintenance.service_join.service_checks import check_known, check_shape, split_for
from freshkeeper.maintenance.service_join.service_solutions import Fetch, Service
from freshkeeper.maintenance.service_join.service_view import ServiceView
from freshkeeper.maintenance.service_join.window_mappings import WindowPart
from freshkeeper.maintenance.state.evidence_log import EvidenceLog
from freshkeeper.maintenance.state.run_state import State
from freshkeeper.maintenance.state.view_store import NoStore, ViewStore
from freshkeeper.maintenance.view.changes import ChangeModel
from freshkeeper.maintenance.view.learned import Learned
from freshkeeper.maintenance.view.unchanging import Unchanging
from freshkeeper.policies.base import Case, Policy
from freshkeeper.policies.errors import ConfigError, FreshkeeperError
from freshkeeper.policies.registry import make

LONGEST_MS = 60_000
"""What is planned for where no window says how long its content stays."""
SECOND = 1_000
"""How often a shared budget is paid where no grid says how often a query is evaluated."""
PATIENCE = 0.9
"""The share of a step that sources may take."""
DEFAULTS = {Case.BGP: "plan", Case.AGGREGATE: "bundle"}
"""The policy where none is named."""


Observer = Callable[[str, Manager, Evaluation], None]
T = TypeVar("T")
NAMED = 3
"""So many queries of a view are named where it is told of."""


@dataclass(frozen=True)
class PolicyName:
    """The policy of a name for either case; "" the best that handles it."""

    name: str = ""

    def __call__(self, case: Case) -> Policy:
        """A new one."""
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
    shares: Shares | None = None
    """how the budget is shared; None: each SERVICE pattern has all of it"""
    observe: Observer = field(default=lambda *_: None)
    state: State | None = None
    """what keeps the views over a restart"""
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
    return build_all([Registration(query, name, settings)], graphs, start, sources, evaluator, dictionary)[0]


def build_all(
    registrations: Sequence[Registration],
    graphs: Graphs | None = None,
    start: int = 0,
    sources: Mapping[str, Source] | None = None,
    evaluator: EvaluatorKind = EvaluatorKind.AUTO,
    dictionary: Dictionary | None = None,
    failed: Callable[[Registration, FreshkeeperError], None] | None = None,
) -> list[ContinuousQuery]:
    """The queries of one run: SERVICE patterns that are the same have one view, and a shared budget is all theirs.

    `failed` is told of a query that cannot be built, and the others are; without it that ends the building.
    """
    views, ids = Views(sources or {}), Dictionary() if dictionary is None else dictionary

    def tried(registration: Registration, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except FreshkeeperError as error:
            if failed is None:
                raise
            failed(registration, error)
            return None

    planned = [
        (each, tried(each, partial(_planned, each, graphs or {}, start, views, evaluator, ids)))
        for each in registrations
    ]
    built = [tried(each, make) for each, make in planned if make is not None]
    return [query for query in built if query is not None]


def _planned(
    registration: Registration,
    graphs: Graphs,
    start: int,
    views: "Views",
    evaluator: EvaluatorKind,
    dictionary: Dictionary,
) -> Callable[[], ContinuousQuery]:
    """How a query is made when it is known what the others are."""
    query, name, settings = registration.query, registration.name, registration.settings
    made = partial(ContinuousQuery, query, graphs=graphs, start=start, name=name, limits=registration.limits)
    if evaluator is EvaluatorKind.NATIVE and registration.limits:
        raise ConfigError("the query cannot run natively: its evaluations have limits")
    if evaluator is not EvaluatorKind.SNAPSHOT and not registration.limits:
        try:
            return _native(registration, graphs, start, views, dictionary)
        except NotNativeError as reason:
            if evaluator is EvaluatorKind.NATIVE:
                raise ConfigError(f"the query cannot run natively: {reason.within(query)}") from None
    contents = [content_of(window, start) for window in query.windows]
    if settings is None or not query.services:
        return partial(made, contents=contents, answering=LocalQuery(query))
    services = _Services(registration, settings, contents, start, views).planned()
    return lambda: made(contents=contents, answering=FederatedQuery(query, [make() for make in services]))


@dataclass(frozen=True, eq=False)
class WantedView:
    """What one SERVICE pattern of one query wants of a view."""

    registration: Registration
    settings: MaintenanceSettings
    contents: Sequence[Content]
    grid: tuple[int, int] | None
    numbered: NumberedPattern
    source: Source
    policy: Policy
    case: Case
    number: int
    """of the pattern among all of the run"""

    @property
    def endpoint(self) -> str:
        """The IRI of the source."""
        return self.numbered.pattern.endpoint or ""

    @property
    def key(self) -> Hashable:
        """Equal for those that one view can answer."""
        one = self.settings
        return (self.numbered.key, self.case, one.policy, one.model, one.budget, one.capacity, one.edges, one.audit)


@dataclass(eq=False)
class Views:
    """The views of a run: one for all SERVICE patterns that are the same and are kept fresh in the same way."""

    sources: Mapping[str, Source]
    patterns: int = 0
    """of all queries so far"""
    grids: list[tuple[int, int] | None] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """of the views that each source has"""
    _wanted: dict[Hashable, list[WantedView]] = field(default_factory=dict)
    _made: dict[Hashable, tuple[NumberedPattern, ServiceView]] = field(default_factory=dict)
    _shared: dict[BudgetRule, SharedBudget] = field(default_factory=dict)

    def want(self, wanted: WantedView) -> None:
        """One more user of a view."""
        users = self._wanted.setdefault(wanted.key, [])
        self.counts[wanted.endpoint] += not users
        users.append(wanted)

    def service(self, wanted: WantedView) -> FromView:
        """A query's use of its view, when all users are known."""
        if wanted.key not in self._made:
            self._made[wanted.key] = wanted.numbered, self._view(self._wanted[wanted.key])
        first, view = self._made[wanted.key]
        names = wanted.numbered.names_of(first)
        part = WindowPart.of(
            wanted.registration.query,
            wanted.numbered.pattern,
            [names[name] for name in view.endpoint.split.sn],
            wanted.contents,
        )
        return FromView(part, view, tuple(names[name] for name in view.endpoint.variables))

    def patience(self, settings: MaintenanceSettings) -> float:
        """Seconds that an instant waits for its sources, all at once: a tenth of the step is left for the rest."""
        step = self._step
        return (math.inf if step is None else PATIENCE * step / 1000) / settings.speed

    @cached_property
    def _step(self) -> int | None:
        """How far apart the instants are at which any query is due, when all are known."""
        together = common_grid(self.grids)
        return together[0] if together else min((grid[0] for grid in self.grids if grid), default=None)

    def _view(self, users: Sequence[WantedView]) -> ServiceView:
        """For all its users: their windows together, and as often as any of them is due."""
        first, settings = users[0], users[0].settings
        source, split = first.source, first.numbered.split
        endpoint = PatternEndpoint(split, source.transport, source.price, self.patience(settings))
        edges = KeepingEdges(endpoint) if settings.edges and not split.one_to_one else None
        known = Unchanging() if source.changing is None else (source.model or settings.model)()
        recorded = None if settings.state is None else EvidenceLog(known)
        contents = [content for user in users for content in user.contents]
        manager = Manager(
            spec_of(contents, common_grid([user.grid for user in users])),
            edges or endpoint,
            first.policy,
            self._budget(users),
            recorded or known,
            first.case,
            settings.capacity,
            settings.seed,
            audit=settings.audit,
        )
        store: ViewStore = NoStore()
        if settings.state is not None and recorded is not None:
            store = settings.state.store(first.number, first.endpoint, manager, endpoint, recorded)
        return ServiceView(endpoint, manager, edges, partial(settings.observe, _label(users), manager), store)

    def _budget(self, users: Sequence[WantedView]) -> BudgetRule | Ledger:
        """Its own, or its part of the shared one: as much as its users' weights come to."""
        settings, name = users[0].settings, users[0].endpoint
        if settings.shares is None and isinstance(settings.budget, BudgetRule):
            return settings.budget
        shares, budget = settings.shares or Shares(), settings.budget
        if isinstance(budget, BudgetRule):
            budget = self._shared.setdefault(budget, SharedBudget(budget, self._step or SECOND))
        weight = sum(exact(user.registration.weight, f"the weight of {user.registration.name}") for user in users)
        return budget.member(
            name, exact(shares.weights.get(name, 1)) * weight, exact(shares.minimum.get(name, 0)) / self.counts[name]
        )


def _label(users: Sequence[WantedView]) -> str:
    """Which view it is, where it is told of: the queries that have it, and the source."""
    names = list(dict.fromkeys(user.registration.name for user in users if user.registration.name))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more} {users[0].endpoint}".strip()


def _native(
    registration: Registration, graphs: Graphs, start: int, views: "Views", dictionary: Dictionary
) -> Callable[[], ContinuousQuery]:
    """How a query is made that runs by a plan; NotNativeError where there is none."""
    query, settings, name = registration.query, registration.settings, registration.name
    plan = plan_of(query, graphs)
    if settings is not None and settings.state is not None and query.operator is not Operator.RSTREAM:
        raise NotNativeError(f"the state keeps what {query.operator} compares with")
    if not plan.services:
        return partial(native_query, query, plan, graphs, start, name, dictionary)
    checked = _check_native(query, settings)
    contents = slot_contents(query, start, dictionary)
    services = _Services(registration, checked, contents, start, views).planned()

    def made() -> ContinuousQuery:
        joined = FederatedQuery(query, [make() for make in services])
        native = [NativeService(one, dictionary) for one in joined.services if isinstance(one, FromView)]
        names = joined.names([one.service.variables for one in native])
        static = StaticGraphs.of(graphs, dictionary)
        answers = NativeServiceAnswers(query, plan, contents, static, dictionary, variables=names, services=native)
        return continuous(answers, graphs, start, name)

    return made


def _check_native(query: Query, settings: MaintenanceSettings | None) -> MaintenanceSettings:
    """Whether views alone answer the SERVICE patterns, each answer with copies of its own."""
    if settings is None or settings.fetch is not Fetch.VIEW:
        raise NotNativeError("its SERVICE patterns are asked without a view")
    if settings.edges:
        raise NotNativeError("edges are refreshed")
    if settings.audit:
        raise NotNativeError("answers are audited")
    if trace(query).doubtful:
        raise NotNativeError("none of its answers is sure")
    return settings


@dataclass(frozen=True, eq=False)
class _Services:
    """What the services of one query are made from."""

    registration: Registration
    settings: MaintenanceSettings
    contents: Sequence[Content]
    start: int
    views: Views

    def planned(self) -> list[Callable[[], Service]]:
        """How each of them is made."""
        query, sources = self.registration.query, self.views.sources
        for pattern in query.services:
            check_known(pattern, sources)
        check_shape(query)
        made = [self._service(n, pattern) for n, pattern in enumerate(query.outer_services, self.views.patterns)]
        self.views.patterns += len(made)
        self.views.grids.append(grid_of(query, self.contents, self.start))
        for one in made:
            if isinstance(one, WantedView):
                self.views.want(one)
        return [partial(self.views.service, one) if isinstance(one, WantedView) else one for one in made]

    def _service(self, number: int, pattern: ServicePattern) -> WantedView | Callable[[], Service]:
        settings, query, views = self.settings, self.registration.query, self.views
        source = views.sources.get(pattern.endpoint or "")
        keep, parts = settings.fetch is Fetch.ONCE, split_for(query, pattern, source, settings.fetch)
        if parts is None or source is None:
            transports = {name: one.transport for name, one in views.sources.items()}
            return lambda: Whole(pattern, transports, keep, views.patience(settings))
        if settings.fetch is Fetch.VIEW:
            return self._wanted(number, pattern, parts, source)
        part = WindowPart.of(query, pattern, parts.sn, self.contents)
        return lambda: Directly(
            part,
            PatternEndpoint(parts, source.transport, source.price, views.patience(settings)),
            pattern.silent,
            keep,
        )

    def _wanted(self, number: int, pattern: ServicePattern, parts: Split, source: Source) -> WantedView:
        query, settings = self.registration.query, self.settings
        case = Case.AGGREGATE if aggregated(query) and not trace(query).hidden else Case.BGP
        if settings.edges and not parts.one_to_one and settings.audit:
            raise ConfigError(
                "audits cannot check answers whose edges are refreshed: leave out --audit or --edges refreshed"
            )
        grid, numbered = grid_of(query, self.contents, self.start), NumberedPattern(pattern, parts)
        policy = settings.policy(case)
        return WantedView(self.registration, settings, self.contents, grid, numbered, source, policy, case, number)


def spec_of(contents: Sequence[Content], grid: tuple[int, int] | None) -> WindowSpec:
    """The window as the manager sees it: how long the longest window holds things, and when evaluations are due."""
    spans = [c.window.range or 0 for c in contents if c.window.kind in (WindowKind.TIME, WindowKind.NOW)]
    if grid is not None:
        step, start = grid
        return WindowSpec(max([*spans, step] if spans else [LONGEST_MS]), step, start)
    span = max(spans, default=LONGEST_MS)
    return WindowSpec(span, -(-span // LONGEST_HORIZON), grid=False)


def grid_of(query: Query, contents: Sequence[Content], start: int) -> tuple[int, int] | None:
    """Step and start of the grid that all evaluations are on; nothing where elements call for them."""
    if Report.PERIODIC in query.times.report and query.times.every:
        return query.times.every, start
    closing = [c for c in contents if c.window.step is not None]
    asked = closing if Report.ON_WINDOW_CLOSE in query.times.report else list(contents)
    if not asked or any(c.window.kind is not WindowKind.TIME or c.window.step is None for c in asked):
        return None
    return common_grid([(c.window.step or 1, c.start) for c in asked])


def common_grid(grids: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Step and start of the grid that all of these are on, unless it is very much finer than they are."""
    known = [grid for grid in grids if grid is not None]
    if not known or len(known) < len(grids):
        return None
    step = gcd(*(step for step, _ in known), *(start - known[0][1] for _, start in known))
    return (step, known[0][1]) if step * LONGEST_HORIZON >= min(step for step, _ in known) else None
