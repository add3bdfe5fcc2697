"""The open end of a window."""

from enum import StrEnum


class Closure(StrEnum):
    """(t − ω, t] is left-open, as in 002 and the W3C draft; [t − ω, t) is right-open, as in other engines.

    >>> from freshkeeper import Closure, WindowSpec
    >>> WindowSpec(range=4000, step=1000, closure=Closure.RIGHT_OPEN).closure.value
    'right-open'
    """

    LEFT_OPEN = "left-open"
    RIGHT_OPEN = "right-open"
