"""Directories and files of a run: for their owner alone, and for one process at a time."""

import fcntl
from pathlib import Path
from typing import IO

from freshkeeper.policies.errors import ConfigError

PRIVATE = 0o600


def make_directory(path: Path) -> None:
    """A new one is for its owner alone; one that is there stays as it is."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def lock(path: Path, name: str) -> IO[str]:
    """Hold a directory by a file in it until that is closed, or the process ends."""
    path.touch(PRIVATE)
    held = path.open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        raise ConfigError(f"{name} is in use by another process; every run needs its own") from None
    return held
