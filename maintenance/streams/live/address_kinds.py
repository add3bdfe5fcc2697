"""Which kind of stream an address is, by how it begins."""

from collections.abc import Callable

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.streams.live.feed import Address
from freshkeeper.maintenance.streams.live.kafka import KafkaAddress
from freshkeeper.maintenance.streams.live.redis_stream import RedisAddress
from freshkeeper.maintenance.streams.live.server_sent_events import EventAddress
from freshkeeper.maintenance.streams.live.tcp import TcpAddress
from freshkeeper.maintenance.streams.live.websocket import SocketAddress

KINDS: dict[str, Callable[[str], Address]] = {
    "tcp": TcpAddress,
    **dict.fromkeys(("http", "https"), EventAddress),
    **dict.fromkeys(("ws", "wss"), SocketAddress),
    **dict.fromkeys(("redis", "rediss"), RedisAddress),
    "kafka": KafkaAddress,
}
ADDRESSES = tuple(f"{kind}://" for kind in KINDS)


def address_of(written: str) -> Address:
    """What an address names."""
    kind = written.partition("://")[0]
    if kind not in KINDS:
        raise ConfigError(f"the stream {shown(written)}: {nearest(kind, list(KINDS))}")
    found = KINDS[kind](written)
    found.check()
    return found
