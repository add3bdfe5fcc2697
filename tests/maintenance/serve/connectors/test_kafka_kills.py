"""A service between two topics, killed again and again: every element counts once, and no answer is missing."""

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest
import service_lives
from forks import Forks
from kafka_brokers import brokers, everything, properties, send
from serving import POSTS, TOPICS, E

STEP = 100


def element(number: int) -> str:
    at = number * STEP
    return f"{at}\t<{E}p{number}> <{E}topic> <{E}t{number % 9}> ."


@pytest.mark.slow
def test_elements_of_a_topic_count_once_and_all_answers_reach_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with brokers() as address:
        config = {
            "listen": f"127.0.0.1:{port}", "state": str(tmp_path / "state"), "queries": {"topics": TOPICS},
            "streams": {POSTS: f"kafka://{address}/posts?{properties(tmp_path)}"},
            "outputs": {"out": f"kafka://{address}/answers"},
        }  # fmt: skip
        forks = Forks(service_lives)

        def answered() -> int:
            try:
                told = httpx.get(f"http://127.0.0.1:{port}/queries/topics", timeout=30)
                return int(told.json().get("answered") or 0) if told.status_code == 200 else 0
            except httpx.TransportError:
                return 0

        def reach(t: int) -> None:
            until = time.monotonic() + 60
            while answered() < t:
                assert time.monotonic() < until
                time.sleep(0.05)

        sending, sent = threading.Event(), [0]
        send(address, "posts", [(0, element(0))])

        def produce() -> None:
            while not sending.wait(0.02):
                send(address, "posts", [(0, element(n)) for n in range(sent[0] + 1, sent[0] + 11)])
                sent[0] += 10

        producer = threading.Thread(target=produce)
        producer.start()
        pid, before = forks.ask({"config": config}), 0
        for _ in range(2):
            reach(before + 3000)
            os.kill(pid, signal.SIGKILL)
            forks.wait(pid)
            before = json.loads((tmp_path / "state" / "answers" / "topics.ndjson").read_text().splitlines()[-1])["t"]
            pid = forks.ask({"config": config})
        reach(before + 3000)
        sending.set()
        producer.join()
        last = (sent[0] * STEP - 1) // 1000 * 1000
        reach(last)
        os.kill(pid, signal.SIGTERM)
        forks.wait(pid)
        forks.close()
        found = everything(address, "answers")
    assert {key for key, _ in found} == {b"topics"}
    told = [json.loads(value) for _, value in found if value is not None]
    lines = {one["t"]: one["answers"] for one in told}
    assert sorted(lines) == list(range(1000, last + 1, 1000))
    for t, answers in lines.items():
        here = [f"{E}p{n}" for n in range(sent[0] + 1) if t - 2000 < n * STEP <= t]
        assert sorted(one["bindings"]["post"]["value"] for one in answers) == sorted(here), t
