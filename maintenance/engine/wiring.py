"""From a query and its sources to the services that answer its SERVICE patterns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from maintenance.budget import BudgetRule
from maintenance.engine.content import Content
from maintenance.engine.continuous import Answering, ContinuousQuery
from maintenance.engine.joined import Joined
from maintenance.engine.mappings import WindowPart
from maintenance.engine.provenance import aggregated, trace
from maintenance.engine.services import Directly, Fetch, FromView, Service, Whole
from maintenance.engine.sources import Source
from maintenance.evaluation import Evaluation
from maintenance.manager import Manager
from maintenance.query.errors import SplitError
from maintenance.query.model import Query, Report, WindowKind
from maintenance.query.services import ServicePattern
from maintenance.query.split import Split, split
from maintenance.service.pattern import PatternEndpoint
from maintenance.view.changes import ChangeModel
from maintenance.view.learned import Learned
from maintenance.window import WindowSpec
from policies.base import Case, Policy
from policies.errors import ConfigError, nearest

LONGEST_MS = 60_000
"""What is planned for where no window says how long its content stays."""
Observer = Callable[[str, Manager, Evaluation], None]


@dataclass(frozen=True)
class Upkeep:
    """How views are kept fresh: each SERVICE pattern has a view, a policy and a budget of its own."""

    policy: Callable[[Case], Policy]
    budget: BudgetRule
    model: Callable[[], ChangeModel] = Learned
    fetch: Fetch = Fetch.VIEW
    capacity: int | None = None
    seed: int = 0
    observe: Observer = field(default=lambda *_: None)


def answering(sources: Mapping[str, Source], upkeep: Upkeep) -> Callable[[ContinuousQuery], Answering | None]:
    """What answers a query's SERVICE patterns; nothing where it has none."""

    def wire(running: ContinuousQuery) -> Answering | None:
        query = running.query
        outer = [s for n, s in enumerate(query.services) if not _inside(s, query.services[:n])]
        if not outer:
            return None
        services = [_service(running, n, pattern, sources, upkeep) for n, pattern in enumerate(outer)]
        return Joined(query, running.functions, services)

    return wire


def _inside(service: ServicePattern, others: Sequence[ServicePattern]) -> bool:
    return any(other.span[0] <= service.span[0] < other.span[1] for other in others)


def _service(
    running: ContinuousQuery, number: int, pattern: ServicePattern, sources: Mapping[str, Source], upkeep: Upkeep
) -> Service:
    source = sources.get(pattern.endpoint or "")
    if source is None and pattern.endpoint is not None and not pattern.silent:
        near = f"; {nearest(pattern.endpoint, list(sources))}" if sources else ""
        raise ConfigError(f"there is no source {pattern.where}: give it as --source '{pattern.endpoint}=FILE'{near}")
    keep = upkeep.fetch is Fetch.ONCE
    parts = _split(running.query, pattern, source, upkeep.fetch)
    if parts is None or source is None:
        return Whole(pattern, {name: one.transport for name, one in sources.items()}, keep)
    part = WindowPart.of(running.query, number, parts.sn, running.contents)
    endpoint = PatternEndpoint(parts, source.transport, source.price)
    if upkeep.fetch is not Fetch.VIEW:
        return Directly(part, endpoint, keep)
    case = Case.AGGREGATE if aggregated(running.query) and not trace(running.query).blind else Case.BGP
    manager = Manager(
        spec_of(running),
        endpoint,
        upkeep.policy(case),
        upkeep.budget,
        upkeep.model(),
        case,
        upkeep.capacity,
        upkeep.seed,
    )
    where = pattern.endpoint or ""
    return FromView(part, endpoint, manager, lambda evaluation: upkeep.observe(where, manager, evaluation))


def _split(query: Query, pattern: ServicePattern, source: Source | None, fetch: Fetch) -> Split | None:
    """The split; the baselines ask the whole pattern where there is none."""
    windows = frozenset().union(*query.window_variables.values())
    try:
        return split(pattern, source.volatile if source else (), windows)
    except SplitError:
        if fetch is Fetch.VIEW:
            raise
        return None


def spec_of(running: ContinuousQuery) -> WindowSpec:
    """The window as the manager sees it: the grid of the evaluations, and how long the longest window holds things."""
    spans = [c.window.range or 0 for c in running.contents if c.window.kind in (WindowKind.TIME, WindowKind.NOW)]
    step, start = _grid(running.query, running.contents, running.start)
    return WindowSpec(max([*spans, step] if spans else [LONGEST_MS]), step, start)


def _grid(query: Query, contents: Sequence[Content], start: int) -> tuple[int, int]:
    """Step and start of a grid that all evaluations are on; of a millisecond where elements call for them."""
    if Report.PERIODIC in query.times.report and query.times.every:
        return query.times.every, start
    closing = [c for c in contents if c.window.step is not None]
    asked = closing if Report.ON_WINDOW_CLOSE in query.times.report else list(contents)
    if any(c.window.kind is not WindowKind.TIME or c.window.step is None for c in asked):
        return 1, 0
    first = asked[0].start
    step = gcd(*(c.window.step or 1 for c in asked), *(c.start - first for c in asked))
    return step, first
