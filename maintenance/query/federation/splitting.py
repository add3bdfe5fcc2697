"""The split of a SERVICE pattern where it stands in its query."""

from collections.abc import Iterable

from freshkeeper.maintenance.query.federation.service_patterns import ServicePattern
from freshkeeper.maintenance.query.federation.split import Split, split, unsplit
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.syntax.query_errors import SplitError


def split_of(query: Query, service: ServicePattern, volatile_predicates: Iterable[str] | None) -> Split:
    """Joined by what the windows give it there; SplitError where no values reach it. None: nothing in it changes."""
    windows = query.windowed
    if service in query.outer_services:
        windows = query.given(query.outer_services.index(service))
    lost = query.windowed.intersection(service.variables)
    if lost and not windows.intersection(service.variables):
        names = ", ".join(f"?{name}" for name in sorted(lost))
        raise SplitError(
            f"SERVICE {service.where}: the windows do not always give it {names} where it stands; bind it outside "
            "OPTIONAL, in every branch of UNION, and before an OPTIONAL, MINUS or EXISTS that holds the SERVICE; a "
            "sub-query that holds it must show it, group by it, and have no LIMIT"
        )
    if volatile_predicates is None:
        return unsplit(service, windows)
    return split(service, volatile_predicates, windows)
