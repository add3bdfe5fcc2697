"""redis://host:port/0?stream=KEY: entries of a Redis stream, each with lines of N-Quads; the extra is `redis`.

A statement without a time gets that of its entry, which is in the id. Redis keeps entries, so nothing is missed between
connections, unless the stream was trimmed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError, naming_extra
from freshkeeper.maintenance.streams.live.feed import FeedAddress, LostError, Position, Received, options_of, stamped

if TYPE_CHECKING:
    from redis import Redis

POLL_TIMEOUT_MS = 200  # short, so that a stop is noticed
MAX_ENTRIES_PER_POLL = 1_000
BEGIN = "0-0"
TIMEOUTS_S = {"socket_timeout": 10, "socket_connect_timeout": 10}
HOW = "write redis://host:port/0?stream=KEY"


@dataclass(eq=False)
class RedisAddress(FeedAddress):
    """The address of a Redis stream, with the place to begin."""

    @property
    def keeps(self) -> bool:
        return True

    def check(self) -> None:
        """Raise ConfigError if the key is missing; import the library."""
        self._client().close()
        self._options()

    def connect(self, position: Position) -> "RedisConnection":
        from redis.exceptions import RedisError, ResponseError

        client, options = self._client(), self._options()
        key = options["stream"]
        try:
            client.ping()
            last = str(position.get(key, ""))
            if not last:
                return RedisConnection(client, key, _begin(client, key, options["start"]))
            return RedisConnection(client, key, last, _gap(client, key, last))
        except ResponseError as error:
            raise ConfigError(f"the stream {self.name}: {error}") from None
        except RedisError as error:
            raise LostError(mask_secrets(str(error))) from None

    def _client(self) -> "Redis":
        with naming_extra(f"the stream {self.name}"):
            from redis import Redis
        try:
            return Redis.from_url(urlsplit(self.url)._replace(query="").geturl(), **TIMEOUTS_S, protocol=2)
        except ValueError as error:
            raise ConfigError(f"the stream {self.name} is no address: {error}; {HOW}") from None

    def _options(self) -> dict[str, str]:
        options = options_of(self.url, HOW, stream=None, start="earliest")
        if options["start"] not in ("earliest", "latest"):
            raise ConfigError(f"the stream {self.name}: start={options['start']}: it is earliest or latest")
        return options


@dataclass(eq=False)
class RedisConnection:
    """A reader of one Redis stream, from an entry on."""

    client: "Redis"
    key: str
    last: str
    """the id of the last entry received"""
    gap: str = ""

    def receive(self) -> Received | None:
        from redis.exceptions import RedisError, ResponseError

        try:
            found: Any = self.client.xread({self.key: self.last}, MAX_ENTRIES_PER_POLL, POLL_TIMEOUT_MS)
        except ResponseError as error:
            raise ConfigError(f"the stream {self.key} of Redis: {error}") from None
        except (RedisError, OSError, ValueError) as error:
            raise LostError(mask_secrets(str(error))) from None
        if not found:
            return Received(b"", {self.key: self.last})
        ((_, entries),) = found
        self.last = entries[-1][0].decode()
        return Received(b"".join(_text(name, fields or {}) for name, fields in entries), {self.key: self.last})

    def commit(self, position: Position) -> None:
        """Do nothing: Redis keeps no account of readers."""

    def close(self) -> None:
        self.client.close()


def _begin(client: "Redis", key: str, start: str) -> str:
    if start == "earliest":
        return BEGIN
    newest: Any = client.xrevrange(key, count=1)
    if not newest:
        return BEGIN
    return str(newest[0][0].decode())


def _text(name: bytes, fields: "dict[bytes, bytes]") -> bytes:
    """Return the lines of an entry, whose id begins with its time."""
    return b"".join(stamped(value, int(name.partition(b"-")[0])) for value in fields.values())


def _gap(client: "Redis", key: str, last: str) -> str:
    """Return the gap if entries after the last one received may have been trimmed, or an empty string.

    Trimming removes entries from the front: if the last one received is still there, all after it are, too.
    """
    remaining: Any = client.xrange(key, last, last)
    if remaining or last == BEGIN:
        return ""
    return f"the entry {last} was trimmed, and entries after it may have been, too: let Redis keep more"
