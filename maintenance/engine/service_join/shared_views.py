"""The views of a run: SERVICE patterns that are the same, and are kept fresh in the same way, have one."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from freshkeeper.maintenance.cache.budget.ledger import BudgetRule, Ledger, exact
from freshkeeper.maintenance.cache.budget.shared_budget import SharedBudget
from freshkeeper.maintenance.cache.manager import Manager
from freshkeeper.maintenance.cache.view.unchanging import Unchanging
from freshkeeper.maintenance.engine.service_join.edge_refreshes import KeepingEdges
from freshkeeper.maintenance.engine.service_join.evaluation_grid import common_grid, spec_of
from freshkeeper.maintenance.engine.service_join.from_view import FromView
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings, Registration, Shares
from freshkeeper.maintenance.engine.service_join.missing_answers import Missing, why_dropped
from freshkeeper.maintenance.engine.service_join.same_pattern import NumberedPattern
from freshkeeper.maintenance.engine.service_join.service_view import ServiceView
from freshkeeper.maintenance.engine.service_join.window_mappings import WindowPart
from freshkeeper.maintenance.engine.window_content import Content
from freshkeeper.maintenance.sources.pattern_endpoint import PatternEndpoint
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.maintenance.state.evidence_log import EvidenceLog
from freshkeeper.maintenance.state.view_store import NoStore, ViewStore
from freshkeeper.policies.base import Case, Policy

SECOND = 1_000
"""How often a shared budget is paid where no grid says how often a query is evaluated."""
PATIENCE = 0.9
"""The share of a step that sources may take."""
NAMED = 3
"""So many queries of a view are named where it is told of."""


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
    def why_dropped(self) -> str | None:
        """Why an answer without what this pattern would bind is not given; None where it is."""
        if self.settings.missing is not Missing.EMIT:
            return f"--missing {self.settings.missing}"
        return why_dropped(self.registration.query, self.numbered.pattern, self.numbered.split.sn)

    @property
    def key(self) -> Hashable:
        """Equal for those that one view can answer."""
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
class Views:
    """The views of a run: one for all SERVICE patterns that are the same and are kept fresh in the same way."""

    sources: Mapping[str, Source]
    patterns: int = 0
    """of all queries so far"""
    grids: list[tuple[int, int] | None] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """of the views that each source has"""
    used: dict[str, list[tuple[str, ServiceView]]] = field(default_factory=dict)
    """by query, with the IRI of the source"""
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
        self.used.setdefault(wanted.registration.name, []).append((wanted.endpoint, view))
        if (why := wanted.why_dropped) is not None:
            wanted.settings.dropping(why)
        names = wanted.numbered.names_of(first)
        part = WindowPart.of(
            wanted.registration.query,
            wanted.numbered.pattern,
            [names[name] for name in view.endpoint.split.sn],
            wanted.contents,
        )
        return FromView(part, view, tuple(names[name] for name in view.endpoint.variables), why is None)

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
        price, missing = source.prices(split)
        endpoint = PatternEndpoint(split, source.transport, price, self.patience(settings), missing, source.pages)
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
            answers=edges is not None,  # else they are told when somebody asks
            audit=settings.audit,
            target=settings.target,
        )
        store: ViewStore = NoStore()
        if settings.state is not None and recorded is not None:
            store = settings.state.store(first.number, first.endpoint, manager, endpoint, recorded)
        marks = all(user.why_dropped is None for user in users)
        observe = partial(settings.observe, _label(users), manager)
        return ServiceView(endpoint, manager, edges, observe, store, marks)

    def _budget(self, users: Sequence[WantedView]) -> BudgetRule | Ledger:
        """Its own, or its part of the shared one: as much as its users' weights come to."""
        settings, name = users[0].settings, users[0].endpoint
        if settings.shares is None and isinstance(settings.budget, BudgetRule):
            return settings.budget
        shares, budget = settings.shares or Shares(), settings.budget
        if isinstance(budget, BudgetRule):
            budget = self._shared.setdefault(budget, SharedBudget(budget, self._step or SECOND))
        weight = sum(exact(user.registration.weight, f"the weight of {user.registration.name}") for user in users)
        minimum = exact(shares.minimum.get(name, 0)) / self.counts[name]
        return budget.member(name, exact(shares.weights.get(name, 1)) * weight, minimum, len(users))


def _label(users: Sequence[WantedView]) -> str:
    """Which view it is, where it is told of: the queries that have it, and the source."""
    names = list(dict.fromkeys(user.registration.name for user in users if user.registration.name))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more} {users[0].endpoint}".strip()
