"""Answers to a topic of librdkafka's own brokers: in order, with ids, and an error that may pass where nobody is."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from kafka_brokers import brokers

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.outputs import kafka_output
from freshkeeper.maintenance.outputs.kafka_output import KafkaOutput
from freshkeeper.maintenance.outputs.sender import AnswerLine
from freshkeeper.maintenance.streams.live.feed import LostError

pytestmark = pytest.mark.slow


def answers(*times: int) -> list[AnswerLine]:
    return [AnswerLine("reach", t, b'{"t": %d}\n' % t) for t in times]


def test_answers_are_there_in_order_when_they_count_as_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with brokers() as address:
        output = KafkaOutput(f"kafka://{address}/answers")
        output.put(answers(1000, 2000))
        output.put(answers(3000))
        output.close()
        consumer = Consumer({"bootstrap.servers": address, "group.id": "look", "log_level": 0})
        consumer.assign([TopicPartition("answers", n, 0) for n in range(4)])
        found: list[Message] = []
        while len(found) < 3:
            found += consumer.consume(10, 0.1)
        consumer.close()
    told = [(m.key(), dict(m.headers() or {})["id"], m.value()) for m in found if m.error() is None]
    assert told == [(b"reach", f"reach/{t}".encode(), b'{"t": %d}' % t) for t in (1000, 2000, 3000)]
    monkeypatch.setattr(kafka_output, "FLUSH_TIMEOUT_S", 0.5)
    with pytest.raises(LostError, match="2 messages wait for the broker"):
        KafkaOutput("kafka://127.0.0.1:1/answers").put(answers(4000, 5000))


def test_settings_that_are_none_are_said(tmp_path: Path) -> None:
    (tmp_path / "kafka.properties").write_text("nonsense=1\n")
    output = KafkaOutput(f"kafka://127.0.0.1:1/answers?properties={tmp_path / 'kafka.properties'}")
    with pytest.raises(ConfigError, match=r"the output kafka://.*nonsense"):
        output.put(answers(1000))
