"""JSON documents as triples: which document is about a subject, and what its values mean.

A template has {id} once: `http://example.org/user/{id}` and `https://api.example.org/users/{id}` say where the
document about a user is. The id is percent-encoded in addresses and taken back out of IRIs, so that no key leads to
another place. A path is dotted; where it meets a list it goes on in each of its items.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from pyoxigraph import Literal, NamedNode, Quad

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.base.nesting import no_constant
from freshkeeper.maintenance.sources.bounds import check_json
from freshkeeper.maintenance.sources.transport import Term

ID = "{id}"


@dataclass(frozen=True)
class Template:
    """A text with a place for an id."""

    before: str
    after: str

    @classmethod
    def of(cls, written: str) -> "Template":
        if written.count(ID) != 1:
            raise ConfigError(f"{written!r} must have {ID} once, in the place of the key's own part")
        before, _, after = written.partition(ID)
        return cls(before, after)

    def fill(self, identity: str) -> str:
        return f"{self.before}{quote(identity, safe='')}{self.after}"

    def match(self, written: str) -> str | None:
        whole = len(self.before) + len(self.after)
        if len(written) <= whole or not (written.startswith(self.before) and written.endswith(self.after)):
            return None
        found = written[len(self.before) : len(written) - len(self.after)]
        if "/" in found:
            return None
        return unquote(found)


@dataclass(frozen=True)
class Property:
    """A predicate, where its values are, and the IRIs that they stand for, if any."""

    predicate: NamedNode
    path: tuple[str, ...]
    iri: Template | None = None


@dataclass(frozen=True)
class Resource:
    """A kind of document."""

    subject: Template
    url: Template
    properties: Sequence[Property]

    def address(self, term: Term | None) -> str | None:
        found = self.subject.match(term.value) if isinstance(term, NamedNode) else None
        if found is None or found in ("", ".", ".."):
            return None
        return self.url.fill(found)

    def triples(self, subject: NamedNode, document: object) -> Iterator[Quad]:
        for each in self.properties:
            for value in _values(document, each.path):
                term = _term(value, each.iri)
                if term is not None:
                    yield Quad(subject, each.predicate, term)


def _values(document: object, path: Sequence[str]) -> Iterator[object]:
    if isinstance(document, list):
        for item in document:
            yield from _values(item, path)
    elif not path:
        yield document
    elif isinstance(document, Mapping) and path[0] in document:
        yield from _values(document[path[0]], path[1:])


def _term(value: object, iri: Template | None) -> Term | None:
    """Return a term for a JSON value; None for null, objects and texts that are no IRI."""
    if value is None or isinstance(value, Mapping):
        return None
    if iri is not None:
        if isinstance(value, bool):
            return None
        return NamedNode(iri.fill(str(value)))
    if isinstance(value, int) and not isinstance(value, bool):
        return Literal(str(value), datatype=NamedNode("http://www.w3.org/2001/XMLSchema#integer"))
    if isinstance(value, str | bool | float):
        return Literal(value)
    return None


def read_json(body: bytes, max_bytes: int) -> Any:
    """Return the document in an answer; raise ValueError if there is none, and FetchError if it is too large."""
    text = body.decode(json.detect_encoding(body))
    check_json(text.encode(), max_bytes)
    return json.loads(text, parse_constant=no_constant)
