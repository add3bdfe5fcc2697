"""Kafka as librdkafka has it for tests: brokers in this process, which speak the real protocol to whoever connects."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer

QUICK = "session.timeout.ms=4000\nheartbeat.interval.ms=500\n"
"""A member that was killed is missed soon."""


@contextmanager
def brokers() -> Iterator[str]:
    """The address that others reach; each topic has four partitions."""
    cluster = Producer({"bootstrap.servers": "-", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del cluster


def send(address: str, topic: str, values: list[tuple[int, str]], time: int = 0) -> None:
    """Messages, each into its partition."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for partition, value in values:
        producer.produce(topic, value.encode(), partition=partition, timestamp=time)
    assert producer.flush(20) == 0


def everything(address: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """All messages of a topic, with their keys."""
    from confluent_kafka import TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "look", "log_level": 0})
    parts = [TopicPartition(topic, n, 0) for n in consumer.list_topics(topic, timeout=10).topics[topic].partitions]
    consumer.assign(parts)
    wanted = sum(consumer.get_watermark_offsets(part, timeout=10)[1] for part in parts)
    found: list[Message] = []
    while len(found) < wanted:
        found += [m for m in consumer.consume(1000, 0.2) if m.error() is None]
    consumer.close()
    return [(m.key(), m.value()) for m in found]


def properties(place: Path) -> str:
    """What follows an address so that a killed member is missed soon."""
    (place / "kafka.properties").write_text(QUICK)
    return f"properties={place / 'kafka.properties'}"
