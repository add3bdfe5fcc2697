"""The kinds of things that a source is asked for."""

from enum import IntEnum


class Kind(IntEnum):
    """A copy of a cached entry, all of a lookup key that is missing, or the edges of a lookup key."""

    COPY = 0
    MISS = 1
    EDGES = 2
