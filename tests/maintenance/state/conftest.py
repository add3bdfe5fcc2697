"""The small world of `run_files`, and what a kill leaves of it."""

from pathlib import Path

import pytest
from run_files import Camera, RunFiles


@pytest.fixture
def world(tmp_path: Path) -> RunFiles:
    """The files in a directory of their own."""
    return RunFiles(tmp_path)


@pytest.fixture
def camera(world: RunFiles, monkeypatch: pytest.MonkeyPatch) -> Camera:
    """Shoots at every write point."""
    watching = Camera(world.place)
    watching.watch(monkeypatch)
    return watching
