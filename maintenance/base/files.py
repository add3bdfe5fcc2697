"""Directories and files of a run: for their owner alone, for one process at a time, and there whole or not at all."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from freshkeeper.maintenance.base.errors import ConfigError, StorageError

PRIVATE = 0o600
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
PASSING = (*FULL_DISK, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
"""Errors that say nothing about what is written or where: the same call may succeed a little later."""


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn the errors of writing into a ConfigError, or a StorageError if they may pass; broken pipes pass through."""
    try:
        yield
    except (BrokenPipeError, ConnectionResetError):
        raise
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        message = f"{path} cannot be written: {why}"
        if error.errno in PASSING:
            raise StorageError(message, is_full=error.errno in FULL_DISK) from None
        raise ConfigError(message) from None


@contextmanager
def atomic_file(path: Path, mode: int = 0o666, durable: bool = False, mark: object = "part") -> Iterator[Path]:
    """Yield a path to write to, which takes the place of `path` when it is complete; `durable` waits for the disk.

    A file that a kill left unfinished is replaced; processes that may write the same file use different marks.
    """
    with writing(path):
        path.parent.mkdir(0o700 if mode == PRIVATE else 0o777, parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{mark}")
        unfinished.unlink(missing_ok=True)
        unfinished.touch(mode)
        yield unfinished
        if durable:
            _to_disk(unfinished)
        unfinished.replace(path)
        if durable:
            _to_disk(path.parent)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to write to, which takes the place of an earlier one when it is complete."""
    with writing(path):
        unfinished = path.with_name(f".{path.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            yield unfinished
            shutil.rmtree(path, ignore_errors=True)
            unfinished.rename(path)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _to_disk(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make_directory(path: Path) -> None:
    """Make a directory for its owner alone; one that exists stays as it is."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def lock(path: Path, name: str) -> IO[str]:
    """Lock a directory by a file in it, until the file is closed or the process ends."""
    path.touch(PRIVATE)
    locked = path.open("w")
    try:
        fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        locked.close()
        raise ConfigError(f"{name} is in use by another process; every run needs its own") from None
    return locked
