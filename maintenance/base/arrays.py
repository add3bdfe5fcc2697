"""Names for the array types that every other file uses, the one way to number what lies in rows, and to grow."""

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Ids: TypeAlias = NDArray[np.int32]
Kinds: TypeAlias = NDArray[np.int8]
Bools: TypeAlias = NDArray[np.bool_]
Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint64]
Scalar = TypeVar("Scalar", bound=np.generic)
NO_INTS: Ints = np.empty(0, np.int64)


def spread(start: Ints, lengths: Ints) -> Ints:
    """Return the positions start[r], start[r] + 1, ... of all rows, one row after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    shift = np.repeat(start - (ends - lengths), lengths)
    places: Ints = np.arange(total, dtype=np.int64) + shift
    return places


def grown(array: NDArray[Scalar], size: int, fill: float = 0, axis: int = 0) -> NDArray[Scalar]:
    """Return the array with room for `size` along an axis; it doubles, so that growth costs O(1) per element."""
    lacking = size - array.shape[axis]
    if lacking <= 0:
        return array
    room = list(array.shape)
    kept = [slice(None)] * array.ndim
    room[axis] += max(lacking, array.shape[axis])
    kept[axis] = slice(array.shape[axis])
    found = np.full(room, fill, array.dtype) if fill else np.zeros(room, array.dtype)  # zeros cost nothing yet
    found[tuple(kept)] = array
    return found
