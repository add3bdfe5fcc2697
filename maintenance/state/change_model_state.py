"""What a change model has learned, as arrays by name: taken out of one model and put into another of the same kind.

A model says in `LEARNED` which of its attributes hold what it learned: arrays, numbers, or parts that say the same.
"""

import io
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshkeeper.policies.errors import ConfigError


def taken(model: object) -> dict[str, NDArray[Any]]:
    """All that it learned."""
    found = {}
    for name in _names(model):
        value = getattr(model, name)
        if isinstance(value, np.ndarray | int | float):
            found[name] = np.asarray(value)
        else:
            found |= {f"{name}.{inner}": column for inner, column in taken(value).items()}
    return found


def given(model: object, learned: dict[str, NDArray[Any]]) -> None:
    """Let a model know what another one learned."""
    for name in _names(model):
        value = getattr(model, name)
        if isinstance(value, np.ndarray):
            setattr(model, name, learned[name])
        elif isinstance(value, int | float):
            setattr(model, name, type(value)(learned[name]))
        else:
            within = {key.removeprefix(f"{name}."): c for key, c in learned.items() if key.startswith(f"{name}.")}
            given(value, within)


def packed(learned: dict[str, NDArray[Any]]) -> bytes:
    """As bytes; most of it is zeros."""
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **learned)
    return zlib.compress(written.getvalue(), 1)


def unpacked(data: bytes) -> dict[str, NDArray[Any]]:
    """From bytes."""
    with np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False) as columns:
        return {name: columns[name].copy() for name in columns.files}


def _names(model: object) -> tuple[str, ...]:
    names: tuple[str, ...] | None = getattr(type(model), "LEARNED", None)
    if names is None:
        raise ConfigError(f"{type(model).__name__} cannot be kept over a restart: it does not say what it LEARNED")
    return names
