"""Parses a page of a fragment in any RDF format: data, count, next page and form.

In formats with graphs the controls are in a graph of their own. In Turtle and N-Triples they are among the data:
triples about the page, its dataset and the nodes of its form are then not data.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, parse

from freshkeeper.maintenance.fetching.fetch_errors import FetchError
from freshkeeper.maintenance.sources.fragments.quad_pattern import DEFAULT_GRAPH, QuadPattern, address_text
from freshkeeper.maintenance.sources.fragments.vocabulary import (
    DEFAULT,
    MAPPING,
    NEXT,
    PER_PAGE,
    PROPERTY,
    ROLES,
    SEARCH,
    SUBSET,
    TEMPLATE,
    TOTAL,
    TRIPLES,
    VARIABLE,
)

NOW = "now"
"""The instant of the request, in addresses of current data."""
_GAP = re.compile(r"\{([?&+]?)([A-Za-z0-9_.,%]+)\}")


@dataclass(frozen=True)
class SearchForm:
    """The template of a dataset's fragments, and the role of each variable.

    Templates (RFC 6570) have expressions as fragments use them: `{?subject,predicate,object}`, `{&graph}`, `{subject}`.
    """

    template: str
    variables: Mapping[str, str]
    """by role: subject, predicate, object, graph and, for current data, instant"""
    default_graph: str = DEFAULT_GRAPH
    holding: "SearchForm | None" = None
    """the form for current data"""

    @property
    def quads(self) -> bool:
        return "graph" in self.variables

    def address(self, pattern: QuadPattern) -> str:
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


ACCEPT = (
    "application/trig,application/n-quads;q=0.9,application/ld+json;q=0.6,text/turtle;q=0.5,application/n-triples;q=0.4"
)
"""Formats with graphs first, because these separate data from controls."""
_SAFE = "%/:=&?~#+!$,;'@()*[]"
"""Characters that an IRI may take over from an address unquoted."""
MAX_COUNT_DIGITS = 15
"""Counts with more digits are ignored."""


@dataclass(frozen=True)
class FragmentPage:
    """A page of a fragment."""

    quads: Sequence[Quad]
    count: int | None
    """the size of the whole fragment, as estimated by the source"""
    next: str | None
    form: SearchForm
    per_page: int | None = None
    strays: int = 0
    """number of quads that do not belong to the fragment and were dropped"""


def read_page(body: bytes, kind: str, url: str, pattern: QuadPattern | None) -> FragmentPage:
    """Return the page of a pattern, or a start page if the pattern is None.

    Raise FetchError if it is not a fragment.
    """
    quads = _parsed(body, kind, url)
    controls = _controls_of(quads, url)
    form = controls.form()
    mixed = isinstance(controls.graph, DefaultGraph)
    data = [quad for quad in quads if quad.graph_name != controls.graph]
    data += controls.rest() if mixed else []
    if pattern is None:
        wanted = data
    else:
        wanted = [quad for quad in data if _belongs(quad, pattern, form)]
    count, per_page = controls.number(TOTAL, TRIPLES), controls.number(PER_PAGE)
    return FragmentPage(
        wanted, count, next=controls.next(), form=form, per_page=per_page, strays=len(data) - len(wanted)
    )


def _parsed(body: bytes, kind: str, url: str) -> list[Quad]:
    form = RdfFormat.from_media_type(kind) if kind else None
    if form is None:
        raise FetchError(f"malformed: the page is not RDF (content type: {kind or 'none'})")
    try:
        return list(parse(body, format=form, base_iri=quote(url, safe=_SAFE), rename_blank_nodes=True))
    except (SyntaxError, ValueError, OSError) as error:
        said = " ".join(str(error).split())
        raise FetchError(f"malformed: the page is not valid {form.name}: {said}", again=True, keys=True) from None


def _belongs(quad: Quad, pattern: QuadPattern, form: SearchForm) -> bool:
    """Return True if a quad is in the fragment; in a source of triples the graph does not matter."""
    if form.quads:
        return pattern.matches(quad)
    return QuadPattern(pattern.subject, pattern.predicate, pattern.object).matches(quad)


@dataclass(eq=False)
class _Controls:
    """The controls of a page."""

    quads: Sequence[Quad]
    graph: NamedNode | BlankNode | DefaultGraph
    url: str
    search: Quad

    def form(self) -> SearchForm:
        """Return the form behind hydra:search; if there are several, the one without an instant."""
        forms = [
            self._form(quad) for quad in self.quads if quad.predicate == SEARCH and _has_template(quad, self.quads)
        ]
        plain = [form for form in forms if "instant" not in form.variables]
        timed = [form for form in forms if "instant" in form.variables]
        main = next(iter(plain or timed), None) or self._form(self.search)
        if plain:
            return replace(main, holding=next(iter(timed), None))
        return main

    def _form(self, search: Quad) -> SearchForm:
        template = self._one(search.object, TEMPLATE)
        if not isinstance(template, Literal) or not is_template(template.value):
            found = "none" if template is None else str(template)[:100]
            raise FetchError(f"malformed: the page's form has no usable template: {found}")
        variables = {}
        for mapping in self._all(search.object, MAPPING):
            name, role = self._one(mapping, VARIABLE), self._one(mapping, PROPERTY)
            if isinstance(name, Literal) and isinstance(role, NamedNode) and role.value in ROLES:
                variables[ROLES[role.value]] = name.value
        if missing := {"subject", "predicate", "object"} - variables.keys():
            raise FetchError(f"malformed: the page's form has no variable for the {' and the '.join(sorted(missing))}")
        default = self._one(search.subject, DEFAULT)
        return SearchForm(template.value, variables, default.value if isinstance(default, NamedNode) else DEFAULT_GRAPH)

    def number(self, *predicates: NamedNode) -> int | None:
        for predicate in predicates:
            said = [quad for quad in self.quads if quad.predicate == predicate]
            here = [quad for quad in said if isinstance(quad.subject, NamedNode) and quad.subject.value == self.url]
            numbers = {_count(quad.object) for quad in here or said}
            if len(numbers) == 1:
                return numbers.pop()
        return None

    def next(self) -> str | None:
        said = {q.object.value for q in self.quads if q.predicate in NEXT and isinstance(q.object, NamedNode)}
        if len(said) > 1:
            raise FetchError(f"malformed: the page has {len(said)} next pages: {', '.join(sorted(said))[:200]}")
        if said:
            return said.pop()
        return None

    def rest(self) -> list[Quad]:
        """Return the quads among the controls that are data."""
        own: set[object] = {self.search.subject}
        own |= {quad.subject for quad in self.quads if quad.predicate in (SUBSET, *NEXT, TOTAL, PER_PAGE)}
        own |= {quad.object for quad in self.quads if quad.predicate == SUBSET and quad.subject in own}
        for search in (quad.object for quad in self.quads if quad.predicate == SEARCH):
            own |= {search, *self._all(search, MAPPING)}
        own |= {NamedNode(self.url)}
        return [quad for quad in self.quads if quad.subject not in own]

    def _all(self, subject: object, predicate: NamedNode) -> list[object]:
        return [quad.object for quad in self.quads if quad.predicate == predicate and quad.subject == subject]

    def _one(self, subject: object, predicate: NamedNode) -> object:
        return next(iter(self._all(subject, predicate)), None)


def _controls_of(quads: Sequence[Quad], url: str) -> _Controls:
    """Return the controls; if several graphs have a form, prefer a named one."""
    searches = [quad for quad in quads if quad.predicate == SEARCH and _has_template(quad, quads)]
    searches.sort(key=lambda quad: isinstance(quad.graph_name, DefaultGraph))
    if not searches:
        raise FetchError("malformed: the page is not a fragment: it has no hydra:search with a hydra:template")
    graph = searches[0].graph_name
    return _Controls([quad for quad in quads if quad.graph_name == graph], graph, url, searches[0])


def _has_template(search: Quad, quads: Iterable[Quad]) -> bool:
    return any(q.predicate == TEMPLATE and q.subject == search.object for q in quads)


def _count(term: object) -> int | None:
    written = term.value if isinstance(term, Literal) else ""
    if written.isascii() and written.isdigit() and len(written) <= MAX_COUNT_DIGITS:
        return int(written)
    return None
