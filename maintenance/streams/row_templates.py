"""Templates of triples, which are filled with the fields of a table's rows."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode, Quad

from freshkeeper.maintenance.base.errors import ConfigError

PARTS = ("subject", "predicate", "object", "iri", "datatype", "language")
_FIELD = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class RowTemplate:
    """A triple of every row."""

    subject: str
    predicate: NamedNode
    value: str
    """the text of the object"""
    literal: bool
    datatype: NamedNode | None
    language: str | None
    prefixes: Mapping[str, str]

    def fill(self, row: Mapping[str, Any]) -> Quad | None:
        subject = _fill(self.subject, row, encode=True)
        value = _fill(self.value, row, encode=not self.literal)
        if subject is None or value is None:
            return None
        target: Literal | NamedNode
        if self.literal:
            target = self._literal(value)
        else:
            target = NamedNode(_expand(value, self.prefixes))
        return Quad(NamedNode(_expand(subject, self.prefixes)), self.predicate, target)

    def _literal(self, value: str) -> Literal:
        if self.language:
            return Literal(value, language=self.language)
        return Literal(value, datatype=self.datatype)


def parse_template(path: Path, triple: Any, prefixes: Mapping[str, str]) -> RowTemplate:
    """Return a template of a mapping, checked so that mistakes are found before any row is read."""
    is_triple = isinstance(triple, dict) and {"subject", "predicate"} <= triple.keys() <= set(PARTS)
    if not is_triple or ("object" in triple) == ("iri" in triple):
        raise ConfigError(f"{path}: {triple} is no triple: it has a subject, a predicate, and an object or an iri")
    parts = {key: str(value) for key, value in triple.items()}
    datatype = None
    if "datatype" in parts:
        datatype = _iri(path, "datatype", parts["datatype"], prefixes)
    language = None
    if "language" in parts:
        language = _language(path, parts["language"])
    return RowTemplate(
        subject=parts["subject"],
        predicate=_iri(path, "predicate", parts["predicate"], prefixes),
        value=parts.get("object", parts.get("iri", "")),
        literal="object" in parts,
        datatype=datatype,
        language=language,
        prefixes=prefixes,
    )


def _iri(path: Path, what: str, written: str, prefixes: Mapping[str, str]) -> NamedNode:
    try:
        return NamedNode(_expand(written, prefixes))
    except ValueError as error:
        raise ConfigError(f"{path}: the {what} {written} is no IRI: {error}") from None


def _language(path: Path, tag: str) -> str:
    try:
        Literal("", language=tag)
    except ValueError as error:
        raise ConfigError(f"{path}: the language {tag} is no language tag: {error}") from None
    return tag


def text_of(field: str, row: Mapping[str, Any]) -> str | None:
    """Return the value of a field as text, or None if it is missing or empty."""
    value = row.get(field)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        start = json.dumps(value)[:40]
        raise ValueError(f"{field} is {start}, but one value is expected: a text, a number, true or false")
    if value is None:
        return None
    return str(value) or None


def _fill(text: str, row: Mapping[str, Any], *, encode: bool) -> str | None:
    """Return the text with its fields filled in, percent-encoded in an IRI, or None if one is missing."""
    values = {name: text_of(name, row) or "" for name in _FIELD.findall(text)}
    if "" in values.values():
        return None
    if encode:
        return _FIELD.sub(lambda match: quote(values[match[1]], safe=""), text)
    return _FIELD.sub(lambda match: values[match[1]], text)


def _expand(text: str, prefixes: Mapping[str, str]) -> str:
    prefix, colon, local = text.partition(":")
    if colon and prefix in prefixes:
        return prefixes[prefix] + local
    return text
