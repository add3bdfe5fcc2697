"""Which stream a text names.

-                        standard input, timestamped N-Quads
cars.nq  .nt .tsv .txt   timestamped N-Triples or N-Quads
cars.trig  .jsonld       graphs with prov:generatedAtTime
rides.yaml               a mapping of a CSV or JSON-lines file
tcp://host:port          timestamped N-Quads
http://...               server-sent events with timestamped N-Quads
directory                its files by name; follow:directory goes on with those that come
"""

from collections.abc import Callable
from pathlib import Path

from freshkeeper.maintenance.streams.batch import Stream
from freshkeeper.maintenance.streams.live_streams import Directory, online
from freshkeeper.maintenance.streams.steps import Steps
from freshkeeper.maintenance.streams.timed_graphs import TimedGraphs
from freshkeeper.maintenance.streams.timed_lines import Mistakes, TimedLines
from freshkeeper.maintenance.streams.timed_rows import TimedRows
from freshkeeper.policies.errors import ConfigError

ADDRESSES = ("tcp://", "http://", "https://")
FOLLOW = "follow:"
Opener = Callable[[Path, Mistakes, Steps], Stream]
KINDS: dict[str, Opener] = {
    **dict.fromkeys((".nq", ".nt", ".tsv", ".txt"), TimedLines.file),
    **dict.fromkeys((".trig", ".jsonld"), TimedGraphs),
    **dict.fromkeys((".yaml", ".yml"), TimedRows),
}
"""What a file is, by its ending."""


def is_live(written: str) -> bool:
    """Whether a stream comes on its own, and may be silent for a while."""
    return written == "-" or written.startswith((*ADDRESSES, FOLLOW))


def open_stream(written: str, mistakes: Mistakes, steps: Steps | None = None) -> Stream:
    """The stream that `written` names; `steps` say how far its time may step forward."""
    steps = steps or Steps()
    if written == "-":
        return TimedLines.stdin(mistakes, steps)
    if written.startswith(ADDRESSES):
        return online(written, mistakes, steps)
    path = Path(written.removeprefix(FOLLOW))
    if path.is_dir():
        return Directory(path, lambda file: _open_file(file, mistakes, steps), written.startswith(FOLLOW))
    if not path.exists():
        raise ConfigError(f"there is no stream {written}: give a file, a directory, -, tcp://host:port or http://...")
    return _open_file(path, mistakes, steps)


def _open_file(path: Path, mistakes: Mistakes, steps: Steps) -> Stream:
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise ConfigError(f"the stream {path} ends in {kind or 'nothing'}: known are {', '.join(sorted(KINDS))}")
    return KINDS[kind](path, mistakes, steps)
