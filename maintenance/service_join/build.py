"""From a query, its graphs and its sources to one that runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from math import gcd

from freshkeeper.maintenance.budget.ledger import BudgetRule, Ledger
from freshkeeper.maintenance.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.demand.round_builder import LONGEST_HORIZON
from freshkeeper.maintenance.demand.window import WindowSpec
from freshkeeper.maintenance.evaluation import Evaluation
from freshkeeper.maintenance.manager import Manager
from freshkeeper.maintenance.native.dictionary import Dictionary
from freshkeeper.maintenance.native.native_query import continuous, native_query, slot_contents
from freshkeeper.maintenance.native.plan import plan_of
from freshkeeper.maintenance.native.plan_head import NotNativeError
from freshkeeper.maintenance.native.service_answers import NativeService, NativeServiceAnswers
from freshkeeper.maintenance.native.static_graphs import StaticGraphs
from freshkeeper.maintenance.query.federation.service_patterns import ServicePattern
from freshkeeper.maintenance.query.federation.split import Split, split_of
from freshkeeper.maintenance.query.model import Form, Operator, Query, Report, WindowKind
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
from freshkeeper.maintenance.query.syntax.tree import Bind, Filter, Minus, bound_variables
from freshkeeper.maintenance.rsp.continuous_query import ContinuousQuery
from freshkeeper.maintenance.rsp.local_query import LocalQuery
from freshkeeper.maintenance.rsp.window_content import Content
from freshkeeper.maintenance.rsp.window_dataset import Graphs
from freshkeeper.maintenance.rsp.window_kinds import content_of
from freshkeeper.maintenance.service.annotations import with_validity
from freshkeeper.maintenance.service.pattern_endpoint import PatternEndpoint
from freshkeeper.maintenance.service.sources import Source
from freshkeeper.maintenance.service_join.direct import Directly, Whole
from freshkeeper.maintenance.service_join.edge_refreshes import KeepingEdges
from freshkeeper.maintenance.service_join.federated_query import FederatedQuery
from freshkeeper.maintenance.service_join.from_view import FromView
from freshkeeper.maintenance.service_join.lineage import aggregated, trace
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
from freshkeeper.policies.errors import ConfigError, nearest

LONGEST_MS = 60_000
"""What is planned for where no window says how long its content stays."""
SECOND = 1_000
"""How often a shared budget is paid where no grid says how often a query is evaluated."""
PATIENCE = 0.9
"""The share of a step that sources may take."""
DEFAULTS = {Case.BGP: "plan", Case.AGGREGATE: "bundle"}
"""The policy where none is named."""


class EvaluatorKind(StrEnum):
    """Which evaluator runs a query."""

    AUTO = "auto"
    NATIVE = "native"
    SNAPSHOT = "snapshot"


Observer = Callable[[str, Manager, Evaluation], None]


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
    if evaluator is not EvaluatorKind.SNAPSHOT:
        try:
            return _native(query, graphs or {}, start, name, sources or {}, settings, dictionary or Dictionary())
        except NotNativeError as reason:
            if evaluator is EvaluatorKind.NATIVE:
                raise ConfigError(f"the query cannot run natively: {reason}") from None
    contents = [content_of(window, start) for window in query.windows]
    if settings is None or not query.services:
        return ContinuousQuery(query, contents, LocalQuery(query), graphs or {}, start, name)
    answering = _Services(query, contents, start, sources or {}, settings).joined()
    return ContinuousQuery(query, contents, answering, graphs or {}, start, name)


def _native(
    query: Query, graphs: Graphs, start: int, name: str, sources: Mapping[str, Source],
    settings: MaintenanceSettings | None, dictionary: Dictionary,
) -> ContinuousQuery:  # fmt: skip
    """A query that runs by a plan; NotNativeError where there is none, before anything is made."""
    plan = plan_of(query, graphs)
    if not plan.services:
        kept = settings is not None and settings.state is not None
        return native_query(query, plan, graphs, start, name, dictionary, kept)
    _check_native(query, settings)
    assert settings is not None
    contents, static = slot_contents(query, start, dictionary), StaticGraphs.of(graphs, dictionary)
    joined = _Services(query, contents, start, sources, settings).joined()
    services = [NativeService(one, dictionary) for one in joined.services if isinstance(one, FromView)]
    names = joined.names([one.service.variables for one in services])
    answers = NativeServiceAnswers(
        query, plan, contents, static, dictionary, query.operator, variables=names, services=services
    )
    return continuous(answers, graphs, start, name)


def _check_native(query: Query, settings: MaintenanceSettings | None) -> None:
    """Whether views alone answer the SERVICE patterns, each answer with copies of its own."""
    if settings is None or settings.fetch is not Fetch.VIEW:
        raise NotNativeError("its SERVICE patterns are asked without a view")
    if settings.edges:
        raise NotNativeError("edges are refreshed")
    if settings.audit:
        raise NotNativeError("answers are audited")
    if settings.state is not None and query.operator is not Operator.RSTREAM:
        raise NotNativeError(f"the state keeps what {query.operator} compares with")
    if trace(query).doubtful:
        raise NotNativeError("none of its answers is sure")


@dataclass(frozen=True, eq=False)
class _Services:
    """What the services of one query are made from."""

    query: Query
    contents: Sequence[Content]
    start: int
    sources: Mapping[str, Source]
    settings: MaintenanceSettings

    def joined(self) -> FederatedQuery:
        """All of them together."""
        for pattern in self.query.services:
            _check_known(pattern, self.sources)
        _check_shape(self.query)
        patterns = zip(self.query.outer_services, self._budgets(), strict=True)
        return FederatedQuery(self.query, [self._service(n, *each) for n, each in enumerate(patterns)])

    def _budgets(self) -> list[BudgetRule | Ledger]:
        """One for each SERVICE pattern; a shared one is paid as often as the query is evaluated."""
        patterns, budget = self.query.outer_services, self.settings.budget
        if self.settings.shares is None and isinstance(budget, BudgetRule):
            return [budget] * len(patterns)
        shares, grid = self.settings.shares or Shares(), self._grid
        shared = SharedBudget(budget, SECOND if grid is None else grid[0]) if isinstance(budget, BudgetRule) else budget
        names = [pattern.endpoint or "" for pattern in patterns]
        return [
            shared.member(name, shares.weights.get(name, 1), shares.minimum.get(name, 0) / names.count(name))
            for name in names
        ]

    def _service(self, number: int, pattern: ServicePattern, budget: BudgetRule | Ledger) -> Service:
        settings, source = self.settings, self.sources.get(pattern.endpoint or "")
        keep, parts = settings.fetch is Fetch.ONCE, _split(self.query, pattern, source, settings.fetch)
        if parts is None or source is None:
            transports = {name: one.transport for name, one in self.sources.items()}
            return Whole(pattern, transports, keep, self._patience)
        part = WindowPart.of(self.query, pattern, parts.sn, self.contents)
        endpoint = PatternEndpoint(parts, source.transport, source.price, self._patience)
        if settings.fetch is not Fetch.VIEW:
            return Directly(part, endpoint, pattern.silent, keep)
        return self._view(number, part, endpoint, source, budget)

    def _view(
        self, number: int, part: WindowPart, endpoint: PatternEndpoint, source: Source, budget: BudgetRule | Ledger
    ) -> FromView:
        query, settings = self.query, self.settings
        case = Case.AGGREGATE if aggregated(query) and not trace(query).hidden else Case.BGP
        edges = KeepingEdges(endpoint) if settings.edges and not endpoint.split.one_to_one else None
        if edges is not None and settings.audit:
            raise ConfigError(
                "audits cannot check answers whose edges are refreshed: leave out --audit or --edges refreshed"
            )
        known = Unchanging() if source.changing is None else (source.model or settings.model)()
        recorded = None if settings.state is None else EvidenceLog(known)
        manager = Manager(
            spec_of(self.contents, self._grid),
            edges or endpoint,
            settings.policy(case),
            budget,
            recorded or known,
            case,
            settings.capacity,
            settings.seed,
            audit=settings.audit,
        )
        where = query.outer_services[number].endpoint or ""
        store: ViewStore = NoStore()
        if settings.state is not None and recorded is not None:
            store = settings.state.store(number, where, manager, endpoint, recorded)
        view = ServiceView(endpoint, manager, edges, partial(settings.observe, where, manager), store)
        return FromView(part, view, endpoint.variables)

    @property
    def _patience(self) -> float:
        """Seconds that an evaluation waits for its sources, all at once: a tenth of the step is left for the rest."""
        grid = self._grid
        return (math.inf if grid is None else PATIENCE * grid[0] / 1000) / self.settings.speed

    @property
    def _grid(self) -> tuple[int, int] | None:
        return grid_of(self.query, self.contents, self.start)


def _check_shape(query: Query) -> None:
    """What joins with a window stands in the pattern, and answers are made of solutions."""
    if query.form is Form.DESCRIBE:
        raise ConfigError("DESCRIBE has no solutions to join with SERVICE: write CONSTRUCT { ... }")
    if not all(query.context(service).levels for service in query.outer_services):
        raise ConfigError(
            "a SERVICE stands outside WHERE { ... }, in SELECT, HAVING or ORDER BY: put it into the pattern, as in "
            "BIND(EXISTS { SERVICE ... } AS ?name)"
        )


def _check_known(pattern: ServicePattern, sources: Mapping[str, Source]) -> None:
    """A source that is named must be there, unless it may fail in silence."""
    if pattern.endpoint is not None and pattern.endpoint not in sources and not pattern.silent:
        near = f"; {nearest(pattern.endpoint, list(sources))}" if sources else ""
        raise ConfigError(f"there is no source {pattern.where}: give it as --source '{pattern.endpoint}=FILE'{near}")


def _split(query: Query, pattern: ServicePattern, source: Source | None, fetch: Fetch) -> Split | None:
    """The split; the baselines ask the whole pattern where there is none."""
    _check_exists(query, pattern)
    try:
        parts = split_of(query, pattern, source.changing if source else ())
        if source and source.documents and parts.whole:
            raise SplitError(
                f"SERVICE {pattern.where}: its documents are about one key each, and no key parts "
                f"{' '.join(pattern.text.split())}; name the predicates"
            )
        return with_validity(parts, source.volatile, source.told) if source else parts
    except SplitError:
        if fetch is Fetch.VIEW:
            raise
        return None


def _check_exists(query: Query, pattern: ServicePattern) -> None:
    """EXISTS puts the values of its solution in everywhere; a source that is asked on its own knows nothing of them."""
    context = query.context(pattern)
    if not context.is_inside(Filter, Bind):
        return
    given = context.variables - bound_variables(pattern.elements)
    for element in (inner for outer in pattern.elements for inner in outer.walk()):
        if isinstance(element, Filter | Bind | Minus) and (names := element.variables & given):
            said = ", ".join(f"?{name}" for name in sorted(names))
            raise SplitError(
                f"SERVICE {pattern.where}: {element.flat} uses {said}, which EXISTS gives it and the source does not "
                "know: put it outside SERVICE { ... }"
            )


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
    steps = [c.window.step or 1 for c in asked]
    step = gcd(*steps, *(c.start - asked[0].start for c in asked))
    return (step, asked[0].start) if step * LONGEST_HORIZON >= min(steps) else None
