"""Values of Python that JSON has no word for, as JSON that has: {"text": "a"}, {"list": [...]}, {"time": ...}."""

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

WRITTEN: dict[type, tuple[str, Callable[[Any], str]]] = {
    str: ("text", str),
    datetime: ("time", datetime.isoformat),
    date: ("date", date.isoformat),
    timedelta: ("microseconds", lambda value: str(value // timedelta(microseconds=1))),
    Decimal: ("decimal", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    UUID: ("uuid", str),
}
"""By type: what it is called, and its text."""
READ: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "microseconds": lambda text: timedelta(microseconds=int(text)),
    "decimal": Decimal,
    "bytes": base64.b64decode,
    "uuid": UUID,
}


def tagged(value: object, inner: Callable[[Any], Any]) -> Any:
    """The value as JSON, or None if it is none of these; `inner` writes what it holds."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, list):
        return {"list": [inner(part) for part in value]}
    if isinstance(value, Mapping):
        return {"dict": [[inner(key), inner(part)] for key, part in value.items()]}
    known = WRITTEN.get(type(value))
    return None if known is None else {known[0]: known[1](value)}


def parts(value: Mapping[str, Any]) -> list[Any]:
    """The JSON that a value holds, which may be of terms."""
    if "dict" in value:
        return [part for pair in value["dict"] for part in pair]
    held: list[Any] = value["list"] if "list" in value else value.get("triple", [])
    return held


def untagged(value: Mapping[str, Any], inner: Callable[[Any], Any]) -> Any:
    """The value that was written with a tag, as JSON has no such type."""
    ((tag, held),) = value.items()
    if tag == "list":
        return [inner(part) for part in held]
    if tag == "dict":
        return {inner(key): inner(part) for key, part in held}
    return READ[tag](held)
