"""BASE and PREFIX declarations, which map the names of a query to IRIs."""

import re
from collections.abc import Collection
from dataclasses import dataclass

import pyoxigraph as ox

from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.query.syntax.cursor import Cursor, describe_token
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind

DEFAULT_BASE = "freshkeeper:/"
"""The base of relative names when neither the query nor the caller gives one."""

COMMON_PREFIXES = {
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
"""Namespaces that an error about an unknown prefix suggests; none of them is declared implicitly."""

_ABSOLUTE = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*:")
_LOCAL_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\(.)")


@dataclass(frozen=True)
class Prologue:
    """The base and the prefixes of a query, all absolute; the last declaration of a prefix counts."""

    base: str | None = None
    prefixes: tuple[tuple[str, str], ...] = ()

    def resolve(self, name: str) -> str:
        """Return the IRI of `<...>` or `prefix:local`.

        An undeclared prefix raises KeyError, and a malformed IRI ValueError.
        """
        if name.startswith("<"):
            return resolve_iri(name, self.base or DEFAULT_BASE)
        prefix, _, local = name.partition(":")
        iri = dict(self.prefixes)[prefix] + _LOCAL_ESCAPE.sub(_unescape, local)
        return ox.NamedNode(iri).value  # raises ValueError if it is no IRI

    def declare(self, prefix: str, iri: str) -> "Prologue":
        """Return a prologue with one more prefix."""
        return Prologue(self.base, tuple(sorted({**dict(self.prefixes), prefix: iri}.items())))

    def only(self, prefixes: Collection[str]) -> "Prologue":
        """Return a prologue with no other prefixes than these."""
        return Prologue(self.base, tuple((p, iri) for p, iri in self.prefixes if p in prefixes))

    @property
    def text(self) -> str:
        """The declarations as SPARQL text, one per line."""
        lines = [f"PREFIX {prefix}: <{iri}>\n" for prefix, iri in self.prefixes]
        if self.base is not None:
            lines.insert(0, f"BASE <{self.base}>\n")
        return "".join(lines)


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        return chr(int(code, 16))
    return match[3]


def is_relative(token: Token) -> bool:
    """Return whether an IRI needs a base."""
    return token.kind is TokenKind.IRI and not _ABSOLUTE.match(token.text)


def resolve_iri(written: str, base: str) -> str:
    """Return the absolute IRI of `<...>`, resolved by the library that evaluates the query, so that both agree."""
    # the usual case, without a parser; an escape may stand for any character
    if _ABSOLUTE.match(written) and "\\" not in written:
        return ox.NamedNode(written[1:-1]).value
    try:
        triple = f"{written} <a:b> <a:b> ."
        quad = next(iter(ox.parse(input=triple, format=ox.RdfFormat.TURTLE, base_iri=base)))
    except SyntaxError as error:
        raise ValueError(str(error)) from None
    if isinstance(quad.subject, ox.NamedNode):
        return quad.subject.value
    return written[1:-1]


def read_prologue(cursor: Cursor, prologue: Prologue, base: str) -> Prologue:
    """Read all declarations that follow and return the extended prologue.

    A relative IRI is resolved against the declarations before it.
    """
    while word := cursor.accept("BASE", "PREFIX"):
        is_base = word.is_word("BASE")
        prefix = "" if is_base else _prefix_name(cursor)
        if cursor.now.kind is not TokenKind.IRI:
            cursor.fail(f"{describe_token(cursor.now)} where an IRI is missing", "write <http://...>")
        iri = name_of(cursor, cursor.take(), Prologue(prologue.base or base))
        if is_base:
            prologue = Prologue(iri, prologue.prefixes)
        else:
            prologue = prologue.declare(prefix, iri)
    return prologue


def _prefix_name(cursor: Cursor) -> str:
    token = cursor.now
    if token.kind is not TokenKind.PNAME or not token.text.endswith(":") or token.text.count(":") > 1:
        cursor.fail(f"{describe_token(token)} where a prefix is missing", "write PREFIX name: <http://...>")
    return cursor.take().text[:-1]


def name_of(cursor: Cursor, token: Token, prologue: Prologue) -> str:
    """Return the IRI of a token, or fail at the token."""
    try:
        return prologue.resolve(token.text)
    except KeyError:
        check_prefix(cursor, token, prologue)
        raise
    except ValueError as error:
        cursor.fail(f"{describe_token(token)} is no IRI: {error}", "write <http://...>", token)


def check_prefix(cursor: Cursor, token: Token, prologue: Prologue) -> None:
    """Fail at the token if its prefix is not declared."""
    declared = dict(prologue.prefixes)
    prefix = token.text.partition(":")[0]
    if prefix in declared:
        return
    if prefix in ("http", "https", "urn"):
        remedy = f"an IRI is written in angle brackets, without blanks: <{token.text}...>"
    elif prefix in COMMON_PREFIXES:
        remedy = f"declare it: PREFIX {prefix}: <{COMMON_PREFIXES[prefix]}>"
    else:
        remedy = f"declare it: PREFIX {prefix}: <http://...>"
        if prefix and declared:
            remedy += f" ({nearest(prefix, list(declared))})"
    cursor.fail(f"the prefix {prefix}: is unknown", remedy, token)
