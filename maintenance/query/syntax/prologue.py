"""BASE and PREFIX: what names in a query stand for."""

import re
from collections.abc import Collection
from dataclasses import dataclass

import pyoxigraph as ox

from freshkeeper.maintenance.query.syntax.cursor import Cursor, shown
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token
from freshkeeper.policies.errors import nearest

DEFAULT_BASE = "freshkeeper:/"
"""What relative names are resolved against when neither the query nor the caller names a base."""

KNOWN = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "prov": "http://www.w3.org/ns/prov#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "sioc": "http://rdfs.org/sioc/ns#",
    "schema": "http://schema.org/",
    "fk": "freshkeeper:",
}
"""Namespaces that an error about an unknown prefix can complete; none is declared by itself."""

_ABSOLUTE = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*:")
_LOCAL_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\(.)")


@dataclass(frozen=True)
class Prologue:
    """The base and the prefixes of a query, all absolute; the last declaration of a prefix counts."""

    base: str | None = None
    prefixes: tuple[tuple[str, str], ...] = ()

    def resolve(self, name: str) -> str:
        """The IRI that `<...>` or `prefix:local` stands for; KeyError on an unknown prefix, ValueError on no IRI."""
        if name.startswith("<"):
            return resolve_iri(name, self.base or DEFAULT_BASE)
        prefix, _, local = name.partition(":")
        iri = dict(self.prefixes)[prefix] + _LOCAL_ESCAPE.sub(_unescape, local)
        return ox.NamedNode(iri).value

    def declare(self, prefix: str, iri: str) -> "Prologue":
        """This prologue with a prefix more."""
        return Prologue(self.base, tuple(sorted({**dict(self.prefixes), prefix: iri}.items())))

    def only(self, prefixes: Collection[str]) -> "Prologue":
        """This prologue with these prefixes alone."""
        return Prologue(self.base, tuple((p, iri) for p, iri in self.prefixes if p in prefixes))

    @property
    def text(self) -> str:
        """As SPARQL writes it, one declaration to a line."""
        lines = [f"BASE <{self.base}>\n"] if self.base is not None else []
        return "".join(lines + [f"PREFIX {prefix}: <{iri}>\n" for prefix, iri in self.prefixes])


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else match[3]


def is_relative(token: Token) -> bool:
    """Whether an IRI needs a base."""
    return token.kind is Kind.IRI and not _ABSOLUTE.match(token.text)


def resolve_iri(written: str, base: str) -> str:
    """The absolute IRI of `<...>`; resolved by the library that evaluates the query, so that both agree."""
    if _ABSOLUTE.match(written) and "\\" not in written:
        return ox.NamedNode(written[1:-1]).value
    try:
        triple = f"{written} <a:b> <a:b> ."
        quad = next(iter(ox.parse(input=triple, format=ox.RdfFormat.TURTLE, base_iri=base)))
    except SyntaxError as error:
        raise ValueError(str(error)) from None
    return quad.subject.value if isinstance(quad.subject, ox.NamedNode) else written[1:-1]


def read_prologue(cursor: Cursor, prologue: Prologue, base: str) -> Prologue:
    """Read declarations as long as there are any; relative ones are resolved against what was declared before."""
    while word := cursor.took("BASE", "PREFIX"):
        prefix = None if word.is_word("BASE") else _prefix_name(cursor)
        if cursor.now.kind is not Kind.IRI:
            cursor.fail(f"{shown(cursor.now)} where an IRI is missing", "write <http://...>")
        iri = name_of(cursor, cursor.take(), Prologue(prologue.base or base))
        prologue = Prologue(iri, prologue.prefixes) if prefix is None else prologue.declare(prefix, iri)
    return prologue


def _prefix_name(cursor: Cursor) -> str:
    token = cursor.now
    if token.kind is not Kind.PNAME or not token.text.endswith(":") or token.text.count(":") > 1:
        cursor.fail(f"{shown(token)} where a prefix is missing", "write PREFIX name: <http://...>")
    return cursor.take().text[:-1]


def name_of(cursor: Cursor, token: Token, prologue: Prologue) -> str:
    """The IRI that a token stands for, or an error at the token."""
    try:
        return prologue.resolve(token.text)
    except KeyError:
        check_prefix(cursor, token, prologue)
        raise
    except ValueError as error:
        cursor.fail(f"{shown(token)} is no IRI: {error}", "write <http://...>", token)


def check_prefix(cursor: Cursor, token: Token, prologue: Prologue) -> None:
    """An error if the token's prefix was never declared."""
    known = dict(prologue.prefixes)
    prefix = token.text.partition(":")[0]
    if prefix in known:
        return
    if prefix in ("http", "https", "urn"):
        remedy = f"an IRI is written in angle brackets, without blanks: <{token.text}...>"
    elif prefix in KNOWN:
        remedy = f"declare it: PREFIX {prefix}: <{KNOWN[prefix]}>"
    else:
        near = f" ({nearest(prefix, list(known))})" if prefix and known else ""
        remedy = f"declare it: PREFIX {prefix}: <http://...>{near}"
    cursor.fail(f"the prefix {prefix}: is unknown", remedy, token)
