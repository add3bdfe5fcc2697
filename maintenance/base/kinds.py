"""The kinds of things that a source is asked for."""

from enum import IntEnum


class Kind(IntEnum):
    """What is refreshed as one: a copy of an SR, all of an SN that the view lacks, or the edges of an SN."""

    COPY = 0
    MISS = 1
    EDGES = 2
