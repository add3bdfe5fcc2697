"""The change feeds of docs/feeds.md, run as they are written against real servers; and SqlChanges."""

import importlib.util
import json
import re
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from databases import postgres
from kafka_brokers import brokers
from lookup_tables import Table
from servers import HERE, eventually

from freshkeeper import Enricher, SqlChanges

TEXT = (Path(__file__).parents[3] / "docs" / "feeds.md").read_text()
FEEDS = dict(re.findall(r"^```python file=(\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


def module(place: Path, name: str) -> Any:
    """A feed as a module."""
    (place / f"{name}.py").write_text(FEEDS[f"{name}.py"])
    spec = importlib.util.spec_from_file_location(f"feed_{name}", place / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def enricher(table: Table) -> Iterator[Enricher[Any, Any]]:
    """Rows that are refreshed by nothing but a feed: they are never worth a request otherwise."""
    with Enricher(table, "2/h", bank="30h", on_stale="serve") as found:
        yield found


@pytest.mark.parametrize("name", sorted(FEEDS))
def test_a_feed_has_at_most_25_lines_of_code(name: str) -> None:
    lines = [line for line in FEEDS[name].splitlines() if line.strip()]
    assert len(lines) <= 25, len(lines)


@pytest.mark.slow
def test_a_column_that_is_polled_and_notifications(tmp_path: Path) -> None:
    import psycopg

    with postgres(tmp_path) as address, psycopg.connect(address, autocommit=True) as owner:
        owner.execute("CREATE TABLE products (id text PRIMARY KEY, price int, updated_at timestamptz DEFAULT now())")
        owner.execute("INSERT INTO products VALUES ('pen', 2), ('ink', 7)")
        update = "UPDATE products SET price = %s, updated_at = now() WHERE id = 'pen'"

        def price(enricher: Enricher[Any, Any]) -> int:
            row = enricher.get("pen").value
            return -1 if row is None else int(row["price"])

        polled, changes = module(tmp_path, "polled").enriched(address)
        with polled, changes:
            assert price(polled) == 2
            with psycopg.connect(address) as slow:  # a transaction that is older than the next one, and commits later
                slow.execute("UPDATE products SET price = 8, updated_at = now() WHERE id = 'ink'")
                owner.execute(update, (3,))
                assert eventually(lambda: price(polled) == 3)
                assert polled.get("ink").value["price"] == 7
            assert eventually(lambda: polled.get("ink").value["price"] == 8)

        told = module(tmp_path, "told")
        owner.execute(told.TRIGGER)
        rows = {"pen": 3}
        with Enricher(lambda keys: {key: {"price": rows[key]} for key in keys}, "2/h", bank="30h") as enricher:
            assert price(enricher) == 3
            thread = threading.Thread(target=listen_until_cut, args=(told.listen, address, enricher))
            thread.start()
            listening = "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN products'"
            assert eventually(lambda: owner.execute(listening).fetchone() is not None)
            rows["pen"] = 4
            owner.execute(update, (4,))
            assert eventually(lambda: price(enricher) == 4)
            owner.execute(f"SELECT pg_terminate_backend(pid) FROM ({listening}) AS listeners")
            thread.join()
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND pid <> pg_backend_pid()"
        )


def listen_until_cut(listen: Callable[..., None], *arguments: Any) -> None:
    import psycopg

    with pytest.raises(psycopg.OperationalError):
        listen(*arguments)


def test_kafka_with_rows_or_with_changes_of_debezium(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer

    stop = threading.Event()

    def nothing(keys: list[str]) -> dict[str, Any]:
        raise LookupError("rows come from Kafka")

    with brokers() as address, Enricher(nothing, "50/s") as enricher:
        producer = Producer({"bootstrap.servers": address, "log_level": 0})

        def produce(key: Any, value: Any) -> None:
            producer.produce("products", key=json.dumps(key), value=None if value is None else json.dumps(value))
            assert producer.flush(20) == 0

        produce("a", {"price": 1})
        consumer = Consumer(
            {"bootstrap.servers": address, "group.id": "feed", "auto.offset.reset": "earliest", "log_level": 0}
        )
        thread = threading.Thread(target=module(tmp_path, "consumed").follow, args=(consumer, enricher, stop))
        thread.start()
        try:
            assert eventually(lambda: "a" in enricher, 20)
            assert enricher.get("a").value == {"price": 1}
            soon = round(time.time() * 1000) + 1000
            produce("a", {"price": 2})
            assert eventually(lambda: enricher.get("a").value == {"price": 2})
            produce("a", {"op": "u", "before": {"price": 2}, "after": {"price": 3}, "ts_ms": soon})
            assert eventually(lambda: enricher.get("a").value == {"price": 3})
            schema = {"payload": {"op": "u", "after": {"price": 4}, "ts_ms": soon + 1}, "schema": {}}
            produce({"payload": {"id": "a"}, "schema": {}}, schema)
            assert eventually(lambda: enricher.get("a").value == {"price": 4})
            produce("a", {"op": "d", "before": {"price": 4}, "after": None, "ts_ms": soon + 2})
            assert eventually(lambda: enricher.get("a").value is None)
            produce("a", None)  # what compaction keeps of a deleted row
        finally:
            stop.set()
            thread.join()
            consumer.close()


def test_a_webhook(tmp_path: Path, table: Table, enricher: Enricher[Any, Any]) -> None:
    server = module(tmp_path, "webhook").webhook(enricher, 0)
    server.RequestHandlerClass.log_message = lambda *arguments: None
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        assert enricher.get("a").value == "A"
        table.rows["a"] = "changed"
        body = json.dumps({"changed": ["a"]}).encode()
        urllib.request.urlopen(f"http://{HERE}:{server.server_port}/", body, timeout=10).close()
        assert enricher.get("a").value == "changed"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


FORMS: dict[str, Callable[[float], Any]] = {
    "seconds": lambda seconds: 1_700_000_000 + seconds,
    "milliseconds": lambda seconds: round(1000 * (1_700_000_000 + seconds)),
    "text": lambda seconds: (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat(sep=" "),
}


@pytest.mark.parametrize("form", FORMS)
def test_equal_times_and_late_commits_are_found_within_the_overlap(form: str) -> None:
    time_of = FORMS[form]
    with sqlite3.connect(":memory:", isolation_level=None) as connection:
        connection.execute("CREATE TABLE products (id, at)")

        def write(key: str, seconds: float) -> None:
            connection.execute("DELETE FROM products WHERE id = ?", (key,))
            connection.execute("INSERT INTO products VALUES (?, ?)", (key, time_of(seconds)))

        write("old", 0)
        changes = SqlChanges(lambda: connection, "products", key="id", changed="at", overlap="10s")
        assert changes.poll() == []
        write("a", 5)
        assert changes.poll() == ["a"]
        write("b", 5)  # the same time, committed later
        write("c", 1)  # a transaction that began four seconds earlier
        assert sorted(changes.poll()) == ["b", "c"]
        write("a", 20)
        assert changes.poll() == ["a"]
        write("missed", 9)  # committed later than the overlap permits
        connection.execute("INSERT INTO products VALUES ('never changed', NULL)")
        assert changes.poll() == []
    connection.close()


def test_a_table_that_cannot_be_polled_is_an_error_at_the_start_and_a_warning_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "shop.db", check_same_thread=False)

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        SqlChanges(connect, "products", key="id", changed="at").start(print)
    owner = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    owner.execute("CREATE TABLE products (id, at)")
    told: list[str] = []
    with SqlChanges(connect, "products", key="id", changed="at", every="20ms").start(told.append):
        owner.execute("ALTER TABLE products RENAME TO away")
        assert eventually(lambda: "changes cannot be read: OperationalError" in caplog.text)
        owner.execute("ALTER TABLE away RENAME TO products")
        owner.execute("INSERT INTO products VALUES ('pen', 1700000000)")
        assert eventually(lambda: told == ["pen"])
    owner.close()
