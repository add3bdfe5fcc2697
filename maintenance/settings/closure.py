"""Which end of a window is open."""

from enum import StrEnum


class Closure(StrEnum):
    """(t − ω, t] is left-open, as in 002 and the W3C draft; [t − ω, t) is right-open, as in other engines."""

    LEFT_OPEN = "left-open"
    RIGHT_OPEN = "right-open"
