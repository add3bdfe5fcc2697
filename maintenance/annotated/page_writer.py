"""Writes pages: data, counts and Hydra controls, in the requested RDF format.

In formats with graphs, the controls are in a graph of their own, as the specification recommends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, serialize

from freshkeeper.maintenance.sources.fragments.quad_pattern import DEFAULT_GRAPH, GENID, QuadPattern, address_text
from freshkeeper.maintenance.sources.fragments.vocabulary import (
    DEFAULT,
    HYDRA,
    MAPPING,
    NEXT,
    PER_PAGE,
    PROPERTY,
    RDF,
    ROLES,
    SEARCH,
    SUBSET,
    TEMPLATE,
    TOPIC,
    TOTAL,
    TRIPLES,
    VARIABLE,
    VOID,
)

FORMATS = {
    "application/trig": RdfFormat.TRIG,
    "application/n-quads": RdfFormat.N_QUADS,
    "application/ld+json": RdfFormat.JSON_LD,
    "text/turtle": RdfFormat.TURTLE,
    "application/n-triples": RdfFormat.N_TRIPLES,
}
"""Supported media types; the first is the default."""
GRAPHLESS = (RdfFormat.TURTLE, RdfFormat.N_TRIPLES)
_TYPE = NamedNode(f"{RDF}type")
_EXPLICIT = NamedNode(f"{HYDRA}variableRepresentation"), NamedNode(f"{HYDRA}ExplicitRepresentation")
_FIRST, _PREVIOUS = NamedNode(f"{HYDRA}first"), NamedNode(f"{HYDRA}previous")
_ControlTriple: TypeAlias = tuple[NamedNode | BlankNode, NamedNode, NamedNode | BlankNode | Literal]
_NAMES = {role: iri for iri, role in ROLES.items()}


@dataclass(frozen=True)
class PagePosition:
    """The position of a page in its fragment."""

    base: str
    """the address of the dataset"""
    pattern: QuadPattern
    number: int
    per_page: int
    total: int
    history: bool = False
    """offer a form for current data"""
    instant: str = ""
    """the instant of the fragment, "" for all times"""

    @property
    def fragment(self) -> str:
        given = [f"{role}={quote(address_text(term), safe='')}" for role, term in self.pattern.terms.items()]
        given += [f"instant={self.instant}"] if self.instant else []
        return self.base + ("?" + "&".join(given) if given else "")

    def page(self, number: int) -> str:
        """Return the address of a page; the first page has the address of the fragment."""
        if number == 1:
            return self.fragment
        return f"{self.fragment}{'&' if '?' in self.fragment else '?'}page={number}"

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.per_page))


def write_page(data: Sequence[Quad], place: PagePosition, media_type: str) -> bytes:
    form = FORMATS[media_type]
    graph = DefaultGraph() if form in GRAPHLESS else NamedNode(f"{place.page(place.number)}#metadata")
    quads = [*map(_outside, data), *(Quad(s, p, o, graph) for s, p, o in _controls(place))]
    if not isinstance(graph, DefaultGraph):
        quads.append(Quad(graph, TOPIC, NamedNode(place.page(place.number)), graph))
    else:
        quads = [Quad(q.subject, q.predicate, q.object) for q in quads]
    found = serialize(quads, format=form)
    assert found is not None
    return found


def _outside(quad: Quad) -> Quad:
    """Return a quad with IRIs for its blank nodes, which mean nothing on another page."""
    if not any(isinstance(term, BlankNode) for term in (quad.subject, quad.object, quad.graph_name)):
        return quad
    subject, value, graph = (
        NamedNode(GENID + term.value) if isinstance(term, BlankNode) else term
        for term in (quad.subject, quad.object, quad.graph_name)
    )
    return Quad(subject, quad.predicate, value, graph)  # type: ignore[arg-type]


def _form(place: PagePosition, form: BlankNode, roles: Sequence[str]) -> Iterator[_ControlTriple]:
    """Yield one form. Current data have a form of their own, because clients count a form's variables."""
    yield NamedNode(f"{place.base}#dataset"), SEARCH, form
    yield form, TEMPLATE, Literal(f"{place.base}{{?{','.join(roles)}}}")
    yield form, *_EXPLICIT
    for role in roles:
        yield form, MAPPING, BlankNode(role)
        yield BlankNode(role), VARIABLE, Literal(role)
        yield BlankNode(role), PROPERTY, NamedNode(_NAMES[role])


def _controls(place: PagePosition) -> Iterator[_ControlTriple]:
    """Yield the forms, the counts and the neighbours of a page."""
    dataset, page = NamedNode(f"{place.base}#dataset"), NamedNode(place.page(place.number))
    yield dataset, _TYPE, NamedNode(f"{VOID}Dataset")
    yield dataset, _TYPE, NamedNode(f"{HYDRA}Collection")
    yield dataset, SUBSET, page
    yield dataset, DEFAULT, NamedNode(DEFAULT_GRAPH)
    yield from _form(place, BlankNode("form"), [role for role in _NAMES if role != "instant"])
    if place.history:
        yield from _form(place, BlankNode("now"), list(_NAMES))
    fragment = NamedNode(place.fragment)
    yield fragment, SUBSET, page
    yield page, _TYPE, NamedNode(f"{HYDRA}PartialCollectionView")
    yield page, TOTAL, Literal(place.total)
    yield page, TRIPLES, Literal(place.total)
    yield page, PER_PAGE, Literal(place.per_page)
    yield page, _FIRST, fragment
    if place.number > 1:
        yield page, _PREVIOUS, NamedNode(place.page(place.number - 1))
    if place.number < place.last:
        yield page, NEXT[0], NamedNode(place.page(place.number + 1))
