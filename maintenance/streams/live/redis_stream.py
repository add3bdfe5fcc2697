"""redis://host:port/0?stream=KEY: entries of a Redis stream, each with lines of N-Quads; the extra is `redis`.

A statement without a time gets that of its entry, which the id has. Redis keeps entries, so nothing is missed while one
is away, unless it was told to keep only so many.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.streams.live.address_options import options_of
from freshkeeper.maintenance.streams.live.feed import LostError, Position, Received
from freshkeeper.maintenance.streams.live.stamped import stamped

if TYPE_CHECKING:
    from redis import Redis

LOOK_MS = 200
"""Milliseconds to wait for an entry before it is looked whether one should stop."""
MOST = 1_000
"""Entries at once."""
BEGIN = "0-0"
PATIENCE = {"socket_timeout": 10, "socket_connect_timeout": 10}
HOW = "write redis://host:port/0?stream=KEY"


@dataclass(frozen=True)
class RedisAddress:
    """Which stream, and where to begin."""

    url: str
    keeps: bool = True

    @property
    def name(self) -> str:
        """As it may be shown."""
        return shown(self.url)

    def check(self) -> None:
        """Whether there is a key, and the library."""
        self._client().close()
        self._options()

    def connect(self, position: Position) -> "RedisConnection":
        """After the last entry that came, or as the address says."""
        from redis.exceptions import RedisError, ResponseError

        client, options = self._client(), self._options()
        key = options["stream"]
        try:
            client.ping()
            last = str(position.get(key, ""))
            gap = _gap(client, key, last) if last else ""
            return RedisConnection(client, key, last or _begin(client, key, options["start"]), gap)
        except ResponseError as error:
            raise ConfigError(f"the stream {self.name}: {error}") from None
        except RedisError as error:
            raise LostError(shown(str(error))) from None

    def _client(self) -> "Redis":
        from redis import Redis

        try:
            return Redis.from_url(urlsplit(self.url)._replace(query="").geturl(), **PATIENCE, protocol=2)
        except ValueError as error:
            raise ConfigError(f"the stream {self.name} is no address: {error}; {HOW}") from None

    def _options(self) -> dict[str, str]:
        options = options_of(self.url, HOW, stream=None, start="earliest")
        if options["start"] not in ("earliest", "latest"):
            raise ConfigError(f"the stream {self.name}: start={options['start']}: it is earliest or latest")
        return options


@dataclass(eq=False)
class RedisConnection:
    """Reads one Redis stream, from an entry on."""

    client: "Redis"
    key: str
    last: str
    """the id of the last entry that came"""
    gap: str = ""

    def receive(self) -> Received | None:
        """The entries after the last one."""
        from redis.exceptions import RedisError, ResponseError

        try:
            found: Any = self.client.xread({self.key: self.last}, MOST, LOOK_MS)
        except ResponseError as error:
            raise ConfigError(f"the stream {self.key} of Redis: {error}") from None
        except (RedisError, OSError, ValueError) as error:
            raise LostError(shown(str(error))) from None
        if not found:
            return Received(b"", {self.key: self.last})
        ((_, entries),) = found
        self.last = entries[-1][0].decode()
        return Received(b"".join(_text(name, fields or {}) for name, fields in entries), {self.key: self.last})

    def commit(self, position: Position) -> None:
        """Who has read it is nothing to Redis."""

    def close(self) -> None:
        """Let go of it."""
        self.client.close()


def _begin(client: "Redis", key: str, start: str) -> str:
    """Before the first entry, or after the last one that is there now."""
    if start == "earliest":
        return BEGIN
    newest: Any = client.xrevrange(key, count=1)
    return newest[0][0].decode() if newest else BEGIN


def _text(name: bytes, fields: "dict[bytes, bytes]") -> bytes:
    """An entry's id begins with its time."""
    return b"".join(stamped(value, int(name.partition(b"-")[0])) for value in fields.values())


def _gap(client: "Redis", key: str, last: str) -> str:
    """What was trimmed went from the front: where the last entry is still there, nothing after it has gone."""
    there: Any = client.xrange(key, last, last)
    if there or last == BEGIN:
        return ""
    return f"the entry {last} has gone, so entries after it may have, too: let Redis keep more"
