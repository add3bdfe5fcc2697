"""Knowledge as arrays by name: dumped from one object and loaded into another one of the same settings."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from freshkeeper.maintenance.base.errors import ConfigError


@runtime_checkable
class Dumpable(Protocol):
    """A model whose knowledge survives a restart."""

    def dump(self) -> dict[str, NDArray[Any]]:
        """Return all that the model learned."""

    def load(self, learned: Mapping[str, NDArray[Any]]) -> None:
        """Take over what another model learned."""


class Dumped:
    """Says in `LEARNED` which attributes hold what it learned: arrays, numbers, or parts with dumps of their own."""

    LEARNED: ClassVar[tuple[str, ...]] = ()

    def dump(self) -> dict[str, NDArray[Any]]:
        """Return all that was learned, by attribute; the names of a part follow that of the part."""
        found = {}
        for name in self.LEARNED:
            value = getattr(self, name)
            if isinstance(value, np.ndarray | int | float):
                found[name] = np.asarray(value)
            else:
                found |= {f"{name}.{inner}": column for inner, column in dumpable(value).dump().items()}
        return found

    def load(self, learned: Mapping[str, NDArray[Any]]) -> None:
        """Take over the attributes that another one dumped."""
        for name in self.LEARNED:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                setattr(self, name, learned[name])
            elif isinstance(value, int | float):
                setattr(self, name, type(value)(learned[name]))
            else:
                own = {key.removeprefix(f"{name}."): c for key, c in learned.items() if key.startswith(f"{name}.")}
                dumpable(value).load(own)


def dumpable(model: object) -> Dumpable:
    """Return the model, or raise ConfigError if it cannot be kept."""
    if not isinstance(model, Dumpable):
        raise ConfigError(f"{type(model).__name__} cannot be kept over a restart: it has no dump() and load(learned)")
    return model
