"""Compiled functions where no cache of them can be kept."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import freshkeeper

PROGRAM = """
import numpy as np
from freshkeeper import Manager
from freshkeeper.policies.choose import fitting

print(Manager.__name__, fitting(np.array([1, 0]), np.array([2.0, 3.0]), 3.5, -1))
"""


@pytest.mark.slow
def test_read_only_packages_and_no_writable_home_compile_without_a_cache(tmp_path: Path) -> None:
    without_cache = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(freshkeeper.__path__[0]), tmp_path / "freshkeeper", ignore=without_cache)
    for folder, *_ in os.walk(tmp_path / "freshkeeper"):
        Path(folder, "__pycache__").touch()  # a file where the cache would be: not even root can write below it
    environment = {key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    environment |= {"HOME": "/dev/null", "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == "Manager [ True False]\n"
