"""Cached entries that change by a clock, as a model has found out."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from freshkeeper.maintenance.cache.view.changes import TellsClocks


@dataclass(frozen=True)
class Regular:
    """A cached entry that is believed to change by a clock."""

    key: Hashable
    chance: float
    """the probability that it does"""
    period_ms: float


def regular_entries(model: object, keys: Sequence[Hashable]) -> list[Regular]:
    """Return the entries that a model, or the one inside it, believes to be regular, the surest first."""
    while not isinstance(model, TellsClocks):
        if not hasattr(model, "model"):
            return []
        model = model.model
    chance, period = model.regular(np.arange(len(keys)))
    believed = np.flatnonzero(chance > 0.5)
    order = believed[np.argsort(-chance[believed], kind="stable")]
    return [Regular(keys[slot], float(chance[slot]), float(period[slot])) for slot in order.tolist()]
