"""Validation errors of pydantic as one line that says what would be right."""

import difflib
import re
from collections.abc import Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from freshkeeper.maintenance.base.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
TAG = re.compile(r"str|int|float|PlaceConfig|SourceConfig|constrained-.*|function-.*|\w+\[.*", re.DOTALL)
"""Parts of a location that pydantic adds where a value may be of several kinds."""
PLAINER = {
    "too_short": "it must have at least one value",
    "model_type": "it must have keys of its own",
    "path_type": "it must be a path",
    "list_type": "it must be a list",
    "tuple_type": "it must be a list",
}
"""Plain words for messages in pydantic's own terms."""


def validated(model: type[Model], plain: object, where: str = "") -> Model:
    """Return a model of keys and values; raise ConfigError, whose message begins with `where`."""
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise ConfigError(where + explained(error, model)) from None


def explained(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first mistake in words."""
    places = [_place(each["loc"], each["type"] == "extra_forbidden") for each in error.errors()]
    alike = [n for n, place in enumerate(places) if place[: len(places[0])] == places[0]]
    best = max(alike, key=lambda n: len(error.errors()[n]["loc"]))  # of several kinds, the one that fits best
    place, found = places[best], error.errors()[best]
    where, kind = ".".join(place), found["type"]
    if kind == "extra_forbidden":
        return f"there is no key {where!r}{_advice(model, place)}"
    if kind == "missing":
        lacking = f"{place[-1]} is missing"
        if place[-1].isdigit():
            lacking = "it has too few values"
        return ": ".join(filter(None, [".".join(place[:-1]), lacking]))
    said = found["msg"].removeprefix("Value error, ").replace("Input should be", "it must be").split(", unable to")[0]
    if kind == "value_error":
        return ": ".join(filter(None, [where, said]))
    said = PLAINER.get(kind, said[:1].lower() + said[1:])
    hidden = "auth" in place or isinstance(found["input"], dict)
    return ": ".join(filter(None, [where, said])) + ("" if hidden else f", not {found['input']!r}")


def _place(loc: Sequence[int | str], unknown: bool) -> list[str]:
    """Return the location of a mistake as the file has it; an `unknown` key is its last part."""
    told = loc[:-1] if unknown else loc
    found = [str(part) for part in told if isinstance(part, int) or not TAG.fullmatch(part)]
    if unknown:
        return [*found, str(loc[-1])]
    return found


def _advice(model: type[BaseModel], place: list[str]) -> str:
    """Return the nearest match of an unknown key, at its own level or elsewhere, or all keys."""
    word, here = place[-1], _keys(model, place[:-1])
    elsewhere = {inner: f"{key}.{inner}" for key in model.model_fields for inner in _keys(model, [key])}
    near = difflib.get_close_matches(word, here, n=1, cutoff=0.7)
    if word in elsewhere:
        near = [elsewhere[word]]
    near += [elsewhere[key] for key in difflib.get_close_matches(word, elsewhere, n=1, cutoff=0.8)]
    near += difflib.get_close_matches(word, here, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if here:
        return f"; there are: {', '.join(here)}"
    return ""


def _keys(kind: Any, path: Sequence[str]) -> list[str]:
    """Return the keys at a location, through lists, tables and unions."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(path[0]) if path else None
        if not path:
            return list(kind.model_fields)
        return _keys(field.annotation, path[1:]) if field else []
    rest = path[1:] if get_origin(kind) in (dict, list, tuple) else path
    return next((found for each in get_args(kind) if (found := _keys(each, rest))), [])
