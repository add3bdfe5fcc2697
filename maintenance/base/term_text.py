"""Keys, copies and the state of policies as text: JSON in which an RDF term is its N-Triples form, and back.

    term → "..."   None, bool, number → itself   tuple → [...]   triple → {"triple": [...]}   text → {"text": "..."}

Other values of Python are converted by `base/plain_values.py`. Many terms are read in one call, because the parser is
quick with long texts only. The RDF library is imported only where there are terms: a Manager does without.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any, TypeAlias

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.maintenance.base.plain_values import parts, tagged, untagged

Json: TypeAlias = Any
LINE = "<freshkeeper:s> <freshkeeper:p> {} .\n"


def encode(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def decode(texts: Iterable[str]) -> list[Any]:
    """Return the keys or copies that some texts stand for."""
    parsed = [json.loads(text) for text in texts]
    written: dict[str, Any] = {}
    for value in parsed:
        _collect(value, written)
    if written:
        import pyoxigraph as ox

        document = "".join(LINE.format(term) for term in written)
        quads = ox.parse(document, format=ox.RdfFormat.N_TRIPLES, lenient=True)
        written = dict(zip(written, [quad.object for quad in quads], strict=True))
    return [_from_plain(value, written) for value in parsed]


def key_as_text(key: object) -> str:
    """Return a key as the journal has it: the terms of a tuple are separated by spaces."""
    if isinstance(key, tuple):
        return " ".join(map(_as_text, key))
    return _as_text(key)


def _as_text(part: object) -> str:
    """Write a term as N-Triples does; the library prints a triple term without its brackets."""
    if type(part).__name__ == "Triple":
        return f"<<( {part} )>>"
    return str(part)


def _plain(value: object) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    ox: Any = sys.modules.get("pyoxigraph")
    if ox is not None:
        if isinstance(value, ox.Triple):
            return {"triple": [_plain(value.subject), _plain(value.predicate), _plain(value.object)]}
        if isinstance(value, ox.NamedNode | ox.Literal | ox.BlankNode):
            return str(value)
    written = tagged(value, _plain)
    if written is None:
        raise InputError(
            f"{value!r} cannot be kept: a state holds RDF terms, text, numbers, dates, bytes, arrays of numpy, and "
            "tuples, lists, sets and dicts of them"
        )
    return written


def _collect(value: Json, found: dict[str, Any]) -> None:
    if isinstance(value, str):
        found[value] = None
    elif isinstance(value, list):
        for part in value:
            _collect(part, found)
    elif isinstance(value, dict):
        for part in parts(value):
            _collect(part, found)


def _from_plain(value: Json, known: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return known[value]
    if isinstance(value, list):
        return tuple(_from_plain(part, known) for part in value)
    if isinstance(value, dict):
        if "triple" in value:
            import pyoxigraph as ox

            return ox.Triple(*_from_plain(value["triple"], known))
        return untagged(value, lambda part: _from_plain(part, known))
    return value
