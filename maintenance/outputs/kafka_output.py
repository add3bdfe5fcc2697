"""kafka://broker:9092/TOPIC: each answer is a message; the extra is `kafka`.

The key is the query, so that its answers are in one partition and in order; the header `id` is the query and the
instant. The producer is idempotent: messages that it sends again are stored once. Messages that a killed process had
sent without noting it are sent again by the next process, with the same id.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from freshkeeper.maintenance.base.addresses import mask_secrets
from freshkeeper.maintenance.base.errors import ConfigError, naming_extra
from freshkeeper.maintenance.outputs.sender import AnswerLine
from freshkeeper.maintenance.streams.live.feed import LostError, options_of
from freshkeeper.maintenance.streams.live.kafka import KafkaPlace, error_message

if TYPE_CHECKING:
    from confluent_kafka import Producer

HOW = "write kafka://broker:9092/TOPIC"
FLUSH_TIMEOUT_S = 30.0


class KafkaOutput:
    """A producer of answers to one Kafka topic."""

    def __init__(self, url: str) -> None:
        self.name = mask_secrets(url)
        with naming_extra(f"the output {self.name}"):
            import confluent_kafka  # noqa: F401
        self._place = KafkaPlace.of(url, options_of(url, HOW, properties="")["properties"])
        self._producer: Producer | None = None
        self._failures: list[str] = []

    def put(self, answers: Sequence[AnswerLine]) -> None:
        """Send all answers; raise LostError if the brokers do not have all of them in time."""
        producer = self._connect()
        self._failures = []
        for answer in answers:
            self._produce(producer, answer)
        left = producer.flush(FLUSH_TIMEOUT_S)
        if not left and not self._failures:
            return
        failure = f"{left} messages wait for the broker"
        if self._failures:
            failure = self._failures[0]
        producer.purge()
        producer.flush(1)
        self._producer = None  # purging left a hole in its sequence numbers: an idempotent producer cannot go on
        raise LostError(failure)

    def _produce(self, producer: "Producer", answer: AnswerLine) -> None:
        headers: list[tuple[str, str | bytes | None]] = [("id", answer.id), ("t", str(answer.t))]
        while True:
            try:
                producer.produce(
                    self._place.topic,
                    answer.line.rstrip(b"\n"),
                    key=answer.query,
                    headers=headers,
                    on_delivery=self._delivered,
                )
                return
            except BufferError:  # the queue is full
                producer.poll(0.1)

    def close(self) -> None:
        self._producer = None

    def _connect(self) -> "Producer":
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
            self._failures.append(mask_secrets(error.str()))
