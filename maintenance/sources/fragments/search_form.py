"""The form of a page: a URI template for subject, predicate, object and, in quad sources, graph.

Templates (RFC 6570) have expressions as fragments use them: `{?subject,predicate,object}`, `{&graph}` and `{subject}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from freshkeeper.maintenance.sources.fragments.quad_pattern import DEFAULT_GRAPH, QuadPattern, address_text

NOW = "now"
"""The instant of the request, in addresses of current data."""
_GAP = re.compile(r"\{([?&+]?)([A-Za-z0-9_.,%]+)\}")


@dataclass(frozen=True)
class SearchForm:
    """The template of a dataset's fragments, and the role of each variable."""

    template: str
    variables: Mapping[str, str]
    """by role: subject, predicate, object, graph and, for current data, instant"""
    default_graph: str = DEFAULT_GRAPH
    holding: "SearchForm | None" = None
    """the form for current data"""

    @property
    def quads(self) -> bool:
        """True if the form has a variable for the graph."""
        return "graph" in self.variables

    def address(self, pattern: QuadPattern) -> str:
        """Return the address of a fragment."""
        given = {
            self.variables[role]: address_text(term, self.default_graph)
            for role, term in pattern.terms.items()
            if role in self.variables
        }
        if "instant" in self.variables:
            given[self.variables["instant"]] = NOW
        return _GAP.sub(lambda gap: _filled(gap[1], gap[2].split(","), given), self.template)


def is_template(text: str) -> bool:
    """Return True if every expression of the template is supported."""
    return "{" not in _GAP.sub("", text) and _GAP.search(text) is not None


def _filled(operator: str, names: list[str], given: Mapping[str, str]) -> str:
    if operator in ("", "+"):
        return ",".join(quote(given[name], safe="") for name in names if name in given)
    pairs = "&".join(f"{name}={quote(given[name], safe='')}" for name in names if name in given)
    if pairs:
        return operator + pairs
    return ""
