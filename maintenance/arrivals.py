"""How often each SN arrives, learned from the window: expected new mappings per evaluation, with a fading memory."""

from dataclasses import dataclass, field

import numpy as np

from policies.arrays import Floats, Ints
from policies.errors import ConfigError


@dataclass(eq=False)
class ArrivalRates:
    """Discounted counts over a discounted number of evaluations; `memory` is how many evaluations count in effect."""

    memory: float = 200.0
    _counts: Floats = field(default_factory=lambda: np.zeros(0))
    _evaluations: float = 0.0

    def __post_init__(self) -> None:
        """A memory shorter than one evaluation remembers nothing."""
        if self.memory <= 1:
            raise ConfigError(f"the memory of arrival rates must be more than 1 evaluation, not {self.memory}")

    def extend(self, sns: int) -> None:
        """Make room for SNs numbered below `sns`."""
        if sns > self._counts.size:
            self._counts = np.concatenate([self._counts, np.zeros(max(sns, 2 * self._counts.size) - self._counts.size)])

    def observe(self, entered: Ints, evaluations: int = 1) -> None:
        """Mappings of these SNs came in since the last evaluation."""
        fade = (1.0 - 1.0 / self.memory) ** evaluations
        self._counts *= fade
        self._evaluations = self._evaluations * fade + evaluations
        np.add.at(self._counts, entered, 1.0)

    def forget(self, sns: list[int]) -> None:
        """These slots stand for other SNs from now on."""
        self._counts[sns] = 0.0

    def per_evaluation(self, sns: int) -> Floats:
        """Expected new mappings of each SN per evaluation."""
        return self._counts[:sns] / max(self._evaluations, 1.0)
