"""The form of a page: an address with gaps for subject, predicate, object and, where there are quads, graph.

It is a URI template (RFC 6570) as fragments use them: `{?subject,predicate,object}`, `{&graph}` and `{subject}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from freshkeeper.maintenance.sources.fragments.quad_pattern import DEFAULT_GRAPH, QuadPattern, written

NOW = "now"
"""The instant of the request, in addresses of what holds then."""
_GAP = re.compile(r"\{([?&+]?)([A-Za-z0-9_.,%]+)\}")


@dataclass(frozen=True)
class SearchForm:
    """Where the fragments of a dataset are: the template, and which of its variables has which role."""

    template: str
    variables: Mapping[str, str]
    """by role: subject, predicate, object, graph, and instant where there is what holds now alone"""
    default_graph: str = DEFAULT_GRAPH
    holding: "SearchForm | None" = None
    """the form for what holds now alone"""

    @property
    def quads(self) -> bool:
        """Whether it asks for graphs."""
        return "graph" in self.variables

    def address(self, pattern: QuadPattern) -> str:
        """Where a fragment begins."""
        given = {
            self.variables[role]: written(term, self.default_graph)
            for role, term in pattern.terms.items()
            if role in self.variables
        }
        if "instant" in self.variables:
            given[self.variables["instant"]] = NOW
        return _GAP.sub(lambda gap: _filled(gap[1], gap[2].split(","), given), self.template)


def is_template(text: str) -> bool:
    """Whether every gap of a template is of a kind that is known."""
    return "{" not in _GAP.sub("", text) and _GAP.search(text) is not None


def _filled(operator: str, names: list[str], given: Mapping[str, str]) -> str:
    if operator in ("", "+"):
        return ",".join(quote(given[name], safe="") for name in names if name in given)
    pairs = "&".join(f"{name}={quote(given[name], safe='')}" for name in names if name in given)
    return operator + pairs if pairs else ""
