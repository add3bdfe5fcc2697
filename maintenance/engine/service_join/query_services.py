"""Chooses how the SERVICE patterns of one query are answered: from views, or from their sources."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.engine.service_join.direct import UncachedService, UnsplitService
from freshkeeper.maintenance.engine.service_join.lineage import is_aggregated, trace
from freshkeeper.maintenance.engine.service_join.maintenance_settings import MaintenanceSettings
from freshkeeper.maintenance.engine.service_join.query_definition import RegisteredQuery
from freshkeeper.maintenance.engine.service_join.service_checks import check_known, check_shape, split_for
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch, ServiceSolver
from freshkeeper.maintenance.engine.service_join.shared_views import NumberedPattern, ViewRegistry, ViewRequest, grid_of
from freshkeeper.maintenance.engine.service_join.window_mappings import WindowPart
from freshkeeper.maintenance.engine.snapshot import WindowDataset
from freshkeeper.maintenance.engine.windows import WindowState
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.service_split import Split
from freshkeeper.maintenance.sources.pattern_source import pattern_fetcher
from freshkeeper.maintenance.sources.sources import Source
from freshkeeper.policies.base import Case


@dataclass(frozen=True, eq=False)
class QueryServices:
    """The SERVICE patterns of one query, and what is needed to answer them."""

    registered: RegisteredQuery
    settings: MaintenanceSettings
    contents: Sequence[WindowState]
    start: int
    views: ViewRegistry
    dataset: WindowDataset | None = None
    """None for native queries"""

    def planned(self) -> list[Callable[[], ServiceSolver]]:
        """Check all patterns and return one factory for each."""
        query, sources = self.registered.query, self.views.sources
        for pattern in query.services:
            check_known(pattern, sources)
        check_shape(query)
        made = [self._service(n, pattern) for n, pattern in enumerate(query.outer_services, self.views.patterns)]
        self.views.patterns += len(made)
        self.views.grids.append(grid_of(query, self.contents, self.start))
        # Views are created later by `Views.service`, when all queries that share them are known.
        for one in made:
            if isinstance(one, ViewRequest):
                self.views.add_request(one)
        return [partial(self.views.service, one) if isinstance(one, ViewRequest) else one for one in made]

    def _service(self, number: int, pattern: ServicePattern) -> ViewRequest | Callable[[], ServiceSolver]:
        settings, query, views = self.settings, self.registered.query, self.views
        source = views.sources.get(pattern.endpoint or "")
        keep, parts = settings.fetch is Fetch.ONCE, split_for(query, pattern, source, settings.fetch)
        if parts is None or source is None:
            transports = {name: one.transport for name, one in views.sources.items()}
            return lambda: UnsplitService(pattern, transports, keep, views.source_timeout(settings))
        if settings.fetch is Fetch.VIEW:
            return self._view_request(number, pattern, parts, source)
        part = WindowPart.of(query, pattern, parts.sn, self.contents, self.dataset)
        return lambda: UncachedService(
            part,
            pattern_fetcher(parts, source.transport, source.prices(parts)[0], within=views.source_timeout(settings)),
            pattern.silent,
            keep,
        )

    def _view_request(self, number: int, pattern: ServicePattern, parts: Split, source: Source) -> ViewRequest:
        query, settings = self.registered.query, self.settings
        if is_aggregated(query) and not trace(query).hidden:
            case = Case.AGGREGATE
        else:
            case = Case.BGP
        if settings.edges and not parts.one_to_one and settings.audit:
            raise ConfigError(
                "audits cannot check answers whose edges are refreshed: leave out --audit or --edges refreshed"
            )
        grid, numbered = grid_of(query, self.contents, self.start), NumberedPattern(pattern, parts)
        policy = settings.policy(case)
        return ViewRequest(
            registered=self.registered,
            settings=settings,
            contents=self.contents,
            dataset=self.dataset,
            grid=grid,
            numbered=numbered,
            source=source,
            policy=policy,
            case=case,
            number=number,
        )
