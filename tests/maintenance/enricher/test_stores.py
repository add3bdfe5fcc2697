"""Stores of rows and budget: one contract for all of them, several processes, kills, and a store that goes away."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import redis
from counting import CountingServer
from databases import redis_server
from servers import HERE, eventually

from freshkeeper import Enricher
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.enricher.redis_store import RedisStore
from freshkeeper.maintenance.enricher.sqlite_store import SqliteStore
from freshkeeper.maintenance.enricher.stored_row import BucketRule, Lease, LeaseRequest, StoredRow
from freshkeeper.maintenance.enricher.stores import RowStore, decode, encode

FIXED = BucketRule(rate=1e-9, capacity=20.0, initial=10.0)  # no income during a test
FAST = BucketRule(rate=1.0, capacity=20.0, initial=20.0)  # full again after 20 ms


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


def empty_store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """The address of an empty store; None is the memory of the process."""
    if kind == "redis":
        port = request.getfixturevalue("redis_port")
        redis.Redis(port=port).flushall()
        return f"redis://{HERE}:{port}/0"
    return None if kind == "memory" else str(tmp_path / "cache.db")


@pytest.fixture(params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store that processes share."""
    return str(empty_store(request.param, request, tmp_path))


@pytest.fixture(params=["memory", "sqlite", "redis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """The address of an empty store, or none."""
    return empty_store(request.param, request, tmp_path)


@pytest.fixture
def open_store(shared: str) -> Iterator[Callable[[], RowStore]]:
    """Opens the same store again and again, as several processes do."""
    opened: list[RowStore] = []

    def _open() -> RowStore:
        opened.append(RedisStore(shared, "rows") if shared.startswith("redis:") else SqliteStore(shared))
        return opened[-1]

    yield _open
    for store in opened:
        store.close()


def lease(store: RowStore, **request: float) -> Lease:
    """A lease of a bucket that is there."""
    found = store.lease(LeaseRequest(**request))
    assert found is not None
    return found


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
    one.save([(("p", 1), row(value)), ("doubted", row(1)._replace(doubt_from=-math.inf))])
    found = two.load({("p", 1): -1.0, "doubted": -1.0, "other": -1.0})
    assert found[("p", 1)] == row(value)
    assert type(found[("p", 1)].value) is type(value)
    assert found["doubted"].doubt_from == -math.inf
    assert decode(encode(value)) == value


def test_an_older_copy_never_replaces_a_newer_one(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    one.save([("a", row("new", 2000.0))])
    two.save([("a", row("old", 1000.0))])
    assert one.load({"a": 1500.0})["a"].value == "new"
    assert one.load({"a": 2000.0}) == {}


def test_an_invalidated_row_is_gone_and_the_others_hear_of_it(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    one.save([(("a", 1), row("old", 1000.0)), ("b", row("other"))])
    two.invalidate([("a", 1)], at=1500.0)
    assert one.load({("a", 1): -1.0, "b": -1.0}).keys() == {"b"}
    one.save([(("a", 1), row("too late", 1400.0))])  # was asked for before the row was invalidated
    assert one.load({("a", 1): -1.0}) == {}
    one.save([(("a", 1), row("new", 1600.0))])
    assert two.load({("a", 1): -1.0})[("a", 1)].value == "new"
    assert (one.invalidated(), one.invalidated(), two.invalidated()) == ([("a", 1)], [], [])
    assert open_store().invalidated() == []


def test_the_bucket_is_one_for_all(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    assert one.lease(LeaseRequest(least=1, most=1)) is None
    one.configure(FIXED)
    two.configure(FIXED)
    taken = [lease(store, least=1, most=1).tokens for _ in range(8) for store in (one, two)]
    assert sum(taken) == 10
    assert lease(two).level == pytest.approx(0, abs=1e-4)


def test_income_fills_the_bucket_and_a_new_budget_holds_for_all(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    one.configure(FAST._replace(initial=0.0))
    assert eventually(lambda: lease(two).level == 20.0)
    assert lease(two, least=1, most=1, reserve=20).tokens == 0
    assert lease(two, least=5, most=30, reserve=8).tokens == 12
    one.configure(BucketRule(0.5, 7.0, 99.0))
    assert lease(two, unspent=12)[1:4] == (7.0, 0.5, 7.0)


def test_leases_and_bucket_together_never_exceed_the_capacity(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    one.configure(FAST)
    assert lease(one, least=1, most=15).tokens == 15
    time.sleep(0.1)  # as much as the bucket holds, five times
    assert lease(two).level == 5
    assert lease(one, unspent=15, most=2).tokens == 2
    assert eventually(lambda: lease(two).level == 18)
    assert eventually(lambda: lease(two).level == 20, 5)  # a lease that was not renewed, after a second


def test_what_was_spent_while_the_store_was_away_is_settled(open_store: Callable[[], RowStore]) -> None:
    store = open_store()
    store.configure(FIXED)
    assert lease(store, unspent=-14, most=1).level == pytest.approx(-4, abs=1e-4)


def test_a_lease_tells_the_price_and_how_many_share_the_bucket(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    one.configure(FIXED)
    assert lease(one, price=0.25).price is None
    assert lease(two)[4:] == (0.25, 2)
    two.after_fork()  # the child of two
    assert lease(two).processes == 3
    one.close()
    assert lease(two).processes == 2


def test_a_claim_keeps_other_processes_from_fetching_a_key_until_it_runs_out(
    open_store: Callable[[], RowStore],
) -> None:
    one, two = open_store(), open_store()
    for _ in range(2):
        assert one.claim({"a": -1.0, "b": -1.0}, 60_000) == ["a", "b"]
    assert two.claim({"a": -1.0, "c": -1.0}, 60_000) == ["c"]
    two.release(["a"])
    assert two.claim({"a": -1.0}, 60_000) == []
    one.release(["a"])
    assert two.claim({"a": -1.0}, 30) == ["a"]
    assert eventually(lambda: one.claim({"a": -1.0}, 60_000) == ["a"])


def test_nobody_fetches_what_another_process_has_just_fetched(open_store: Callable[[], RowStore]) -> None:
    one, two = open_store(), open_store()
    one.save([("a", row("new", 2000.0))])
    assert two.claim({"a": 1000.0, "b": -1.0}, 60_000) == ["b"]
    assert two.claim({"a": 2000.0}, 60_000) == ["a"]


def test_what_one_enricher_fetches_is_a_hit_in_the_others_and_after_a_restart(shared: str) -> None:
    asked = []

    def lookup(keys: list[str]) -> dict[str, str]:
        asked.extend(keys)
        return {key: key.upper() for key in keys}

    for _ in range(2):
        with Enricher(lookup, "50/s", store=shared) as one, Enricher(lookup, "50/s", store=shared) as two:
            assert [enricher.get("a").value for enricher in (one, two, one)] == ["A"] * 3
            assert [row.value for row in two.get_many(["a", "b"])] == ["A", "B"]
            assert one.get_many(["a", "b"])[1].hit
    assert asked == ["a", "b"]


def test_an_enricher_hears_what_another_one_invalidates(shared: str) -> None:
    version = [1]

    def lookup(keys: list[str]) -> dict[str, int]:
        return dict.fromkeys(keys, version[0])

    with Enricher(lookup, "50/s", store=shared) as one, Enricher(lookup, "50/s", store=shared) as two:
        one.get("a"), two.get("a")
        version[0] = 2
        one.invalidate("a")
        began = time.monotonic()
        assert eventually(lambda: two.get("a").value == 2)
        assert time.monotonic() - began < 1


def test_every_store_serves_reads_alike(address: str | None) -> None:
    """The contract that users see: it is the same in memory, in a file and on a server."""
    rows = {n: f"row {n}" for n in range(50)}
    with Enricher(
        lambda keys: {key: rows[key] for key in keys if key in rows}, "100/s", batch=10, store=address
    ) as enricher:
        assert [row.value for row in enricher.get_many([3, 1, 3, 99])] == ["row 3", "row 1", "row 3", None]
        assert enricher.stats().requests == 1
        assert enricher.get(3).hit
        rows[3] = "changed"
        enricher.invalidate(3)
        assert enricher.get(3).value == "changed"
        enricher.forget(3)
        assert not enricher.get(3).hit
        enricher.put(3, "put")
        assert enricher.get(3).value == "put"
        for key in rows:
            enricher.get(key)
        enricher.set_budget("20/min")
        stats = enricher.stats()
        assert stats.spent == stats.requests <= 55
        assert stats.available <= 20
        assert stats.store_away is None


def test_a_second_enricher_begins_with_the_price_of_the_first(shared: str, open_store: Callable[[], RowStore]) -> None:
    store = open_store()
    with Enricher(lambda keys: dict.fromkeys(keys, 1), "5/s", store=shared) as one:
        one._engine.controller.base = 2.5
        assert eventually(lambda: one.stats().hits == 0 and lease(store).price not in (None, 0.5))
        with Enricher(lambda keys: dict.fromkeys(keys, 1), "5/s", store=shared) as two:
            assert two._engine.controller.base == pytest.approx(2.5, rel=0.1)


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

port, store, seed, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])

def lookup(keys):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall((" ".join(map(str, keys)) + "\\n").encode())
    connection.recv(1)
    connection.close()
    return {key: f"{key} {int(time.time() * 5)}" for key in keys}

enricher = Enricher(lookup, sys.argv[5], bank=0.5, store=store, max_wait=float(sys.argv[6]))
print("ready", flush=True)
rng, until = random.Random(seed), time.monotonic() + seconds
if seconds:
    while time.monotonic() < until:
        enricher.get(int(rng.paretovariate(0.5)) % 300)
        time.sleep(0.001)
else:
    assert all(row.error is None for row in enricher.get_many(range(40))), enricher.stats()
stats = enricher.stats()
print(json.dumps({"requests": stats.requests, "hits": stats.hits, "away": stats.store_away}))
"""


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with CountingServer() as found:
        yield found


@contextmanager
def readers(
    server: CountingServer, store: str, count: int, seconds: float, budget: str, max_wait: float
) -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that read, once all of them are ready."""
    command = [sys.executable, "-c", PROGRAM, str(server.port), store]
    processes = [
        subprocess.Popen([*command, str(seed), str(seconds), budget, str(max_wait)], stdout=subprocess.PIPE, text=True)
        for seed in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def told(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What a process says of itself in the end."""
    assert process.stdout is not None
    output = process.stdout.read()
    assert process.wait(60) == 0, output
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


@pytest.mark.slow
def test_four_processes_share_rows_and_never_exceed_the_budget_also_when_killed(
    server: CountingServer, shared: str
) -> None:
    began = time.monotonic()
    with readers(server, shared, 5, seconds=4, budget="20/s", max_wait=0.2) as processes:
        time.sleep(1)
        os.kill(processes[0].pid, signal.SIGKILL)
        counts = [told(process)["requests"] for process in processes[1:]]
    server.held_to(began, 20, bank=10)
    assert len(server.asked) > 60
    assert min(counts) > 5


@pytest.mark.slow
def test_a_key_that_several_processes_miss_is_fetched_once(server: CountingServer, shared: str) -> None:
    with readers(server, shared, 4, seconds=0, budget="1000/s", max_wait=10) as processes:
        for process in processes:
            told(process)
    assert sorted(map(int, server.keys)) == list(range(40))


@pytest.mark.slow
def test_the_budget_holds_while_redis_is_away_and_after_it_came_back_empty(
    server: CountingServer, tmp_path: Path
) -> None:
    began = time.monotonic()
    with redis_server(tmp_path) as port:
        reading = readers(server, f"redis://{HERE}:{port}", 3, seconds=9, budget="20/s", max_wait=0.2)
        processes = reading.__enter__()
        time.sleep(1)
    try:
        before = len(server.asked)
        time.sleep(2)
        while_away = len(server.asked) - before
        with redis_server(tmp_path, port):
            stats = [told(process) for process in processes]
    finally:
        reading.__exit__(None, None, None)
    server.held_to(began, 20, bank=10)
    assert 20 <= while_away <= 45
    assert [each["away"] for each in stats] == [None] * 3
