"""SIGTERM and Ctrl-C: the evaluation that is made is finished and goes out; what waits for elements stops at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from freshkeeper.maintenance.base.errors import StoppedError


@dataclass(eq=False)
class Stopping:
    """Whether a run was told to stop."""

    waits: Callable[[], bool]
    """whether nothing is being evaluated just now"""
    asked: int | None = None
    """the signal"""

    @contextmanager
    def listening(self) -> Iterator["Stopping"]:
        """Signals come here until the end of the block; the second one ends it wherever it is."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """After an evaluation: go on, or not."""
        if self.asked is not None:
            raise self._stopped(self.asked)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.asked is not None:
            raise KeyboardInterrupt
        self.asked = number
        if self.waits():
            raise self._stopped(number)

    def _stopped(self, number: int) -> StoppedError:
        stopped = StoppedError(f"stopped by {signal.Signals(number).name}; what is finished is kept")
        stopped.exit_code = 128 + number
        return stopped
