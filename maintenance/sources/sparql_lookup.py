"""Rows from a SPARQL endpoint, for those who have one and no window to join it with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyoxigraph import Literal, NamedNode

from freshkeeper.maintenance.base.errors import ConfigError, EndpointError
from freshkeeper.maintenance.fetching.fetch_jobs import run_until_complete
from freshkeeper.maintenance.sources.sources import Source, load_source
from freshkeeper.maintenance.sources.transport import Bound

HOLE = "{keys}"


@dataclass(eq=False)
class SparqlLookup:
    """Solutions by key of a SELECT query with `VALUES ?key {keys}`; a row is a dict of its variables.

    A key is an IRI as text, and a row's values are text, or numbers where they are. The source is the address of an
    endpoint, a YAML file or a `Source` (docs/sources.md). A key with several solutions has the last of them: aggregate
    in the query.

    >>> from freshkeeper import Source, SparqlLookup
    >>> blog = Source.embedded("<urn:ann> <urn:followers> 10 .")
    >>> SparqlLookup(blog, "SELECT ?key ?n { VALUES ?key {keys} ?key <urn:followers> ?n }")(["urn:ann"])
    {'urn:ann': {'n': 10}}
    """

    source: Source | str
    query: str
    key: str = "key"

    def __post_init__(self) -> None:
        if self.query.count(HOLE) != 1:
            raise ConfigError(f"the query needs {HOLE} once, as in VALUES ?{self.key} {HOLE}")
        self._source = load_source(self.source) if isinstance(self.source, str) else self.source

    def __call__(self, keys: list[Any]) -> dict[Any, Any]:
        """Return the solutions of these keys."""
        terms = {str(NamedNode(str(key))): key for key in keys}
        text = self.query.replace(HOLE, f"{{ {' '.join(terms)} }}")
        reply = run_until_complete(self._source.transport.query(text, now=0, allowance=1))
        if reply.error is not None:
            raise EndpointError(reply.error)
        found: dict[Any, Any] = {}
        for row in cast("Sequence[Bound]", reply.value):
            if (name := str(row.get(self.key))) in terms:
                found[terms[name]] = {each: _plain(term) for each, term in row.items() if each != self.key}
        return found

    def close(self) -> None:
        """Close connections; look-ups under way fail."""
        self._source.transport.close()


def _plain(term: object) -> object:
    if not isinstance(term, Literal):
        if isinstance(term, NamedNode):
            return term.value
        return str(term)
    kind = term.datatype.value.rpartition("#")[2]
    if kind in ("integer", "int", "long", "short"):
        return int(term.value)
    if kind in ("double", "float", "decimal"):
        return float(term.value)
    if kind == "boolean":
        return term.value == "true"
    return term.value
