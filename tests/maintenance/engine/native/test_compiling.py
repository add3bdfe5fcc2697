"""What is compiled is told once; what comes from the disk is not."""

from pathlib import Path
from types import ModuleType

import pytest
from numba.core import config

from freshkeeper.maintenance.engine.native.compiling import WAITING, tell_when_compiling

KERNEL = """
from numba import njit

@njit(cache=True)
def twice(n):
    return 2 * n
"""


def kernel(place: Path) -> ModuleType:
    """A module of its own with one kernel, as a new process has it."""
    module = ModuleType("kernel")
    module.__dict__["__file__"] = str(place)
    exec(compile(place.read_text(), str(place), "exec"), module.__dict__)  # as an import would
    return module


def test_a_kernel_that_must_be_compiled_is_told_of_once_and_one_that_is_kept_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    place = tmp_path / "kernel.py"
    place.write_text(KERNEL)
    told: list[str] = []
    stop = tell_when_compiling(told.append)
    try:
        first = kernel(place)
        assert (first.twice(3), first.twice(1.5)) == (6, 3.0)
        assert told == [WAITING]
    finally:
        stop()
    again: list[str] = []
    stop = tell_when_compiling(again.append)
    try:
        assert kernel(place).twice(3) == 6
        assert again == []
    finally:
        stop()
