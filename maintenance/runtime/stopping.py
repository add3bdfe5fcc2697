"""SIGTERM and Ctrl-C: a running evaluation is finished and its answers go out; waiting for elements stops at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from freshkeeper.maintenance.base.errors import StoppedError


@dataclass(eq=False)
class Stopping:
    """Handles signals to stop a run."""

    waits: Callable[[], bool]
    """tells if nothing is being evaluated just now"""
    received: int | None = None
    """the signal, once there is one"""

    @contextmanager
    def listening(self) -> Iterator["Stopping"]:
        """Handle signals in a block; the second one interrupts it wherever it is."""
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
        """Raise StoppedError after an evaluation if a signal has come."""
        if self.received is not None:
            raise self._stopped(self.received)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number
        if self.waits():
            raise self._stopped(number)

    def _stopped(self, number: int) -> StoppedError:
        stopped = StoppedError(f"stopped by {signal.Signals(number).name}; what is finished is kept")
        stopped.exit_code = 128 + number
        return stopped
