"""The views of a run: equal SERVICE patterns that are kept fresh in the same way share one view."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import gcd

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger, exact
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.demand.window import WindowSpec
from freshkeeper.maintenance.cache.manager import Manager, PolicyContext
from freshkeeper.maintenance.cache.round_builder import LONGEST_HORIZON
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.unchanging import Unchanging
from freshkeeper.maintenance.engine.service_join.edge_refreshes import EdgeRefreshingEndpoint
from freshkeeper.maintenance.engine.service_join.from_view import CachedService
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings, Shares
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.engine.service_join.service_checks import Missing, why_dropped
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.engine.service_join.window_mappings import WindowPart
from freshkeeper.maintenance.engine.snapshot import WindowDataset
from freshkeeper.maintenance.engine.windows import WindowState
from freshkeeper.maintenance.query.model import Query, Report, WindowKind
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.service_split import Split
from freshkeeper.maintenance.query.syntax.tokens import TokenKind
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.state.evidence_log import EvidenceLog
from freshkeeper.maintenance.state.view_store import NoStore, ViewStore
from freshkeeper.policies.base import Case, Policy

LONGEST_MS = 60_000
"""The planning horizon in milliseconds if no window limits how long its content stays."""


def spec_of(contents: Sequence[WindowState], grid: tuple[int, int] | None) -> WindowSpec:
    """Return the window as the manager sees it: how long elements stay at most, and when evaluations fall."""
    spans = [c.window.range or 0 for c in contents if c.window.kind in (WindowKind.TIME, WindowKind.NOW)]
    if grid is not None:
        step, start = grid
        return WindowSpec(max([*spans, step] if spans else [LONGEST_MS]), step, start)
    span = max(spans, default=LONGEST_MS)
    return WindowSpec(span, -(-span // LONGEST_HORIZON), grid=False)


def grid_of(query: Query, contents: Sequence[WindowState], start: int) -> tuple[int, int] | None:
    """Return step and start of the grid of all evaluations, or None if elements trigger them."""
    if Report.PERIODIC in query.times.report and query.times.every:
        return query.times.every, start
    closing = [c for c in contents if c.window.step is not None]
    if Report.ON_WINDOW_CLOSE in query.times.report:
        triggering = closing
    else:
        triggering = list(contents)
    if not triggering or any(c.window.kind is not WindowKind.TIME or c.window.step is None for c in triggering):
        return None
    return common_grid([(c.window.step or 1, c.start) for c in triggering])


def common_grid(grids: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Return the coarsest grid that contains all these, or None if it is very much finer than they are."""
    known = [grid for grid in grids if grid is not None]
    if not known or len(known) < len(grids):
        return None
    steps = gcd(*(step for step, _ in known))
    step = gcd(steps, *(start - known[0][1] for _, start in known))
    if step * LONGEST_HORIZON >= min(step for step, _ in known):
        return (step, known[0][1])
    return None


@dataclass(frozen=True, eq=False)
class NumberedPattern:
    """A SERVICE pattern with its variables numbered in order of appearance."""

    pattern: ServicePattern
    split: Split

    @cached_property
    def _numbered_text(self) -> tuple[str, Mapping[str, str]]:
        source, numbers, words = self.pattern.block.source, dict[str, str](), list[str]()
        for token in self.pattern.block.group.items:
            if token.kind is TokenKind.VAR:
                words.append(numbers.setdefault(token.text[1:], f"?{len(numbers)}"))
            elif token.kind is TokenKind.BLANK:
                words.append(numbers.setdefault(token.text, f"_:{len(numbers)}"))
            else:
                iri = source.iri(token)
                words.append(token.text if iri is None else f"<{iri}>")
        return " ".join(words), numbers

    @property
    def key(self) -> Hashable:
        """Equal for patterns that have the same answers, given the same values to join with."""
        text, numbers = self._numbered_text
        return self.pattern.endpoint, text, frozenset(numbers[name] for name in self.split.sn)

    def names_of(self, other: "NumberedPattern") -> Mapping[str, str]:
        """Return the name that each variable of another pattern with the same key has here."""
        here = {number: name for name, number in self._numbered_text[1].items()}
        return {name: here[number] for name, number in other._numbered_text[1].items()}


PAY_INTERVAL_MS = 1_000
"""How often a shared budget receives its income if no grid determines when queries are evaluated."""
SOURCE_TIME_SHARE = 0.9
"""The fraction of a step that an evaluation may wait for its sources."""
MOST_NAMES = 3
"""The maximum number of queries that the label of a view lists."""


@dataclass(frozen=True, eq=False)
class ViewRequest:
    """The requirements of one SERVICE pattern of one query on its view."""

    registered: RegisteredQuery
    settings: MaintenanceSettings
    contents: Sequence[WindowState]
    dataset: WindowDataset | None
    """None for native queries"""
    grid: tuple[int, int] | None
    numbered: NumberedPattern
    source: Source
    policy: Policy
    case: Case
    number: int
    """the position of the pattern among all patterns of the run"""

    @property
    def endpoint(self) -> str:
        """The IRI of the source."""
        return self.numbered.pattern.endpoint or ""

    @property
    def why_dropped(self) -> str | None:
        """The reason why answers without this pattern's part are dropped; None if they are given."""
        if self.settings.missing is not Missing.EMIT:
            return f"--missing {self.settings.missing}"
        return why_dropped(self.registered.query, self.numbered.pattern, self.numbered.split.sn)

    @property
    def key(self) -> Hashable:
        """Equal for requirements that one view can satisfy."""
        one = self.settings
        return (
            self.numbered.key,
            self.case,
            one.policy,
            one.model,
            one.budget,
            one.capacity,
            one.edges,
            one.audit,
            one.target,
        )


@dataclass(eq=False)
class ViewRegistry:
    """The views of a run, by the requirements of the SERVICE patterns that use them."""

    sources: Mapping[str, Source]
    patterns: int = 0
    """the number of SERVICE patterns of all queries so far"""
    grids: list[tuple[int, int] | None] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """the number of views of each source"""
    used: dict[str, list[tuple[str, ServiceView]]] = field(default_factory=dict)
    """by query name: the source IRI and view of each of its patterns"""
    _requests: dict[Hashable, list[ViewRequest]] = field(default_factory=dict)
    _views: dict[Hashable, tuple[NumberedPattern, ServiceView]] = field(default_factory=dict)
    _shared: dict[BudgetRule, SharedBudget] = field(default_factory=dict)

    def add_request(self, wanted: ViewRequest) -> None:
        """Add a user of a view; all users must be added before `service` creates it."""
        users = self._requests.setdefault(wanted.key, [])
        self.counts[wanted.endpoint] += not users
        users.append(wanted)

    def service(self, wanted: ViewRequest) -> CachedService:
        """Return a pattern's access to its view, which is created on first use."""
        if wanted.key not in self._views:
            self._views[wanted.key] = wanted.numbered, self._view(self._requests[wanted.key])
        first, view = self._views[wanted.key]
        self.used.setdefault(wanted.registered.name, []).append((wanted.endpoint, view))
        if (why := wanted.why_dropped) is not None:
            wanted.settings.dropping(why)
        names = wanted.numbered.names_of(first)
        part = WindowPart.of(
            wanted.registered.query,
            wanted.numbered.pattern,
            [names[name] for name in view.source.split.sn],
            wanted.contents,
            wanted.dataset,
        )
        return CachedService(part, view, tuple(names[name] for name in view.source.variables), why is None)

    def source_timeout(self, settings: MaintenanceSettings) -> float:
        """Return how many seconds an evaluation waits for all its sources; a tenth of the step is left for the rest."""
        step = self._step
        return (math.inf if step is None else SOURCE_TIME_SHARE * step / 1000) / settings.speed

    @cached_property
    def _step(self) -> int | None:
        """The time between evaluations of any query, in milliseconds, once all queries are known."""
        together = common_grid(self.grids)
        if together:
            return together[0]
        return min((grid[0] for grid in self.grids if grid), default=None)

    def _view(self, users: Sequence[ViewRequest]) -> ServiceView:
        """Create the view for all its users: with all their windows, evaluated whenever any of them is due."""
        first, settings = users[0], users[0].settings
        source, split = first.source, first.numbered.split
        price, missing = source.prices(split)
        fetcher = pattern_fetcher(
            split,
            source.transport,
            price,
            within=self.source_timeout(settings),
            price_of_misses=missing,
            learns_pages=source.pages,
        )
        edges: EdgeRefreshingEndpoint | None = None
        if settings.edges and not split.one_to_one:
            edges = EdgeRefreshingEndpoint(fetcher)
        known: ChangeModel = Unchanging()
        if source.changing is not None:
            known = (source.model or settings.model)()
        # With a state, evidence of changes is logged, so that a restart can replay what the model has learned.
        recorded = None if settings.state is None else EvidenceLog(known)
        contents = [content for user in users for content in user.contents]
        manager = Manager(
            window=spec_of(contents, common_grid([user.grid for user in users])),
            endpoint=edges or fetcher,
            policy=first.policy,
            budget=self._budget(users),
            model=recorded or known,
            case=first.case,
            capacity=settings.capacity,
            seed=settings.seed,
            answers=edges is not None,  # otherwise answers are computed on demand
            audit=settings.audit,
            target=settings.target,
            context=PolicyContext(f"source {first.endpoint}, seed {settings.seed}", settings.skips_policy_errors),
        )
        store: ViewStore = NoStore()
        if settings.state is not None and recorded is not None:
            store = settings.state.store(first.number, first.endpoint, manager, fetcher.source, recorded)
        marks = all(user.why_dropped is None for user in users)
        observe = partial(settings.observe, _label(users), manager)
        return ServiceView(fetcher, manager, edges=edges, observe=observe, store=store, marks=marks)

    def _budget(self, users: Sequence[ViewRequest]) -> BudgetRule | Ledger:
        """Return the view's own budget, or its share of a common one by the total weight of its users."""
        settings, name = users[0].settings, users[0].endpoint
        if settings.shares is None and isinstance(settings.budget, BudgetRule):
            return settings.budget
        shares, budget = settings.shares or Shares(), settings.budget
        if isinstance(budget, BudgetRule):
            budget = self._shared.setdefault(budget, SharedBudget(budget, self._step or PAY_INTERVAL_MS))
        weight = sum(
            exact(user.registered.definition.weight, f"the weight of {user.registered.name}") for user in users
        )
        minimum = exact(shares.minimum.get(name, 0)) / self.counts[name]
        return budget.member(name, exact(shares.weights.get(name, 1)) * weight, minimum, len(users))


def _label(users: Sequence[ViewRequest]) -> str:
    """Return a label for messages and metrics: the queries of the view, and its source."""
    names = list(dict.fromkeys(user.registered.name for user in users if user.registered.name))
    if len(names) > MOST_NAMES:
        more = f" and {len(names) - MOST_NAMES} more"
    else:
        more = ""
    return f"{', '.join(names[:MOST_NAMES])}{more} {users[0].endpoint}".strip()
