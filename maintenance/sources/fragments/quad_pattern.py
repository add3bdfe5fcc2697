"""Quad patterns, and the terms in addresses of fragments.

Terms are written in Hydra's explicit representation: an IRI as it is, a literal in quotes with its language or
datatype. IRIs in angle brackets and `@default` for the default graph are accepted too.
"""

import re
from dataclasses import dataclass, fields
from typing import TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

PatternTerm: TypeAlias = NamedNode | BlankNode | Literal | Triple | DefaultGraph
DEFAULT_GRAPH = "urn:ldf:defaultGraph"
"""The default graph in addresses, unless the source has another name for it."""
GENID = "urn:freshkeeper:genid:"
"""Prefix of the IRI that stands for a blank node outside, so that it can be requested."""
VARIABLE_PREFIXES = ("?", "_:")
"""A variable of any name matches any term."""
_STRING = "http://www.w3.org/2001/XMLSchema#string"
_LITERAL = re.compile(r'"(.*)"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<?([^<>"]+)>?)?', re.DOTALL)


@dataclass(frozen=True)
class QuadPattern:
    """A quad pattern. None is open; DefaultGraph() is the default graph only."""

    subject: PatternTerm | None = None
    predicate: PatternTerm | None = None
    object: PatternTerm | None = None
    graph: PatternTerm | None = None

    def matches(self, quad: Quad) -> bool:
        return (
            self.subject in (None, quad.subject)
            and self.predicate in (None, quad.predicate)
            and self.object in (None, quad.object)
            and self.graph in (None, quad.graph_name)
        )

    @property
    def terms(self) -> dict[str, PatternTerm]:
        found = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {role: term for role, term in found if term is not None}

    def __str__(self) -> str:
        roles = ("subject", "predicate", "object")
        positions = " ".join(str(getattr(self, role) or f"?{role[0]}") for role in roles)
        return f"{{ {positions} }}"


def address_text(term: PatternTerm, default_graph: str = DEFAULT_GRAPH) -> str:
    """Return a term as in an address, before percent-encoding."""
    if isinstance(term, DefaultGraph):
        return default_graph
    if isinstance(term, NamedNode):
        return term.value
    if isinstance(term, BlankNode):
        return GENID + term.value
    if isinstance(term, Triple):
        return str(term)
    if term.language:
        return f'"{term.value}"@{term.language}'
    datatype = term.datatype.value
    if datatype == _STRING:
        return f'"{term.value}"'
    return f'"{term.value}"^^{datatype}'


def read_term(text: str) -> PatternTerm | None:
    """Return the term of a parameter, None if it is open; raise ValueError if it is invalid."""
    if not text or text.startswith(VARIABLE_PREFIXES):
        return None
    if text in (DEFAULT_GRAPH, "@default"):
        return DefaultGraph()
    if text.startswith(GENID):
        return BlankNode(text.removeprefix(GENID))
    if text.startswith('"'):
        return _literal(text)
    return NamedNode(text.removeprefix("<").removesuffix(">"))


def _literal(text: str) -> Literal:
    found = _LITERAL.fullmatch(text)
    if found is None:
        raise ValueError(f'{text!r} is not a literal; write "text", "text"@en or "1"^^http://... with its datatype')
    value, language, datatype = found.groups()
    if language:
        return Literal(value, language=language)
    if datatype:
        return Literal(value, datatype=NamedNode(datatype))
    return Literal(value)
