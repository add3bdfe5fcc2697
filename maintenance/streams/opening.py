"""Streams by the text that names them.

-                        standard input, timestamped N-Quads
cars.nq  .nt .tsv .txt   timestamped N-Triples or N-Quads
cars.trig  .jsonld       graphs with prov:generatedAtTime
rides.yaml               a mapping of a CSV or JSON-lines file
tcp://host:port          timestamped N-Quads
http://...               server-sent events with timestamped N-Quads
ws://...                 messages of a WebSocket with timestamped N-Quads
kafka://broker:9092/T    messages of a topic; statements without a time have the time of their message
redis://host/0?stream=K  entries of a Redis stream; statements without a time have the time of their entry
directory                its files by name; follow:directory continues with files that appear later
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.streams.batch import Stream, TimedElements
from freshkeeper.maintenance.streams.blank_nodes import BlankNodes
from freshkeeper.maintenance.streams.gap_limit import GapLimit
from freshkeeper.maintenance.streams.live.feed import Feed, FeedAddress, FeedLines, OnLoss, Position
from freshkeeper.maintenance.streams.live.kafka import KafkaAddress
from freshkeeper.maintenance.streams.live.redis_stream import RedisAddress
from freshkeeper.maintenance.streams.live.server_sent_events import EventAddress
from freshkeeper.maintenance.streams.live.tcp import TcpAddress
from freshkeeper.maintenance.streams.live.websocket import SocketAddress
from freshkeeper.maintenance.streams.read_errors import ReadErrors
from freshkeeper.maintenance.streams.timed_graphs import TimedGraphs
from freshkeeper.maintenance.streams.timed_lines import TimedLines
from freshkeeper.maintenance.streams.timed_rows import TimedRows

FOLLOW = "follow:"
WAYS = "tcp://host:port, http://..., ws://..., kafka://broker:9092/TOPIC, redis://host:port/0?stream=KEY"
LINES = (".nq", ".nt", ".tsv", ".txt")
DOCUMENTS = (".trig", ".jsonld")
TABLES = (".yaml", ".yml")
ADDRESS_KINDS: dict[str, Callable[[str], FeedAddress]] = {
    "tcp": TcpAddress,
    **dict.fromkeys(("http", "https"), EventAddress),
    **dict.fromkeys(("ws", "wss"), SocketAddress),
    **dict.fromkeys(("redis", "rediss"), RedisAddress),
    "kafka": KafkaAddress,
}
ADDRESSES = tuple(f"{kind}://" for kind in ADDRESS_KINDS)
POLL_S = 0.2


def address_of(written: str) -> FeedAddress:
    kind = written.partition("://")[0]
    if kind not in ADDRESS_KINDS:
        raise ConfigError(f"the stream {mask_secrets(written)}: {nearest(kind, list(ADDRESS_KINDS))}")
    address = ADDRESS_KINDS[kind](written)
    address.check()
    return address


def is_live(written: str) -> bool:
    """Return whether a stream is live, so that it may be silent for a while."""
    return written == "-" or written.startswith((*ADDRESSES, FOLLOW))


@dataclass(frozen=True)
class Reception:
    """Options for receiving a stream over a network."""

    on_loss: OnLoss = OnLoss.FAIL
    notify: Callable[[str], None] = field(default=lambda _: None)
    position: Position = field(default_factory=dict)
    """the position at which an earlier run stopped"""

    def feed(self, written: str) -> Feed:
        return Feed(address_of(written), self.on_loss, self.notify, self.position)


def open_stream(
    written: str,
    read_errors: ReadErrors,
    steps: GapLimit | None = None,
    reception: Reception | None = None,
    blank_nodes: BlankNodes = BlankNodes.DOCUMENT,
) -> Stream:
    """Return the stream that a text names; `steps` limits how far its time may step forward."""
    steps = steps or GapLimit()
    scope = blank_nodes.scope(mask_secrets(written))
    if written == "-":
        return TimedLines.stdin(read_errors, steps, scope)
    if written.startswith(ADDRESSES):
        feed = (reception or Reception()).feed(written)
        return FeedLines(mask_secrets(written), _unopened, read_errors, steps, scope=scope, feed=feed)

    def open_file(file: Path) -> Stream:
        kind = file.suffix.lower()
        if kind in LINES:
            return TimedLines.file(file, read_errors, steps, scope)  # files of a directory are one stream of lines
        if kind in DOCUMENTS:
            return TimedGraphs(file, read_errors, steps, scope=blank_nodes.scope(str(file)))
        if kind in TABLES:
            return TimedRows(file, read_errors, steps)
        kinds = ", ".join(sorted((*LINES, *DOCUMENTS, *TABLES)))
        raise ConfigError(f"the stream {file} ends in {kind or 'nothing'}: known are {kinds}")

    path = Path(written.removeprefix(FOLLOW))
    if path.is_dir():
        return Directory(path, open_file, written.startswith(FOLLOW))
    if not path.exists():
        raise ConfigError(f"there is no stream {written}: give a file, a directory, - or an address ({WAYS})")
    return open_file(path)


def _unopened() -> Any:
    raise AssertionError("a feed is received, not opened")


@dataclass(eq=False)
class Directory:
    """The files of a directory by name; with `follow`, also files that appear later (with names that sort later)."""

    path: Path
    open_file: Callable[[Path], Stream]
    follow: bool = False
    wait: Callable[[], bool] = field(default=lambda: _pause())
    """called when there is no new file; False ends the stream"""

    def batches(self) -> Iterator[TimedElements]:
        """Yield batches file by file.

        A file that is still written should begin with a dot, or have a name elsewhere, until it is complete.
        """
        last = ""
        while True:
            # files are read in the order of their names, so a later one must have a later name
            new = sorted(f for f in self.path.iterdir() if f.name > last and f.is_file() and not f.name.startswith("."))
            for file in new:
                yield from self.open_file(file).batches()
                last = file.name
            if not new and not (self.follow and self.wait()):
                return


def _pause() -> bool:
    time.sleep(POLL_S)
    return True
