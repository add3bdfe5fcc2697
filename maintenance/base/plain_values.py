"""Values of Python that JSON has no word for, as JSON that has: {"text": "a"}, {"list": [...]}, {"time": ...}."""

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

ENCODERS: dict[type, tuple[str, Callable[[Any], str]]] = {
    str: ("text", str),
    datetime: ("time", datetime.isoformat),
    date: ("date", date.isoformat),
    timedelta: ("microseconds", lambda value: str(value // timedelta(microseconds=1))),
    Decimal: ("decimal", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    UUID: ("uuid", str),
}
"""By type: its tag, and the function that writes it."""
DECODERS: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "microseconds": lambda text: timedelta(microseconds=int(text)),
    "decimal": Decimal,
    "bytes": base64.b64decode,
    "uuid": UUID,
}


def tagged(value: object, inner: Callable[[Any], Any]) -> Any:
    """Return the value as JSON, or None if its type is unknown; `inner` writes the parts of lists and dicts."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, list):
        return {"list": [inner(part) for part in value]}
    if isinstance(value, Mapping):
        return {"dict": [[inner(key), inner(part)] for key, part in value.items()]}
    known = ENCODERS.get(type(value))
    return None if known is None else {known[0]: known[1](value)}


def parts(value: Mapping[str, Any]) -> list[Any]:
    """Return the JSON of the parts of a value, which may be RDF terms."""
    if "dict" in value:
        return [part for pair in value["dict"] for part in pair]
    held: list[Any] = value["list"] if "list" in value else value.get("triple", [])
    return held


def untagged(value: Mapping[str, Any], inner: Callable[[Any], Any]) -> Any:
    """Return the value that was written with a tag."""
    ((tag, held),) = value.items()
    if tag == "list":
        return [inner(part) for part in held]
    if tag == "dict":
        return {inner(key): inner(part) for key, part in held}
    return DECODERS[tag](held)
