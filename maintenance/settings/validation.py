"""What pydantic says of a mistake, in one line that says what would be right."""

import difflib

from pydantic import BaseModel, ValidationError

KINDS = ("str", "Place", "SourceConfig")
"""What pydantic puts into a place where a value may be of two kinds, beside the names of functions."""


def explained(error: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake in the keys of a model."""
    place = _place(error.errors()[0]["loc"])
    same = [each for each in error.errors() if _place(each["loc"])[: len(place)] == place]
    first = max(same, key=lambda each: len(each["loc"]))  # of what may be of two kinds, the one that fits best
    where = ".".join(_place(first["loc"]))
    if first["type"] == "extra_forbidden":
        word = str(first["loc"][-1])
        known = list(model.model_fields) if len(first["loc"]) == 1 else []
        near = difflib.get_close_matches(word, known, n=1)
        return f"there is no key {where}" + (f"; did you mean {near[0]!r}?" if near else _there_are(known))
    if first["type"] == "missing":
        return f"{where} is missing"
    said = first["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")
    secret = "auth" in first["loc"] or isinstance(first["input"], dict)
    given = "" if secret or first["type"] == "value_error" else f", not {first['input']!r}"
    return f"{where}: {said}{given}" if where else said


def _place(loc: tuple[int | str, ...]) -> list[str]:
    """Where a mistake is, as the file has it: without the kinds that a value may be of."""
    return [str(part) for part in loc if part not in KINDS and not str(part).startswith("function-")]


def _there_are(known: list[str]) -> str:
    return f"; there are: {', '.join(known)}" if known else ""
