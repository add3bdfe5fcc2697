"""Kafka against librdkafka's own brokers: a run that is killed again and again counts every element once."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import lives
import pytest
from confluent_kafka import Consumer, TopicPartition
from forks import Forks
from kafka_brokers import brokers, properties, send

from freshkeeper.maintenance.base.errors import ConfigError, InputLostError
from freshkeeper.maintenance.streams.live import kafka
from freshkeeper.maintenance.streams.live.feed import FeedLines, OnLoss
from freshkeeper.maintenance.streams.opening import Reception, open_stream
from freshkeeper.maintenance.streams.read_errors import ReadErrors

pytestmark = pytest.mark.slow
COUNT = """SELECT ?n FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT2S STEP PT1S] { WINDOW <urn:w> { ?a <urn:b> ?n } }"""


def line(at: int) -> str:
    return f'{at}\t<urn:a{at}> <urn:b> "{at}" .'


def test_messages_come_in_order_of_time_and_go_on_at_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with brokers() as address:
        url = f"kafka://{address}/cars?group=g&{properties(tmp_path)}"
        send(address, "cars", [(at % 4, line(at)) for at in range(1, 401)])
        send(address, "cars", [(1, f'<urn:a> <urn:b> "{n}" .') for n in range(3)], time=500)
        stream = open_stream(url, ReadErrors(), reception=Reception(OnLoss.RECONNECT))
        found = (at for batch in stream.batches() for at in batch.times)
        assert [next(found) for _ in range(403)] == [*range(1, 401), 500, 500, 500]
        assert isinstance(stream, FeedLines)
        place = stream.feed.position
        assert place == {"0": 100, "1": 103, "2": 100, "3": 100}
        stream.feed.commit({"1": 7})
        observer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
        until = time.monotonic() + 10
        while (told := observer.committed([TopicPartition("cars", 1)], timeout=5)[0].offset) != 7:
            assert time.monotonic() < until, told
        stream.feed.stop()
        assert list(found) == []
        again = open_stream(url, ReadErrors(), reception=Reception(position={**place, "2": 98}))
        found = (at for batch in again.batches() for at in batch.times)
        assert [next(found), next(found)] == [394, 398]
        assert isinstance(again, FeedLines)
        again.feed.stop()
        with pytest.raises(ConfigError, match=r"there is no topic bikes .*; there are: cars"):
            next(open_stream(url.replace("cars", "bikes"), ReadErrors()).batches())
    monkeypatch.setattr(kafka, "BROKER_TIMEOUT_S", 0.5)
    with pytest.raises(InputLostError, match=r"the stream kafka://.* cannot be reached"):
        next(open_stream(url, ReadErrors()).batches())


def test_a_run_that_is_killed_counts_every_element_once(tmp_path: Path) -> None:
    out = tmp_path / "answers.ndjson"
    with brokers() as address, out.open("ab") as output:
        forks = Forks(lives, [output.fileno()])

        streams = {"urn:s": f"kafka://{address}/s?{properties(tmp_path)}"}
        session = {"text": COUNT, "streams": streams, "state": str(tmp_path / "state"), "on_loss": "reconnect"}
        send(address, "s", [(0, line(1))])
        sending, sent = threading.Event(), [1]

        def produce() -> None:
            while not sending.wait(0.02):
                at = sent[0] + 250
                send(address, "s", [(0, line(at))])
                sent[0] = at

        producer = threading.Thread(target=produce)
        producer.start()
        for _ in range(2):
            pid = forks.ask({"session": session, "output": output.fileno(), "room": -1})
            size, until = out.stat().st_size, time.monotonic() + 60
            while out.stat().st_size < size + 1_000:
                assert time.monotonic() < until
                time.sleep(0.02)
            os.kill(pid, signal.SIGKILL)
            forks.wait(pid)
        sending.set()
        producer.join()
        forks.close()
    found = {}
    for row in out.read_text().splitlines():
        if row.startswith("{") and row.endswith("}"):
            found[json.loads(row)["t"]] = json.loads(row)["answers"]
    assert sorted(found) == list(range(1000, max(found) + 1, 1000))
    elements = range(1, sent[0] + 1, 250)
    for t, answers in found.items():
        here = [at for at in elements if t - 2000 < at <= t]
        assert sorted(int(answer["bindings"]["n"]["value"]) for answer in answers) == here, t
