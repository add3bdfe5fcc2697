"""kafka://broker:9092,broker:9092/TOPIC: messages with lines of N-Quads; the extra is `kafka`.

A statement without a time gets that of its message. Partitions are shared with other members of the consumer group, but
where each goes on is ours: the place stands beside what was made of the elements, so that each counts once whatever is
killed. What the group is told of it is for others to see, and for whoever takes a partition over.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.streams.live.address_options import options_of
from freshkeeper.maintenance.streams.live.backlog import Backlog, Waiting
from freshkeeper.maintenance.streams.live.feed import LostError, Position, Received
from freshkeeper.maintenance.streams.live.stamped import stamped

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

HOW = "write kafka://broker:9092/TOPIC"
LOOK, PATIENCE = 0.2, 10.0
"""Seconds to wait for a message before it is looked whether one should stop; and for the broker, to begin with."""
MOST = 5_000
"""Messages at once."""
STARTS = ("earliest", "latest")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class KafkaPlace:
    """Brokers, a topic, and how they want to be spoken to."""

    brokers: str
    topic: str
    properties: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str, properties: str) -> "KafkaPlace":
        """From an address; `properties` is a file as Kafka's own clients have it."""
        where = urlsplit(url)
        topic = where.path.strip("/")
        if not where.netloc or not topic or "/" in topic or "@" in where.netloc:
            raise ConfigError(f"{shown(url)} has no broker or no topic: {HOW}; who asks stands in properties=FILE")
        return cls(where.netloc, topic, read_properties(Path(properties)) if properties else {})

    def settings(self, **more: Any) -> dict[str, Any]:
        """As the client wants them."""
        return {"log_level": 0, **self.properties, "bootstrap.servers": self.brokers, **more}


def read_properties(path: Path) -> dict[str, str]:
    """`key=value` in lines; ${NAME} is what an environment variable holds."""
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


@dataclass(frozen=True)
class KafkaAddress:
    """A topic to read."""

    url: str
    keeps: bool = True

    @property
    def name(self) -> str:
        """As it may be shown."""
        return shown(self.url)

    def check(self) -> None:
        """Whether there are brokers, a topic, and the library."""
        import confluent_kafka  # noqa: F401

        KafkaPlace.of(self.url, self._options()["properties"])

    def connect(self, position: Position) -> "KafkaConnection":
        """A member of the group; partitions go on where `position` says, others where the group was."""
        from confluent_kafka import Consumer, KafkaException

        options = self._options()
        place = KafkaPlace.of(self.url, options["properties"])
        own = {"enable.auto.commit": False, "enable.auto.offset.store": False, "auto.offset.reset": options["start"]}
        connection = KafkaConnection(place.topic, dict(position), options["start"] == "latest")
        try:
            consumer = Consumer(place.settings(**own, **{"group.id": options["group"], "error_cb": connection.failed}))
        except (KafkaException, TypeError, ValueError) as error:
            raise ConfigError(f"the stream {self.name}: {said(error)}") from None
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
    """Whether brokers answer, and have it."""
    from confluent_kafka import KafkaException

    try:
        known = client.list_topics(topic, timeout=PATIENCE).topics[topic]
    except KafkaException as error:
        raise LostError(said(error)) from None
    if known.error is not None:
        with suppress(KafkaException):
            others = [name for name in client.list_topics(timeout=PATIENCE).topics if name != topic]
            near = f"; {nearest(topic, others)}" if others else ""
            raise ConfigError(f"{who}: there is no topic {topic} ({known.error.str()}){near}")
        raise LostError(str(known.error.str()))


def said(error: BaseException) -> str:
    """The words of librdkafka, without secrets."""
    found = error.args[0] if error.args else error
    return shown(found.str() if hasattr(found, "str") else str(found))


@dataclass(eq=False)
class KafkaConnection:
    """One member of the group."""

    topic: str
    position: dict[str, int | str]
    """the next message of each partition"""
    latest: bool = False
    """whether what nobody has read yet begins with what comes from now on"""
    gap: str = ""
    _consumer: "Consumer | None" = None
    _backlog: Backlog = field(default_factory=Backlog)
    _failure: str = ""
    """every broker is away: the client goes on trying, and says so"""

    def begin(self, consumer: "Consumer") -> None:
        """Subscribe, and see what is missing since the place that is known."""
        self._consumer = consumer
        self.gap = self._missing(consumer)
        consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def receive(self) -> Received | None:
        """What has come, in the order of time where partitions have more than can be read at once."""
        consumer = self._consumer
        if consumer is None:
            return None
        first = consumer.poll(LOOK)
        if self._failure:
            raise LostError(self._failure)
        messages = [] if first is None else [first, *consumer.consume(MOST, 0)]
        for message in messages:
            self._take(message)
        ready = self._backlog.ready()
        for one in ready:
            self.position[one.part] = one.number + 1
        return Received(b"".join(one.text for one in ready), dict(self.position))

    def failed(self, error: Any) -> None:
        """Of brokers that are away; others of its kind are tried meanwhile."""
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
            self._failure = shown(error.str())

    def commit(self, position: Position) -> None:
        """Tell the group how far it was read, for those who watch its lag; where we go on is ours."""
        from confluent_kafka import KafkaException, TopicPartition

        mine = [TopicPartition(self.topic, int(part), int(number)) for part, number in position.items()]
        if mine and self._consumer is not None:
            with suppress(KafkaException, RuntimeError):  # the group has given them to another member
                self._consumer.commit(offsets=mine, asynchronous=True)

    def close(self) -> None:
        """Leave the group, so that others have its partitions at once."""
        if (consumer := self._consumer) is not None:
            self._consumer = None
            consumer.close()

    def _take(self, message: "Message") -> None:
        if (error := message.error()) is not None:
            raise LostError(shown(error.str()))
        kind, at = message.timestamp()
        text = stamped(message.value() or b"", at if kind else None)
        part, number = message.partition(), message.offset()
        self._backlog.take(Waiting(str(part), int(number or 0), text))

    def _assigned(self, consumer: "Consumer", parts: "Sequence[TopicPartition]") -> None:
        """Where each goes on: the later of our own place and the group's, as another member may have had it since."""
        from confluent_kafka import KafkaException, TopicPartition

        fresh: list[TopicPartition] = []
        with suppress(KafkaException):
            parts = consumer.committed(list(parts), timeout=PATIENCE)
        for part in parts:
            begin = end = 0
            with suppress(KafkaException):
                begin, end = consumer.get_watermark_offsets(part, timeout=PATIENCE)
            name = str(part.partition)
            known = max(int(self.position.get(name, -1)), part.offset)
            if known < 0 and self.latest:
                fresh.append(TopicPartition(self.topic, part.partition, end))
            part.offset = max(begin, known) if known >= 0 else end if self.latest else begin
            self.position[name] = part.offset
            self._backlog.expect(name, part.offset, end)
        consumer.assign(list(parts))
        if fresh:  # so that a run that is killed before its first answer goes on there
            consumer.commit(offsets=fresh, asynchronous=True)

    def _revoked(self, consumer: "Consumer", parts: "Sequence[TopicPartition]") -> None:
        """Others read them from now on."""
        del consumer
        for part in parts:
            self._backlog.forget(str(part.partition))

    def _missing(self, consumer: "Consumer") -> str:
        """Whether the broker has let go of messages before they were read."""
        from confluent_kafka import KafkaException, TopicPartition

        gone = 0
        for part, number in self.position.items():
            with suppress(KafkaException):
                begin, _ = consumer.get_watermark_offsets(TopicPartition(self.topic, int(part)), timeout=PATIENCE)
                gone += max(0, begin - int(number))
        return f"{gone:,} messages went before they were read: let the broker keep more" if gone else ""
