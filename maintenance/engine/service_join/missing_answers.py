"""Answers whose SERVICE part was never fetched: each is given without that part, or not at all.

    emit    as if the SERVICE stood in OPTIONAL: its variables are unbound, and the answer is fresh with probability 0
    drop    it is not given, as SPARQL treats a SERVICE without solutions

Some queries would misread such a row. Unbound joins with anything, so another pattern's value would pass for the
source's; MINUS and EXISTS would exclude too much; LIMIT would count the row; HAVING and FILTER would test unknown
values; a group would be summed without one of its parts. These queries drop answers, and `why_dropped` gives the
reason.
"""

from enum import StrEnum

from freshkeeper.maintenance.engine.service_join.lineage import is_aggregated
from freshkeeper.maintenance.query.model import Form, Query
from freshkeeper.maintenance.query.service_patterns import ServicePattern
from freshkeeper.maintenance.query.syntax.tree import Bind, Filter, Lateral, Minus, Optional, Select, all_variables


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
    if context.is_inside(Optional):
        return "its SERVICE stands in OPTIONAL, so that they are given without it anyway"
    if context.is_inside(Select, Minus, Filter, Bind, Lateral):
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
    made = own.union(*(e.bound for e in others if isinstance(e, Bind) and e.inputs & own))
    for element in others:
        shared = all_variables([element]) & (made if isinstance(element, Filter | Minus) else element.bound & own)
        if shared:
            return f"?{min(shared)} is made of what its SERVICE binds, and stands in another pattern or a FILTER too"
    return None
