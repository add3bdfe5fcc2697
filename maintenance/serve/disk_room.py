"""The free space of a disk: a service stops writing before the disk is full, so that no write breaks off half-way."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

RESERVE_BYTES = 32 << 20
RESERVE_SHARE = 0.05
"""The reserve of small disks, as a share of their size."""
CHECK_INTERVAL_S = 0.2


@dataclass(eq=False)
class DiskRoom:
    """Watches the free space of the disk that a directory is on."""

    directory: Path
    clock: Callable[[], float] = time.monotonic
    _checked: float = float("-inf")
    _shortage: str = field(default="")

    def shortage(self) -> str:
        """Return what is lacking, looked up a few times a second; empty if there is room."""
        now = self.clock()
        if now - self._checked >= CHECK_INTERVAL_S:
            self._checked = now
            disk = os.statvfs(self.directory)
            free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
            reserve = int(min(RESERVE_BYTES, size * RESERVE_SHARE))
            self._shortage = ""
            if free < reserve:
                self._shortage = f"the disk of {self.directory} has {free:,} bytes left, and {reserve:,} are needed"
        return self._shortage
