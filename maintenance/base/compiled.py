"""Numba's `njit` with a cache on disk where there is a place for one."""

from collections.abc import Callable
from typing import TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])


def njit(*, cache: bool, nogil: bool) -> Callable[[F], F]:
    """Compile a function at its first call, as `numba.njit` does, but without a cache where none can be written.

    Numba raises RuntimeError at import if the package's directory, the user's cache directory and NUMBA_CACHE_DIR are
    all read-only, as in many containers. Every process then compiles for itself, which takes some seconds.
    """

    def decorate(function: F) -> F:
        try:
            return numba.njit(cache=cache, nogil=nogil)(function)
        except RuntimeError:
            if not cache:
                raise
            return numba.njit(nogil=nogil)(function)

    return decorate
