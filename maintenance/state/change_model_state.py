"""What a change model has learned as bytes, and back."""

import io
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed(learned: dict[str, NDArray[Any]]) -> bytes:
    """As bytes; most of it is zeros."""
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **learned)
    return zlib.compress(written.getvalue(), 1)


def unpacked(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays that were compressed into these bytes."""
    with np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False) as columns:
        return {name: columns[name].copy() for name in columns.files}
