"""Stores of rows and budget: one contract for all of them, several processes, kills, and a store that goes away."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from servers import HERE

from freshkeeper import Enricher
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.sqlite_store import SqliteStore
from freshkeeper.maintenance.enricher.stored_row import StoredRow
from freshkeeper.maintenance.enricher.stores import BucketRule, RowStore, decode, encode

RULE = BucketRule(rate=0.01, capacity=20.0, initial=10.0)  # 10 units a second


class Steady:
    """A clock in ms that a test moves."""

    ms = 0.0

    def __call__(self) -> float:
        return self.ms


@pytest.fixture
def steady() -> Steady:
    return Steady()


@pytest.fixture
def open_store(tmp_path: Path, steady: Steady) -> Iterator[Callable[[], RowStore]]:
    """Opens the same store again and again, as several processes do."""
    opened: list[RowStore] = []

    def _open() -> RowStore:
        opened.append(SqliteStore(tmp_path / "cache.db", steady))
        return opened[-1]

    yield _open
    for store in opened:
        store.close()


def row(value: Any, fetched: float = 1000.0) -> StoredRow:
    return StoredRow(value, fetched, fetched, 1, 500.0, 3, 10.0)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"price": Decimal("2.50"), "at": datetime(2026, 1, 2, tzinfo=UTC), "tags": ["a", ("b", 1)], 5: True},
        b"\x00\xff",
        float("inf"),
        "\ud800",
    ],
)
def test_keys_and_rows_of_many_kinds_come_back(open_store: Callable[[], RowStore], value: Any) -> None:
    one, two = open_store(), open_store()
    one.save([(("p", 1), row(value))])
    found = two.load(("p", 1), -1.0)
    assert found == row(value)
    assert type(found.value) is type(value)
    assert decode(encode(value)) == value


def test_an_older_copy_never_replaces_a_newer_one(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    one.save([("a", row("new", 2000.0))])
    two.save([("a", row("old", 1000.0))])
    found = one.load("a", 1500.0)
    assert found is not None
    assert found.value == "new"
    assert one.load("a", 2000.0) is None
    two.remove("a")
    assert one.load("a", -1.0) is None


def test_the_bucket_is_one_for_all(open_store: Callable[[], RowStore], steady: Steady) -> None:
    one, two = open_store(), open_store()
    taken = [store.take(RULE, 1.0, 0.0) for _ in range(8) for store in (one, two)]
    assert sum(taken) == 10
    steady.ms += 250
    assert two.level(RULE) == pytest.approx(2.5)
    assert not one.take(RULE, 1.0, reserve=2.0)
    steady.ms += 10**9
    assert one.level(RULE) == 20.0


def test_a_claim_keeps_other_processes_from_fetching_a_key_until_it_runs_out(
    open_store: Callable[[], RowStore],
) -> None:
    one, two = open_store(), open_store()
    assert one.claim(["a", "b"], until=5000.0, now=0.0) == ["a", "b"]
    assert two.claim(["a", "c"], until=5000.0, now=1.0) == ["c"]
    one.release(["a"])
    assert two.claim(["a"], until=5000.0, now=2.0) == ["a"]
    assert two.claim(["b"], until=9000.0, now=5001.0) == ["b"]


def test_members_are_counted_while_they_are_heard_of(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    now = time.time() * 1000
    one.members(now)
    assert two.members(now) == 2
    assert two.members(now + 20_000) == 1


def test_rows_and_what_was_learned_survive_a_restart(tmp_path: Path) -> None:
    asked = []

    def lookup(keys: list[str]) -> dict[str, str]:
        asked.append(keys)
        return {key: key.upper() for key in keys}

    for _ in range(2):
        with Enricher(lookup, "50/s", state=tmp_path / "state") as enricher:
            assert enricher.get("a").value == "A"
            assert enricher.get("a").hit
    assert asked == [["a"]]


def test_rows_that_cannot_be_written_stay_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Enricher(lambda keys: {key: object() for key in keys}, "50/s", store=tmp_path / "c.db") as enricher:
        enricher.get("a")
        assert enricher.get("a").hit
    assert "some rows are not in the store: a store keeps text, numbers" in caplog.text


def test_a_store_that_goes_away_leaves_each_process_its_rows_and_its_share(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "there" / "c.db"
    with Enricher(lambda keys: dict.fromkeys(keys, 1), "50/s", store=path) as enricher:
        enricher.get("a")
        shared = enricher._engine.shared
        assert shared is not None
        shared.store.close()
        for file in path.parent.iterdir():
            file.unlink()
        path.mkdir()  # what is there now is no database
        assert [enricher.get(key).value for key in "ab"] == [1, 1]
    assert "the store cannot be used" in caplog.text
    assert "1/1 of the budget" in caplog.text


def test_a_file_that_is_no_store_is_refused_in_one_line(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.txt"
    wrong.write_text("no database, and long enough to be read as one" * 100)
    with pytest.raises(ConfigError, match="file is not a database"):
        Enricher(dict.fromkeys, "5/s", store=wrong)


PROGRAM = """
import json, random, socket, sys, time
from freshkeeper import Enricher

port, path, seed, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])

def lookup(keys):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.recv(1)
    connection.close()
    return {key: f"{key} {int(time.time() * 5)}" for key in keys}

enricher = Enricher(lookup, "20/s", bank=0.5, store=path, max_wait=0.2)
rng, until = random.Random(seed), time.monotonic() + seconds
print("ready", flush=True)
while time.monotonic() < until:
    enricher.get(int(rng.paretovariate(0.5)) % 300)
    time.sleep(0.001)
print(json.dumps({"requests": enricher.stats().requests, "hits": enricher.stats().hits}))
"""


class CountingServer:
    """Counts connections."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.socket = socket.create_server((HERE, 0), backlog=200)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.asked.append(time.monotonic())
            connection.sendall(b"x")
            connection.close()


@pytest.mark.slow
def test_four_processes_share_rows_and_never_exceed_the_budget_also_when_killed(tmp_path: Path) -> None:
    server, began = CountingServer(), time.monotonic()
    command = [sys.executable, "-c", PROGRAM, str(server.port), str(tmp_path / "c.db")]
    processes = [
        subprocess.Popen([*command, str(seed), "4"], stdout=subprocess.PIPE, text=True) for seed in range(5)
    ]  # fmt: skip
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(1)
        os.kill(processes[0].pid, signal.SIGKILL)
        outputs = [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
        server.close()
    assert all(process.returncode == 0 for process in processes[1:]), outputs
    for n, at in enumerate(sorted(server.asked), 1):
        assert n <= 10 + 20 * (at - began) + 1e-6
    assert len(server.asked) > 30
