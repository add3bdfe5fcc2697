"""A live stream read beside the run, so that one that says nothing for a while need not hold the others back."""

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Thread

from freshkeeper.maintenance.streams.batch import Stream, Timed

AHEAD = 16
"""Batches that may wait to be taken."""


class SilentError(Exception):
    """Nothing came for as long as one is patient."""


@dataclass(eq=False)
class Background:
    """Reads a stream in a thread of its own."""

    stream: Stream
    patience: float
    """seconds of silence"""
    told: Callable[[], None]
    """called when there is something to take"""
    _arrived: Queue[Timed | BaseException | None] = field(default_factory=lambda: Queue(AHEAD))
    _thread: Thread | None = None

    @property
    def ready(self) -> bool:
        """Whether something can be taken at once."""
        return not self._arrived.empty()

    def take(self) -> Timed | None:
        """The next batch, or nothing at the end; SilentError where it does not come in time."""
        if self._thread is None:
            self._thread = Thread(target=self._read, daemon=True)
            self._thread.start()
        try:
            arrived = self._arrived.get(timeout=self.patience)
        except Empty:
            raise SilentError from None
        if isinstance(arrived, BaseException):
            raise arrived
        return arrived

    def _read(self) -> None:
        try:
            for batch in self.stream.batches():
                self._hand_over(batch)
            self._hand_over(None)
        except Exception as error:
            self._hand_over(error)

    def _hand_over(self, arrived: Timed | BaseException | None) -> None:
        self._arrived.put(arrived)
        self.told()
