"""Streams that a service reads by itself: what comes is pushed, with the place where the stream goes on after it.

Both stand in one record of the log, so after a kill every element counts once.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.fetching.endpoint import error_text
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.serve.service import BusyError, ClosedError, Service
from freshkeeper.maintenance.streams.live.feed import Feed, LinkStatus, OnLoss, Received
from freshkeeper.maintenance.streams.opening import address_of

PAUSE = 0.05
"""Seconds to wait where more was pushed than is evaluated in time."""
PATIENCE = 5.0


@dataclass(eq=False)
class Incoming:
    """All of them, each in a thread of its own."""

    service: Service
    addresses: Mapping[str, str]
    """by stream"""
    tell: Callable[[str], None]
    gap: Callable[[str, str], None] = field(default=lambda *_: None)
    """is told of a stream that has missed something, and what"""
    _feeds: dict[str, Feed] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, written in self.addresses.items():
            self._open(name, written)

    @property
    def links(self) -> dict[str, LinkStatus]:
        """How the connections are, by stream."""
        return {name: feed.status for name, feed in self._feeds.items()}

    def start(self) -> None:
        """Begin to read every address that the config names."""
        for name, feed in self._feeds.items():
            self._begin(name, feed)

    def add(self, name: str, written: str) -> None:
        """One more, from now on."""
        self._begin(name, self._open(name, written))

    def stop(self) -> None:
        """Nothing more is read; what was, is in the log."""
        for feed in self._feeds.values():
            feed.stopped = True
        for thread in self._threads:
            thread.join(0.5)
        for feed in self._feeds.values():
            feed.stop()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _open(self, name: str, written: str) -> Feed:
        feed = Feed(address_of(written), OnLoss.RECONNECT, self.tell, self.service.place(name))
        feed.missed = partial(self.gap, name)
        self._feeds = {**self._feeds, name: feed}
        self.service.links = self.links
        return feed

    def _begin(self, name: str, feed: Feed) -> None:
        thread = threading.Thread(target=self._read, args=(name, feed), name=f"stream {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read(self, name: str, feed: Feed) -> None:
        while not feed.stopped:
            try:
                for received in feed.received():
                    self._push(name, received)
                    feed.commit(received.position)
            except ClosedError:
                return
            except Exception as error:  # as an address that is no stream any more: a person has to look, and it goes on
                feed.status.connected, feed.status.failure = False, shown(error_text(error))
                LOGGER.error("the stream %s cannot be read: %s", name, shown(error_text(error)))
                time.sleep(feed.backoff.next())

    def _push(self, name: str, received: Received) -> None:
        """As soon as there is room."""
        while True:
            try:
                self.service.push(name, received.text, place=received.position, unreadable=_unreadable)
            except BusyError:
                time.sleep(PAUSE)
            else:
                return


def _unreadable(why: str) -> None:
    LOGGER.warning("an element is left out: %s", why)
