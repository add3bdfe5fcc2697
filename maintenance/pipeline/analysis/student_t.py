"""Student's t for 95 % intervals, worked out once on the driver: Spark has no such function."""

from functools import cache

import numpy as np
from scipy.special import stdtrit


@cache
def quantiles(most: int) -> tuple[float, ...]:
    """The 97.5 % quantiles for 2, 3, ... `most` values, and never none."""
    found: list[float] = stdtrit(np.arange(1, max(2, most)), 0.975).tolist()
    return tuple(found)
