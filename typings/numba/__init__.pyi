# What freshkeeper uses of Numba, which ships no types.
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

def njit(*, cache: bool = False, nogil: bool = False) -> Callable[[F], F]: ...
