"""Types of configuration keys that several models have: durations, amounts, directories, lists of IRIs."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from freshkeeper.maintenance.base.durations import as_ms, to_delay


def read_delay(value: object) -> object:
    """Return a delay in milliseconds if it is text, any other value unchanged."""
    if isinstance(value, str):
        return to_delay(value)
    return value


def split_iris(value: str | list[str]) -> list[str]:
    """Split IRIs as the command line takes them: separated by commas, with or without angle brackets."""
    if not isinstance(value, str):
        return value
    return [iri.strip().removeprefix("<").removesuffix(">") for iri in value.split(",")]


Duration = Annotated[int, BeforeValidator(as_ms), Field(ge=0)]
"""Milliseconds, or text such as 5s."""
Delay = Annotated[int, BeforeValidator(read_delay), Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Cost units."""
Directory = Annotated[Path | None, BeforeValidator(lambda value: value or None)]
"""A path; an empty text is none."""
Iris = Annotated[list[str], BeforeValidator(split_iris)]
