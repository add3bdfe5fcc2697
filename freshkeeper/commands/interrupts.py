"""Ctrl-C and SIGTERM: between evaluations, and in the middle of compiled code."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from freshkeeper.maintenance.base.errors import StoppedError


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for an error that compiled code made of an interrupt."""
    try:
        yield
    except SystemError as error:
        if was_interrupt(error):
            raise KeyboardInterrupt from None
        raise


def was_interrupt(error: BaseException | None) -> bool:
    """Tell whether an interrupt caused an error, directly or not."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, KeyboardInterrupt):
            return True
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            waiting += [one.__cause__, one.__context__]
    return False


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
