"""Which stream a text names.

-                        standard input, timestamped N-Quads
cars.nq  .nt .tsv .txt   timestamped N-Triples or N-Quads
cars.trig  .jsonld       graphs with prov:generatedAtTime
rides.yaml               a mapping of a CSV or JSON-lines file
tcp://host:port          timestamped N-Quads
http://...               server-sent events with timestamped N-Quads
ws://...                 the same as messages of a WebSocket
kafka://broker:9092/T    the same as messages of a topic; statements alone have the time of their message
redis://host/0?stream=K  the same as entries of a Redis stream
directory                its files by name; follow:directory goes on with those that come
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.directory import Directory
from freshkeeper.maintenance.streams.live.address_kinds import ADDRESSES, address_of
from freshkeeper.maintenance.streams.live.fed_lines import FedLines
from freshkeeper.maintenance.streams.live.feed import Feed, OnLoss, Position
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.timed_graphs import TimedGraphs
from freshkeeper.maintenance.streams.timed_lines import ReadErrors, TimedLines
from freshkeeper.maintenance.streams.timed_rows import TimedRows

FOLLOW = "follow:"
WAYS = "tcp://host:port, http://..., ws://..., kafka://broker:9092/TOPIC, redis://host:port/0?stream=KEY"
Opener = Callable[[Path, ReadErrors, Steps], Stream]
KINDS: dict[str, Opener] = {
    **dict.fromkeys((".nq", ".nt", ".tsv", ".txt"), TimedLines.file),
    **dict.fromkeys((".trig", ".jsonld"), TimedGraphs),
    **dict.fromkeys((".yaml", ".yml"), TimedRows),
}
"""What a file is, by its ending."""


def is_live(written: str) -> bool:
    """Whether a stream comes on its own, and may be silent for a while."""
    return written == "-" or written.startswith((*ADDRESSES, FOLLOW))


@dataclass(frozen=True)
class Reception:
    """How a stream over a network is received."""

    on_loss: OnLoss = OnLoss.FAIL
    tell: Callable[[str], None] = field(default=lambda _: None)
    position: Position = field(default_factory=dict)
    """where an earlier run wants it from"""

    def feed(self, written: str) -> Feed:
        """What comes from an address."""
        return Feed(address_of(written), self.on_loss, self.tell, self.position)


def open_stream(
    written: str, read_errors: ReadErrors, steps: Steps | None = None, reception: Reception | None = None
) -> Stream:
    """The stream that `written` names; `steps` say how far its time may step forward."""
    steps = steps or Steps()
    if written == "-":
        return TimedLines.stdin(read_errors, steps)
    if written.startswith(ADDRESSES):
        feed = (reception or Reception()).feed(written)
        return FedLines(shown(written), _unopened, read_errors, steps, feed=feed)
    path = Path(written.removeprefix(FOLLOW))
    if path.is_dir():
        return Directory(path, lambda file: _open_file(file, read_errors, steps), written.startswith(FOLLOW))
    if not path.exists():
        raise ConfigError(f"there is no stream {written}: give a file, a directory, - or an address ({WAYS})")
    return _open_file(path, read_errors, steps)


def _open_file(path: Path, read_errors: ReadErrors, steps: Steps) -> Stream:
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise ConfigError(f"the stream {path} ends in {kind or 'nothing'}: known are {', '.join(sorted(KINDS))}")
    return KINDS[kind](path, read_errors, steps)


def _unopened() -> Any:
    raise AssertionError("a feed is received, not opened")
