"""Conversion of what a change model has learned to bytes and back."""

import io
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(learned: dict[str, NDArray[Any]]) -> bytes:
    """Compress arrays to bytes; most of their values are zero."""
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **learned)
    return zlib.compress(written.getvalue(), 1)


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Restore arrays from bytes."""
    with np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False) as columns:
        return {name: columns[name].copy() for name in columns.files}
