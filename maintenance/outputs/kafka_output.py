"""kafka://broker:9092/TOPIC: each answer is a message; the extra is `kafka`.

The key is the query, so its answers are in one partition and in order; the header `id` is the query and the instant.
The producer is idempotent: what it sends again by itself is there once. What a killed process had sent and not noted
is sent again by the next, with the same id.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from freshkeeper.maintenance.base.addresses import shown
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.outputs.sender import Answer
from freshkeeper.maintenance.streams.live.feed import LostError, options_of
from freshkeeper.maintenance.streams.live.kafka import KafkaPlace, error_message

if TYPE_CHECKING:
    from confluent_kafka import Producer

HOW = "write kafka://broker:9092/TOPIC"
PATIENCE = 30.0
"""Seconds until what could not be sent is told, and tried anew."""


class KafkaOutput:
    """Puts answers into one topic of Kafka."""

    def __init__(self, url: str) -> None:
        import confluent_kafka  # noqa: F401

        self.name = shown(url)
        self._place = KafkaPlace.of(url, options_of(url, HOW, properties="")["properties"])
        self._producer: Producer | None = None
        self._failures: list[str] = []

    def put(self, answers: Sequence[Answer]) -> None:
        """Send them all; LostError says that brokers do not have all of them in time."""
        producer = self._begun()
        self._failures = []
        for one in answers:
            headers: list[tuple[str, str | bytes | None]] = [("id", one.id), ("t", str(one.t))]
            while True:
                try:
                    producer.produce(
                        self._place.topic, one.line.rstrip(b"\n"), key=one.query, headers=headers,
                        on_delivery=self._delivered,
                    )  # fmt: skip
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(PATIENCE)
        if left or self._failures:
            why = self._failures[0] if self._failures else f"{left} messages wait for the broker"
            producer.purge()
            producer.flush(1)
            self._producer = None  # its messages have a hole
            raise LostError(why)

    def close(self) -> None:
        """Let go of it."""
        self._producer = None

    def _begun(self) -> "Producer":
        from confluent_kafka import KafkaException, Producer

        if self._producer is None:
            settings = self._place.settings(**{"enable.idempotence": True, "linger.ms": 5})
            try:
                self._producer = Producer(settings)
            except (KafkaException, TypeError, ValueError) as error:
                raise ConfigError(f"the output {self.name}: {error_message(error)}") from None
        return self._producer

    def _delivered(self, error: Any, message: Any) -> None:
        del message
        if error is not None:
            self._failures.append(shown(error.str()))
