"""Checks whether and how a SERVICE pattern can be answered, and splits it into a static and a dynamic part."""

from collections.abc import Mapping
from enum import StrEnum

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.engine.service_join.lineage import is_aggregated
from freshkeeper.maintenance.engine.service_join.service_rows import Fetch
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.service_split import Split, split_of
from freshkeeper.maintenance.query.syntax import tree as syntax
from freshkeeper.maintenance.query.syntax.query_errors import SplitError
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
    given = query.context(pattern).substituted - syntax.bound_variables(pattern.elements)
    for element in (inner for outer in pattern.elements for inner in outer.walk()):
        names = element.variables & given
        if isinstance(element, syntax.Filter | syntax.Bind | syntax.Minus | syntax.Optional) and names:
            said = ", ".join(f"?{name}" for name in sorted(names))
            problem = (
                f"SERVICE {pattern.where}: {element.flat} uses {said}, which EXISTS gives it and the source does not"
            )
            raise SplitError(query.message_at(element, f"{problem} know: put it outside SERVICE {{ ... }}"))


class Missing(StrEnum):
    """The fate of an answer that lacks an entry that was never fetched."""

    EMIT = "emit"
    DROP = "drop"


def why_dropped(query: Query, service: ServicePattern, sn: tuple[str, ...]) -> str | None:
    """Return why answers without a SERVICE part must be dropped, or None if they can be given.

    `sn` are the variables that join with the window, which every answer binds.
    """
    context, tree = query.context(service), query.tree
    if query.form is not Form.SELECT:
        return f"{query.form} has no place for what is not known"
    if context.is_inside(syntax.Optional):
        return "its SERVICE stands in OPTIONAL, so that they are given without it anyway"
    if context.is_inside(syntax.Select, syntax.Minus, syntax.Filter, syntax.Bind, syntax.Lateral):
        return "its SERVICE stands in a block that does not show what it lacks"
    if tree.has("LIMIT", "OFFSET", "HAVING", "VALUES"):
        return "what stands behind its pattern would take them for whole answers"
    if is_aggregated(query) and not (sn and tree.grouped >= set(sn)):
        return "its groups put together what is known and what is not"
    return _joined(query, service, frozenset(service.variables) - set(sn))


def _joined(query: Query, service: ServicePattern, own: frozenset[str]) -> str | None:
    """Return the reason if anything else joins with, or tests, values that only the SERVICE can bind."""
    levels = query.context(service).levels
    others = [e for level in levels for place, e in enumerate(level.group) if place != level.at]
    made = own.union(*(e.bound for e in others if isinstance(e, syntax.Bind) and e.inputs & own))
    for element in others:
        shared = syntax.all_variables([element]) & (
            made if isinstance(element, syntax.Filter | syntax.Minus) else element.bound & own
        )
        if shared:
            return f"?{min(shared)} is made of what its SERVICE binds, and stands in another pattern or a FILTER too"
    return None
