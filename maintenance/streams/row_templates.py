"""What a row of a table says: one triple, with the row's fields filled in."""

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
class Template:
    """One triple of every row."""

    subject: str
    predicate: NamedNode
    value: str
    """of the object"""
    literal: bool
    datatype: NamedNode | None
    language: str | None
    prefixes: Mapping[str, str]

    def fill(self, row: Mapping[str, Any]) -> Quad | None:
        """The triple of a row, or nothing where a field is missing."""
        subject = _filled(self.subject, row, True)
        value = _filled(self.value, row, not self.literal)
        if subject is None or value is None:
            return None
        target = self._literal(value) if self.literal else NamedNode(_expand(value, self.prefixes))
        return Quad(NamedNode(_expand(subject, self.prefixes)), self.predicate, target)

    def _literal(self, value: str) -> Literal:
        if self.language:
            return Literal(value, language=self.language)
        return Literal(value, datatype=self.datatype)


def template(path: Path, written: Any, prefixes: Mapping[str, str]) -> Template:
    """One triple of a mapping, checked once, so that what fits no row is told before any is read."""
    known = isinstance(written, dict) and {"subject", "predicate"} <= written.keys() <= set(PARTS)
    if not known or ("object" in written) == ("iri" in written):
        raise ConfigError(f"{path}: {written} is no triple: it has a subject, a predicate, and an object or an iri")
    given = {key: str(value) for key, value in written.items()}
    return Template(
        given["subject"],
        _iri(path, "predicate", given["predicate"], prefixes),
        given.get("object", given.get("iri", "")),
        "object" in given,
        _iri(path, "datatype", given["datatype"], prefixes) if "datatype" in given else None,
        _language(path, given["language"]) if "language" in given else None,
        prefixes,
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
    """The value of a field as text, or nothing where it is missing or empty."""
    value = row.get(field)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        raise ValueError(
            f"{field} is {json.dumps(value)[:40]}, and one value is wanted: a text, a number, true or false"
        )
    return None if value is None else str(value) or None


def _filled(written: str, row: Mapping[str, Any], encode: bool) -> str | None:
    """The text with its fields filled in; in an IRI they are percent-encoded."""
    values = {name: text_of(name, row) for name in _FIELD.findall(written)}
    if None in values.values():
        return None
    return _FIELD.sub(lambda m: quote(values[m[1]] or "", safe="") if encode else values[m[1]] or "", written)


def _expand(written: str, prefixes: Mapping[str, str]) -> str:
    prefix, colon, rest = written.partition(":")
    return prefixes[prefix] + rest if colon and prefix in prefixes else written
