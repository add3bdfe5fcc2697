"""The age from which on a read should fetch its row again, at a price per request.

A key is read at rate μ and its row changes at rate λ; ρ = μ/λ and u = λ·age. If a copy counts as stale from u on and
the first read after that fetches, a cycle lasts u + 1/ρ (in units of 1/λ), costs one request, and answers this many
reads rightly:

    the read waits for the fetch     1 + ρ(1 − e^−u)
    the read gets the old row        ρ(1 − e^−u) + e^−u · ρ/(1 + ρ)

The best threshold at a price p maximises (right reads − p) / (u + 1/ρ). It depends on ρ and p alone, so it is computed
once per cell of a coarse logarithmic grid.
"""

import math
from dataclasses import dataclass, field

_STEPS = 120
_SMALLEST, _LARGEST = 1e-3, 12.0
CANDIDATES = (0.0, *(_SMALLEST * (_LARGEST / _SMALLEST) ** (n / (_STEPS - 1)) for n in range(_STEPS)))
"""Thresholds u that are compared: fetch at every read, then from 1/1000 of a mean change interval to 12 of them."""
RATIO_STEPS, PRICE_STEPS = 4, 8
"""Cells of the grid per factor of e."""
MAX_RATIO = 1e9


@dataclass(eq=False)
class Thresholds:
    """The best thresholds, for reads that wait for a fetch or that get the old row meanwhile."""

    reads_wait: bool
    _cells: dict[tuple[int, int], float] = field(default_factory=dict)

    def best(self, ratio: float, price: float) -> float:
        """Return u* for reads per change `ratio` and a price per request; infinity if no fetch is worth it."""
        ratio = min(max(ratio, 1.0 / MAX_RATIO), MAX_RATIO)
        cell = round(RATIO_STEPS * math.log(ratio)), round(PRICE_STEPS * math.log(price))
        found = self._cells.get(cell)
        if found is None:
            found = self._cells[cell] = self._search(math.exp(cell[0] / RATIO_STEPS), math.exp(cell[1] / PRICE_STEPS))
        return found

    def _search(self, ratio: float, price: float) -> float:
        best, best_gain = 0.0, -math.inf
        for u in CANDIDATES:
            kept = math.exp(-u)
            right = ratio * (1.0 - kept)
            right += 1.0 if self.reads_wait else kept * ratio / (1.0 + ratio)
            gain = (right - price) / (u + 1.0 / ratio)
            if gain > best_gain:
                best, best_gain = u, gain
        return math.inf if best_gain <= 0 and best == CANDIDATES[-1] else best
