"""kafka://broker:9092,broker:9092/TOPIC: messages with lines of N-Quads; the extra is `kafka`.

A statement without a time gets that of its message. Partitions are shared with other members of the consumer group, but
offsets are kept by the run, beside the answers made of the elements, so that each element counts once whatever is
killed. Offsets are committed to the group for monitoring, and for the member that takes a partition over.
"""

import heapq
import os
import re
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError, naming_extra, nearest
from freshkeeper.maintenance.streams.live.feed import FeedAddress, LostError, Position, Received, options_of, stamped

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition


MAX_WAITING_MESSAGES = 200_000
"""Messages that may wait for those of another part; if there are more, they are handed on in any order."""


@dataclass(frozen=True, eq=False)
class PendingMessage:
    """A message that was not handed on yet, and its place."""

    part: str
    number: int
    text: bytes

    @property
    def time(self) -> int:
        """The time of the first element, or 0 if it has none: its reader then reports what is wrong with it."""
        first = self.text.partition(b"\t")[0]
        if first.isdigit() and len(first) < 19:
            return int(first)
        return 0


@dataclass(eq=False)
class Backlog:
    """Messages in the order of time while a partition has unread ones.

    Brokers send one partition after the other. With many unread messages, as after a pause, elements of one partition
    would seem late because those of another happened to arrive first; so messages wait until each partition is where
    it ended when reading began. From there on messages are handed on as they arrive.
    """

    _ends: dict[str, int] = field(default_factory=dict)
    """parts with unread messages, and where these end"""
    _waiting: dict[str, deque[PendingMessage]] = field(default_factory=dict)
    _count: int = 0

    def expect(self, part: str, begin: int, end: int) -> None:
        """Note that a part has messages from one number to another, the last excluded."""
        if begin < end:
            self._ends[part] = end

    def forget(self, part: str) -> None:
        self._ends.pop(part, None)
        self._count -= len(self._waiting.pop(part, ()))

    def take(self, message: PendingMessage) -> None:
        """Add a message, the next of its part."""
        self._waiting.setdefault(message.part, deque()).append(message)
        self._count += 1
        # the part is where it ended when reading began: from now on its messages need not be waited for
        if message.number + 1 >= self._ends.get(message.part, 0):
            self._ends.pop(message.part, None)

    def ready(self) -> list[PendingMessage]:
        """Return the messages that can be handed on now."""
        found: list[PendingMessage] = []
        heads = [(queue[0].time, part) for part, queue in self._waiting.items() if queue]
        heapq.heapify(heads)
        # a part with unread messages and none here might have an earlier one: wait for it, within limits
        while heads and (self._count > MAX_WAITING_MESSAGES or not self._missing()):
            _, part = heapq.heappop(heads)
            queue = self._waiting[part]
            found.append(queue.popleft())
            self._count -= 1
            if queue:
                heapq.heappush(heads, (queue[0].time, part))
        return found

    def _missing(self) -> bool:
        """Return whether a part with unread messages has none here whose time could be compared."""
        return any(not self._waiting.get(part) for part in self._ends)


HOW = "write kafka://broker:9092/TOPIC"
POLL_TIMEOUT_S = 0.2  # short, so that a stop is noticed
BROKER_TIMEOUT_S = 10.0
MAX_MESSAGES_PER_POLL = 5_000
STARTS = ("earliest", "latest")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class KafkaPlace:
    """Brokers, a topic, and properties of the client."""

    brokers: str
    topic: str
    properties: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str, properties: str) -> "KafkaPlace":
        """Return the brokers and the topic of an address; `properties` is a file as Kafka's own clients read it."""
        where = urlsplit(url)
        topic = where.path.strip("/")
        if not where.netloc or not topic or "/" in topic or "@" in where.netloc:
            raise ConfigError(
                f"{mask_secrets(url)} has no broker or no topic: {HOW}; credentials go into properties=FILE"
            )
        if not properties:
            return cls(where.netloc, topic)
        return cls(where.netloc, topic, read_properties(Path(properties)))

    def settings(self, **more: Any) -> dict[str, Any]:
        return {"log_level": 0, **self.properties, "bootstrap.servers": self.brokers, **more}


def read_properties(path: Path) -> dict[str, str]:
    """Read `key=value` lines; ${NAME} is replaced by an environment variable."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"properties: {path} cannot be read: {getattr(error, 'strerror', error)}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise ConfigError(f"{path}, line {number}: {line.strip()!r} is no setting: write key=value")
        found[key.strip()] = _VARIABLE.sub(lambda name: _environment(name[1], path, number), value.strip())  # noqa: B023
    return found


def _environment(name: str, path: Path, number: int) -> str:
    if name not in os.environ:
        raise ConfigError(f"{path}, line {number}: the environment variable {name} is not set")
    return os.environ[name]


@dataclass(eq=False)
class KafkaAddress(FeedAddress):
    """The address of a topic."""

    @property
    def keeps(self) -> bool:
        return True

    def check(self) -> None:
        """Raise ConfigError if brokers or topic are missing; import the library."""
        with naming_extra(f"the stream {self.name}"):
            import confluent_kafka  # noqa: F401
        KafkaPlace.of(self.url, self._options()["properties"])

    def connect(self, position: Position) -> "KafkaConnection":
        """Join the group; partitions resume at `position`, others at the group's offsets."""
        from confluent_kafka import Consumer, KafkaException

        options = self._options()
        place = KafkaPlace.of(self.url, options["properties"])
        connection = KafkaConnection(place.topic, dict(position), options["start"] == "latest")
        settings = {
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": options["start"],
            "group.id": options["group"],
            "error_cb": connection.failed,
        }
        try:
            consumer = Consumer(place.settings(**settings))
        except (KafkaException, TypeError, ValueError) as error:
            raise ConfigError(f"the stream {self.name}: {error_message(error)}") from None
        try:
            check_topic(consumer, place.topic, f"the stream {self.name}")
            connection.begin(consumer)
        except BaseException:
            consumer.close()
            raise
        return connection

    def _options(self) -> dict[str, str]:
        options = options_of(self.url, HOW, group="freshkeeper", start="earliest", properties="")
        if options["start"] not in STARTS:
            raise ConfigError(f"the stream {self.name}: start={options['start']}: it is earliest or latest")
        return options


def check_topic(client: Any, topic: str, who: str) -> None:
    """Raise ConfigError if the brokers have no such topic, and LostError if they do not answer."""
    from confluent_kafka import KafkaException

    try:
        metadata = client.list_topics(topic, timeout=BROKER_TIMEOUT_S).topics[topic]
    except KafkaException as error:
        raise LostError(error_message(error)) from None
    if metadata.error is None:
        return
    with suppress(KafkaException):
        others = [name for name in client.list_topics(timeout=BROKER_TIMEOUT_S).topics if name != topic]
        problem = f"{who}: there is no topic {topic} ({metadata.error.str()})"
        if others:
            problem += f"; {nearest(topic, others)}"
        raise ConfigError(problem)
    raise LostError(str(metadata.error.str()))


def error_message(error: BaseException) -> str:
    """Return librdkafka's message of an error, without secrets."""
    cause: Any = error
    if error.args:
        cause = error.args[0]
    text = cause.str() if hasattr(cause, "str") else str(cause)
    return mask_secrets(text)


@dataclass(eq=False)
class KafkaConnection:
    """A member of the consumer group."""

    topic: str
    position: dict[str, int | str]
    """the next message of each partition"""
    latest: bool = False
    """whether partitions that were never read begin with the next message"""
    gap: str = ""
    _consumer: "Consumer | None" = None
    _backlog: Backlog = field(default_factory=Backlog)
    _failure: str = ""
    """set when every broker is away; the client itself keeps trying"""

    def begin(self, consumer: "Consumer") -> None:
        """Subscribe, and find out which messages are missing since the known position."""
        self._consumer = consumer
        self.gap = self._missing(consumer)
        consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def receive(self) -> Received | None:
        consumer = self._consumer
        if consumer is None:
            return None
        first = consumer.poll(POLL_TIMEOUT_S)
        if self._failure:
            raise LostError(self._failure)
        if first is not None:
            for message in [first, *consumer.consume(MAX_MESSAGES_PER_POLL, 0)]:
                self._take(message)
        ready = self._backlog.ready()
        for pending in ready:
            self.position[pending.part] = pending.number + 1
        return Received(b"".join(pending.text for pending in ready), dict(self.position))

    def failed(self, error: Any) -> None:
        """Note that all brokers are away, or a fatal error; other errors of its kind are retried by the client."""
        from confluent_kafka import KafkaError

        # librdkafka calls this in `poll`, which must not raise
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
            self._failure = mask_secrets(error.str())

    def commit(self, position: Position) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(self.topic, int(part), int(number)) for part, number in position.items()]
        if offsets and self._consumer is not None:
            with suppress(KafkaException, RuntimeError):  # the partitions belong to another member by now
                self._consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        consumer = self._consumer
        if consumer is not None:
            self._consumer = None
            consumer.close()

    def _take(self, message: "Message") -> None:
        error = message.error()
        if error is not None:
            raise LostError(mask_secrets(error.str()))
        kind, time = message.timestamp()
        text = stamped(message.value() or b"", time if kind else None)
        part = str(message.partition())
        self._backlog.take(PendingMessage(part, int(message.offset() or 0), text))

    def _assigned(self, consumer: "Consumer", parts: "Sequence[TopicPartition]") -> None:
        """Seek each partition to the later of run's and group's offsets: another member may have read it since."""
        from confluent_kafka import KafkaException, TopicPartition

        unread: list[TopicPartition] = []
        with suppress(KafkaException):
            parts = consumer.committed(list(parts), timeout=BROKER_TIMEOUT_S)
        for part in parts:
            begin = end = 0
            with suppress(KafkaException):
                begin, end = consumer.get_watermark_offsets(part, timeout=BROKER_TIMEOUT_S)
            name = str(part.partition)
            # negative offsets stand for partitions that nobody has read
            known = max(int(self.position.get(name, -1)), part.offset)
            if known >= 0:
                part.offset = max(begin, known)
            elif self.latest:
                unread.append(TopicPartition(self.topic, part.partition, end))
                part.offset = end
            else:
                part.offset = begin
            self.position[name] = part.offset
            self._backlog.expect(name, part.offset, end)
        consumer.assign(list(parts))
        if unread:  # so that a run that is killed before its first answer resumes there
            consumer.commit(offsets=unread, asynchronous=True)

    def _revoked(self, consumer: "Consumer", parts: "Sequence[TopicPartition]") -> None:
        """Drop partitions that other members read from now on."""
        del consumer  # librdkafka passes it to every callback
        for part in parts:
            self._backlog.forget(str(part.partition))

    def _missing(self, consumer: "Consumer") -> str:
        """Return the gap if the broker has deleted messages before they were read, or an empty string."""
        from confluent_kafka import KafkaException, TopicPartition

        missing = 0
        for part, number in self.position.items():
            partition = TopicPartition(self.topic, int(part))
            with suppress(KafkaException):
                begin, _ = consumer.get_watermark_offsets(partition, timeout=BROKER_TIMEOUT_S)
                missing += max(0, begin - int(number))
        if not missing:
            return ""
        return f"{missing:,} messages were deleted before they were read: raise the retention of the topic"
