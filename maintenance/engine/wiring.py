"""From a query and its sources to the services that answer its SERVICE patterns."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import gcd

from maintenance.budget import BudgetRule, Ledger
from maintenance.engine.baselines import Directly, Whole
from maintenance.engine.content import Content
from maintenance.engine.continuous import Answering, ContinuousQuery
from maintenance.engine.edges import KeepingEdges
from maintenance.engine.from_view import FromView
from maintenance.engine.joined import Joined
from maintenance.engine.mappings import WindowPart
from maintenance.engine.provenance import aggregated, trace
from maintenance.engine.services import Fetch, Service
from maintenance.engine.sources import Source
from maintenance.evaluation import Evaluation
from maintenance.manager import Manager
from maintenance.query.certain import services_in
from maintenance.query.errors import SplitError
from maintenance.query.model import Form, Query, Report, WindowKind
from maintenance.query.services import ServicePattern
from maintenance.query.split import Split
from maintenance.query.splitting import split_of
from maintenance.rounds import LONGEST_HORIZON
from maintenance.service.annotations import with_validity
from maintenance.service.pattern import PatternEndpoint
from maintenance.sharing import SharedBudget
from maintenance.state.keeper import Forgetful, Keeper
from maintenance.state.recorded import Recorded
from maintenance.state.state import State
from maintenance.view.changes import ChangeModel
from maintenance.view.learned import Learned
from maintenance.window import WindowSpec
from policies.base import Case, Policy
from policies.errors import ConfigError, nearest

LONGEST_MS = 60_000
"""What is planned for where no window says how long its content stays."""
SECOND = 1_000
"""How often a shared budget is paid where no grid says how often a query is evaluated."""
PATIENCE = 0.9
"""The share of a step that sources may take."""
DEFAULTS = {Case.BGP: "gain", Case.AGGREGATE: "ibm"}
"""The policy where none is named."""
Observer = Callable[[str, Manager, Evaluation], None]


@dataclass(frozen=True)
class Shares:
    """How one budget is parted between the SERVICE patterns of a query, by source."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """1 for those that are not in it"""
    minimum: Mapping[str, float] = field(default_factory=dict)
    """the part that is a source's own whatever the others want; 0 for those that are not in it"""


@dataclass(frozen=True)
class Upkeep:
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


def answering(sources: Mapping[str, Source], upkeep: Upkeep) -> Callable[[ContinuousQuery], Answering | None]:
    """What answers a query's SERVICE patterns; nothing where it has none."""

    def wire(running: ContinuousQuery) -> Answering | None:
        query = running.query
        if not query.services:
            return None
        for pattern in query.services:
            _check_known(pattern, sources)
        _check_shape(query)
        budgets = _budgets(running, upkeep)
        services = [
            _service(running, n, pattern, sources, upkeep, budget)
            for n, (pattern, budget) in enumerate(zip(query.outer_services, budgets, strict=True))
        ]
        return Joined(query, running.functions, services)

    return wire


def _budgets(running: ContinuousQuery, upkeep: Upkeep) -> list[BudgetRule | Ledger]:
    """One for each SERVICE pattern; a shared one is paid as often as the query is evaluated."""
    patterns, budget = running.query.outer_services, upkeep.budget
    if upkeep.shares is None and isinstance(budget, BudgetRule):
        return [budget] * len(patterns)
    shares, grid = upkeep.shares or Shares(), _grid(running.query, running.contents, running.start)
    shared = SharedBudget(budget, SECOND if grid is None else grid[0]) if isinstance(budget, BudgetRule) else budget
    names = [pattern.endpoint or "" for pattern in patterns]
    return [
        shared.member(name, shares.weights.get(name, 1), shares.minimum.get(name, 0) / names.count(name))
        for name in names
    ]


def _check_shape(query: Query) -> None:
    """What joins with a window stands in the pattern, and answers are made of solutions."""
    if query.form is Form.DESCRIBE:
        raise ConfigError("DESCRIBE has no solutions to join with SERVICE: write CONSTRUCT { ... }")
    if sum(map(services_in, query.group)) < len(query.outer_services):
        raise ConfigError(
            "a SERVICE stands outside WHERE { ... }, in SELECT, HAVING or ORDER BY: put it into the pattern, as in "
            "BIND(EXISTS { SERVICE ... } AS ?name)"
        )


def _check_known(pattern: ServicePattern, sources: Mapping[str, Source]) -> None:
    """A source that is named must be there, unless it may fail in silence."""
    if pattern.endpoint is not None and pattern.endpoint not in sources and not pattern.silent:
        near = f"; {nearest(pattern.endpoint, list(sources))}" if sources else ""
        raise ConfigError(f"there is no source {pattern.where}: give it as --source '{pattern.endpoint}=FILE'{near}")


def _service(
    running: ContinuousQuery,
    number: int,
    pattern: ServicePattern,
    sources: Mapping[str, Source],
    upkeep: Upkeep,
    budget: BudgetRule | Ledger,
) -> Service:
    source = sources.get(pattern.endpoint or "")
    keep = upkeep.fetch is Fetch.ONCE
    parts = _split(running.query, pattern, source, upkeep.fetch)
    within = _patience(running) / upkeep.speed
    if parts is None or source is None:
        return Whole(pattern, {name: one.transport for name, one in sources.items()}, keep, within)
    part = WindowPart.of(running.query, number, parts.sn, running.contents)
    endpoint = PatternEndpoint(parts, source.transport, source.price, within)
    if upkeep.fetch is not Fetch.VIEW:
        return Directly(part, endpoint, pattern.silent, keep)
    case = Case.AGGREGATE if aggregated(running.query) and not trace(running.query).hidden else Case.BGP
    edges = KeepingEdges(endpoint) if upkeep.edges and not parts.one_to_one else None
    if edges is not None and upkeep.audit:
        raise ConfigError(
            "audits cannot check answers whose edges are refreshed: leave out --audit or --edges refreshed"
        )
    known = (source.model or upkeep.model)()
    model = known if upkeep.state is None else Recorded(known)
    manager = Manager(
        spec_of(running),
        edges or endpoint,
        upkeep.policy(case),
        budget,
        model,
        case,
        upkeep.capacity,
        upkeep.seed,
        audit=upkeep.audit,
    )
    where = pattern.endpoint or ""
    keeper: Keeper = Forgetful()
    if upkeep.state is not None and isinstance(model, Recorded):
        keeper = upkeep.state.keeper(number, where, manager, endpoint, model)
    observe = partial(upkeep.observe, where, manager)
    return FromView(part, endpoint, manager, edges, observe, keeper)


def _split(query: Query, pattern: ServicePattern, source: Source | None, fetch: Fetch) -> Split | None:
    """The split; the baselines ask the whole pattern where there is none."""
    try:
        parts = split_of(query, pattern, source.volatile if source else ())
        return with_validity(parts, source.volatile, source.told) if source else parts
    except SplitError:
        if fetch is Fetch.VIEW:
            raise
        return None


def _patience(running: ContinuousQuery) -> float:
    """Seconds that an evaluation waits for one pattern: together they leave a tenth of the step for the rest."""
    grid = _grid(running.query, running.contents, running.start)
    return math.inf if grid is None else PATIENCE * grid[0] / 1000 / len(running.query.outer_services)


def spec_of(running: ContinuousQuery) -> WindowSpec:
    """The window as the manager sees it: how long the longest window holds things, and when evaluations are due."""
    spans = [c.window.range or 0 for c in running.contents if c.window.kind in (WindowKind.TIME, WindowKind.NOW)]
    grid = _grid(running.query, running.contents, running.start)
    if grid is not None:
        step, start = grid
        return WindowSpec(max([*spans, step] if spans else [LONGEST_MS]), step, start)
    span = max(spans, default=LONGEST_MS)
    return WindowSpec(span, -(-span // LONGEST_HORIZON), grid=False)


def _grid(query: Query, contents: Sequence[Content], start: int) -> tuple[int, int] | None:
    """Step and start of the grid that all evaluations are on; nothing where elements call for them."""
    if Report.PERIODIC in query.times.report and query.times.every:
        return query.times.every, start
    closing = [c for c in contents if c.window.step is not None]
    asked = closing if Report.ON_WINDOW_CLOSE in query.times.report else list(contents)
    if any(c.window.kind is not WindowKind.TIME or c.window.step is None for c in asked):
        return None
    steps = [c.window.step or 1 for c in asked]
    step = gcd(*steps, *(c.start - asked[0].start for c in asked))
    return (step, asked[0].start) if step * LONGEST_HORIZON >= min(steps) else None
