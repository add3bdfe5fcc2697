"""The views of a run: equal SERVICE patterns that are kept fresh in the same way share one view."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger, exact
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.manager import Manager, PolicyContext
from freshkeeper.maintenance.cache.view.changes import ChangeModel
from freshkeeper.maintenance.cache.view.unchanging import Unchanging
from freshkeeper.maintenance.engine.service_join.edge_refreshes import EdgeRefreshingEndpoint
from freshkeeper.maintenance.engine.service_join.evaluation_grid import common_grid, spec_of
from freshkeeper.maintenance.engine.service_join.from_view import CachedService
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings, Shares
from freshkeeper.maintenance.engine.service_join.missing_answers import Missing, why_dropped
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.engine.service_join.same_pattern import NumberedPattern
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.engine.service_join.window_mappings import WindowPart
from freshkeeper.maintenance.engine.window_content import WindowState
from freshkeeper.maintenance.engine.window_dataset import WindowDataset
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.state.evidence_log import EvidenceLog
from freshkeeper.maintenance.state.view_store import NoStore, ViewStore
from freshkeeper.policies.base import Case, Policy

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
