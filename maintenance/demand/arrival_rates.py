"""How often each SN arrives, and each SR is needed anew: expected per evaluation, with a fading memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from freshkeeper.policies.arrays import Floats
from freshkeeper.policies.errors import ConfigError


@dataclass(eq=False)
class ArrivalRates:
    """Discounted counts over a discounted number of evaluations; `memory` is how many evaluations count in effect."""

    memory: float = 200.0
    counts: Floats = field(default_factory=lambda: np.zeros(0))
    evaluations: float = 0.0

    def __post_init__(self) -> None:
        """A memory shorter than one evaluation remembers nothing."""
        if self.memory <= 1:
            raise ConfigError(f"the memory of arrival rates must be more than 1 evaluation, not {self.memory}")

    def extend(self, width: int) -> None:
        """Make room for numbers below `width`."""
        if width > self.counts.size:
            room = max(width, 2 * self.counts.size) - self.counts.size
            self.counts = np.concatenate([self.counts, np.zeros(room)])

    def fade(self, evaluations: int) -> float:
        """Let so many evaluations pass; the factor by which the counts are to be faded before what arrived is added."""
        factor = (1.0 - 1.0 / self.memory) ** evaluations
        self.evaluations = self.evaluations * factor + evaluations
        return factor

    def load(self, evaluations: float, counts: Sequence[float], age: Sequence[int]) -> None:
        """Counts that have faded since, for so many evaluations each."""
        fade = 1.0 - 1.0 / self.memory
        self.evaluations = evaluations
        self.counts[: len(counts)] = [count * fade**ago for count, ago in zip(counts, age, strict=True)]

    def per_evaluation(self, width: int) -> Floats:
        """Expected new ones of each per evaluation."""
        return self.counts[:width] / max(self.evaluations, 1.0)
