"""Values of Python and numpy that JSON has no word for, as JSON: {"text": "a"}, {"list": [...]}, {"time": ...}.

numpy is imported only where one of its values is read: an enricher does without.
"""

import base64
import json
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
    """Return the value as JSON, or None if its type is unknown; `inner` writes the parts of lists, sets and dicts."""
    if type(value).__module__ == "numpy":
        return _of_numpy(value, inner)
    if isinstance(value, int | float):
        return value
    if isinstance(value, list):
        return {"list": [inner(part) for part in value]}
    if isinstance(value, Mapping):
        return {"dict": [[inner(key), inner(part)] for key, part in value.items()]}
    if isinstance(value, set | frozenset):
        # Sorted, so that the text does not depend on the hash seed of the process.
        kind = "set" if isinstance(value, set) else "frozenset"
        return {kind: sorted((inner(part) for part in value), key=json.dumps)}
    if isinstance(value, str):  # members of a StrEnum too
        return {"text": str(value)}
    known = ENCODERS.get(type(value))
    if known is None:
        return None
    return {known[0]: known[1](value)}


def _of_numpy(value: Any, inner: Callable[[Any], Any]) -> Any:
    """Return an array or a scalar with its type and its bytes; an array of objects with its parts."""
    if not hasattr(value, "dtype") or not hasattr(value, "tobytes"):
        return None
    if value.dtype.hasobject:
        return {"objects": [list(value.shape), {"list": [inner(part) for part in value.ravel().tolist()]}]}
    return {"numpy": [value.dtype.str, list(getattr(value, "shape", ())), base64.b64encode(value.tobytes()).decode()]}


def parts(value: Mapping[str, Any]) -> list[Any]:
    """Return the JSON of the parts of a value, which may be RDF terms."""
    if "dict" in value:
        return [part for pair in value["dict"] for part in pair]
    for tag in ("list", "set", "frozenset", "triple"):
        if tag in value:
            held: list[Any] = value[tag]
            return held
    if "objects" in value:
        return [value["objects"][1]]
    return []


def untagged(value: Mapping[str, Any], inner: Callable[[Any], Any]) -> Any:
    ((tag, held),) = value.items()
    if tag == "list":
        return [inner(part) for part in held]
    if tag == "dict":
        return {inner(key): inner(part) for key, part in held}
    if tag in ("set", "frozenset"):
        found = map(inner, held)
        if tag == "set":
            return set(found)
        return frozenset(found)
    if tag in ("numpy", "objects"):
        return _numpy_value(tag, held, inner)
    return DECODERS[tag](held)


def _numpy_value(tag: str, held: list[Any], inner: Callable[[Any], Any]) -> Any:
    import numpy as np

    if tag == "objects":
        shape, items = held
        objects = np.empty(len(items["list"]), object)
        objects[:] = inner(items)
        return objects.reshape(shape)
    kind, shape, data = held
    array = np.frombuffer(base64.b64decode(data), kind).reshape(shape)
    if shape:
        return array.copy()
    return array[()]
