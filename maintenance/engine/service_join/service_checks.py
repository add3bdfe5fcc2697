"""Checks whether and how a SERVICE pattern can be answered, and splits it into a static and a dynamic part."""

from collections.abc import Mapping

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.engine.service_join.service_solutions import Fetch
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.service_split import Split, split_of
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
from freshkeeper.maintenance.query.syntax.tree import Bind, Filter, Minus, Optional, bound_variables
from freshkeeper.maintenance.sources.annotations import with_validity
from freshkeeper.maintenance.sources.sources import Source


def check_shape(query: Query) -> None:
    """Raise ConfigError for queries whose SERVICE cannot be joined with solutions."""
    if query.form is Form.DESCRIBE:
        raise ConfigError("DESCRIBE has no solutions to join with SERVICE: write CONSTRUCT { ... }")
    if not all(query.context(service).levels for service in query.outer_services):
        raise ConfigError(
            "a SERVICE stands outside WHERE { ... }, in SELECT, HAVING or ORDER BY: put it into the pattern, as in "
            "BIND(EXISTS { SERVICE ... } AS ?name)"
        )


def check_known(pattern: ServicePattern, sources: Mapping[str, Source]) -> None:
    """Raise ConfigError if the pattern names an unknown source without SILENT."""
    if pattern.endpoint is not None and pattern.endpoint not in sources and not pattern.silent:
        if sources:
            near = f"; {nearest(pattern.endpoint, list(sources))}"
        else:
            near = ""
        raise ConfigError(f"there is no source {pattern.where}: give it as --source '{pattern.endpoint}=FILE'{near}")


def split_for(query: Query, pattern: ServicePattern, source: Source | None, fetch: Fetch) -> Split | None:
    """Return the split of a pattern. Without a view, None means that the whole pattern is sent."""
    _check_exists(query, pattern)
    if source is None and pattern.endpoint is not None:  # SILENT, or `check_known` would have refused it
        return None
    try:
        parts = split_of(query, pattern, source.changing if source else ())
        if source and source.documents and parts.unsplit:
            raise SplitError(
                f"SERVICE {pattern.where}: its documents are about one key each, and no key parts "
                f"{' '.join(pattern.text.split())}; name the predicates"
            )
        if source:
            return with_validity(parts, source.volatile, source.validity)
        return parts
    except SplitError as error:
        if fetch is Fetch.VIEW:
            raise SplitError(query.message_at(pattern.block, str(error))) from None
        return None


def _check_exists(query: Query, pattern: ServicePattern) -> None:
    """Raise SplitError if the pattern uses values that EXISTS would substitute, which the source does not know."""
    given = query.context(pattern).substituted - bound_variables(pattern.elements)
    for element in (inner for outer in pattern.elements for inner in outer.walk()):
        if isinstance(element, Filter | Bind | Minus | Optional) and (names := element.variables & given):
            said = ", ".join(f"?{name}" for name in sorted(names))
            problem = (
                f"SERVICE {pattern.where}: {element.flat} uses {said}, which EXISTS gives it and the source does not"
            )
            raise SplitError(query.message_at(element, f"{problem} know: put it outside SERVICE {{ ... }}"))
