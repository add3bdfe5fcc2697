"""Streams that a service reads by itself: elements are pushed together with the position of the stream behind them.

Both are in one record of the log, so that every element counts once after a crash.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.fetching.endpoint import error_text
from freshkeeper.maintenance.observe.logs import LOGGER
from freshkeeper.maintenance.serve.service import BusyError, ClosedError, QueryService
from freshkeeper.maintenance.streams.live.feed import Feed, LinkStatus, OnLoss, Received
from freshkeeper.maintenance.streams.opening import address_of

RETRY_INTERVAL_S = 0.05
"""The pause before a push is repeated that the service was too busy for."""
STOP_TIMEOUT_S = 5.0


@dataclass(eq=False)
class Incoming:
    """Reads streams from addresses, each in a thread of its own."""

    service: QueryService
    addresses: Mapping[str, str]
    """by stream"""
    log: Callable[[str], None]
    gap: Callable[[str, str], None] = field(default=lambda *_: None)
    """is called with a stream that has missed elements, and the reason"""
    _feeds: dict[str, Feed] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, written in self.addresses.items():
            self._open(name, written)

    @property
    def links(self) -> dict[str, LinkStatus]:
        """The connections, by stream."""
        return {name: feed.status for name, feed in self._feeds.items()}

    def start(self) -> None:
        """Begin to read all streams."""
        for name, feed in self._feeds.items():
            self._begin(name, feed)

    def add(self, name: str, written: str) -> None:
        """Begin to read one more stream."""
        self._begin(name, self._open(name, written))

    def stop(self) -> None:
        """Stop reading; what was read is in the log."""
        for feed in self._feeds.values():
            feed.stopped = True
        for thread in self._threads:
            thread.join(0.5)
        for feed in self._feeds.values():
            feed.stop()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)

    def _open(self, name: str, written: str) -> Feed:
        feed = Feed(address_of(written), OnLoss.RECONNECT, self.log, self.service.place(name))
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
            except Exception as error:  # such as an address that is no stream any more: somebody has to look at the log
                feed.status.connected, feed.status.failure = False, mask_secrets(error_text(error))
                LOGGER.error("the stream %s cannot be read: %s", name, mask_secrets(error_text(error)))
                time.sleep(feed.backoff.next())

    def _push(self, name: str, received: Received) -> None:
        """Push elements as soon as the service has room for them."""
        while True:
            try:
                self.service.push(name, received.text, place=received.position, unreadable=_unreadable)
            except BusyError:
                time.sleep(RETRY_INTERVAL_S)
            else:
                return


def _unreadable(why: str) -> None:
    LOGGER.warning("an element is left out: %s", why)
