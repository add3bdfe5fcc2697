"""Lookups against real servers: what they find, what is new at the next look, what they say when it fails."""

import asyncio
import json
import pickle
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pandas
import polars
import pyarrow
import pytest
import sqlalchemy
from databases import postgres, redis_server
from servers import HERE, Oxigraph

from freshkeeper import (
    AsyncEnricher,
    Enricher,
    HttpLookup,
    RedisLookup,
    Row,
    SparqlLookup,
    SqlLookup,
    enrich_table,
)
from freshkeeper.maintenance.base.errors import ConfigError, InputError

PRODUCTS = [("pen", 2), ("ink", 7)]
QUERY = "SELECT id, price FROM products WHERE id IN {keys}"


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    """A file with two products."""
    path = tmp_path / "products.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE products (id TEXT PRIMARY KEY, price INTEGER, seen INTEGER DEFAULT 5000)")
        connection.executemany("INSERT INTO products (id, price) VALUES (?, ?)", PRODUCTS)
    connection.close()
    return path


def nothing() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


def change(path: Path, price: int) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE products SET price = ?", (price,))
    connection.close()


def test_sqlite_by_its_driver_sees_what_is_there_now(sqlite: Path) -> None:
    lookup = SqlLookup(lambda: sqlite3.connect(sqlite), QUERY)
    assert lookup(["pen", "ink", "nobody"]) == {"pen": {"id": "pen", "price": 2}, "ink": {"id": "ink", "price": 7}}
    change(sqlite, 9)
    assert lookup(["pen"]) == {"pen": {"id": "pen", "price": 9}}
    lookup._connection().close()


def test_sqlite_by_sqlalchemy_is_the_same(sqlite: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{sqlite}")
    lookup = SqlLookup(engine, QUERY)
    assert lookup(["pen", "nobody"]) == {"pen": {"id": "pen", "price": 2}}
    change(sqlite, 9)
    assert lookup(["pen"])["pen"]["price"] == 9
    engine.dispose()


def test_an_enricher_of_a_table_uses_a_connection_in_each_thread(sqlite: Path) -> None:
    made = []

    def connect() -> Connection:
        made.append((threading.get_ident(), connection := sqlite3.connect(sqlite, check_same_thread=False)))
        return connection

    with Enricher(SqlLookup(connect, QUERY), "100/s", batch=10) as enricher:
        assert [row.value["price"] for row in enricher.get_many(["pen", "ink"])] == [2, 7]
    assert threading.get_ident() not in {thread for thread, _ in made}
    for _, connection in made:
        connection.close()


def test_a_column_may_say_when_a_row_changed_and_a_key_may_have_several(sqlite: Path) -> None:
    lookup = SqlLookup(lambda: sqlite3.connect(sqlite), QUERY.replace("price", "price, seen"), modified="seen")
    assert lookup(["pen"]) == {"pen": Row({"id": "pen", "price": 2, "seen": 5000}, modified=5000)}
    several = SqlLookup(
        lambda: sqlite3.connect(sqlite), "SELECT id, price FROM products WHERE seen IN {keys}", many=True
    )
    assert several(["5000"]) == {"pen": [{"id": "pen", "price": 2}], "ink": [{"id": "ink", "price": 7}]}
    by_column = SqlLookup(
        lambda: sqlite3.connect(sqlite), "SELECT price, id FROM products WHERE id IN {keys}", key="id"
    )
    assert by_column(["ink"]) == {"ink": {"price": 7, "id": "ink"}}
    for each in (lookup, several, by_column):
        each._connection().close()


def test_after_an_error_the_next_look_up_connects_anew(sqlite: Path) -> None:
    made = []

    def connect() -> Connection:
        made.append(sqlite3.connect(sqlite))
        return made[-1]

    lookup = SqlLookup(connect, QUERY)
    assert lookup(["pen"])
    made[0].close()
    with pytest.raises(sqlite3.ProgrammingError):
        lookup(["pen"])
    assert lookup(["pen"])["pen"]["price"] == 2
    made[1].close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"query": "SELECT 1"}, "the query needs {keys} once, as in WHERE id IN {keys}"),
        ({"query": QUERY, "many": True, "modified": "seen"}, "modified is a column of one row"),
    ],
)
def test_a_query_that_cannot_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        SqlLookup(lambda: sqlite3.connect(":memory:"), **arguments)
    assert said in str(error.value)


def test_a_column_that_is_not_there_is_named(sqlite: Path) -> None:
    lookup = SqlLookup(lambda: sqlite3.connect(sqlite), QUERY, key="sku")
    with pytest.raises(ConfigError, match="the query has no column 'sku'; it has id, price"):
        lookup(["pen"])
    lookup._connection().close()


@pytest.mark.slow
def test_postgresql_by_its_driver_and_by_sqlalchemy(tmp_path: Path) -> None:
    import psycopg

    with postgres(tmp_path) as address, psycopg.connect(address, autocommit=True) as owner:
        owner.execute("CREATE TABLE products (id text PRIMARY KEY, price int, changed timestamptz DEFAULT now())")
        owner.execute("INSERT INTO products VALUES ('pen', 2), ('ink', 7)")
        engine = sqlalchemy.create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
        held = []

        def connect() -> psycopg.Connection[object]:
            held.append(psycopg.connect(address))
            return held[-1]

        for lookup in (SqlLookup(connect, QUERY), SqlLookup(engine, QUERY)):
            owner.execute("UPDATE products SET price = 2 WHERE id = 'pen'")
            assert lookup(["pen", "nobody"]) == {"pen": {"id": "pen", "price": 2}}
            owner.execute("UPDATE products SET price = 3 WHERE id = 'pen'")
            assert lookup(["pen"])["pen"]["price"] == 3
        dated = SqlLookup(connect, QUERY.replace("price", "price, changed"), modified="changed")
        assert dated(["pen"])["pen"].modified.year >= 2026
        with Enricher(SqlLookup(engine, QUERY), "50/s", batch=10) as enricher:
            assert [row.value["price"] for row in enricher.get_many(["pen", "ink"])] == [3, 7]
        engine.dispose()
        for connection in held:
            connection.close()
        with pytest.raises(ConfigError, match="connect returns a coroutine: say SqlLookup"):
            SqlLookup(lambda: psycopg.AsyncConnection.connect(address), QUERY)(["pen"])
        asyncio.run(awaited_from_postgresql(address))


async def awaited_from_postgresql(address: str) -> None:
    """Ten readers, through the driver's own coroutines and through SQLAlchemy's, and no thread of ours."""
    import psycopg
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    for lookup in (SqlLookup(partial(psycopg.AsyncConnection.connect, address), QUERY), SqlLookup(engine, QUERY)):
        before = threading.active_count()
        async with AsyncEnricher(lookup, "500/s", max_wait=20) as enricher:
            rows = await asyncio.gather(*(enricher.get(key) for key in ["pen", "ink", "nobody"] * 3))
            assert [row.value and row.value["price"] for row in rows[:3]] == [3, 7, None]
            assert threading.active_count() == before
            enricher.invalidate("pen")
            assert (await enricher.get("pen")).value["price"] == 3
    await engine.dispose()
    broken = SqlLookup(partial(psycopg.AsyncConnection.connect, address), "SELECT nothing FROM here WHERE id IN {keys}")
    async with AsyncEnricher(broken, "50/s") as enricher:
        assert 'relation "here" does not exist' in str((await enricher.get("pen")).error)


@pytest.mark.slow
def test_redis_has_strings_and_hashes_for_threads_and_for_asyncio(tmp_path: Path) -> None:
    import redis
    import redis.asyncio

    with redis_server(tmp_path) as port:
        client = redis.Redis(host=HERE, port=port)
        client.set("product:pen", json.dumps({"price": 2}))
        client.hset("stock:pen", mapping={"left": "12"})
        strings = RedisLookup(client, "product:{key}")
        assert strings(["pen", "nobody"]) == {"pen": {"price": 2}}
        assert RedisLookup(client, "stock:{key}", hashes=True)(["pen", "nobody"]) == {"pen": {"left": "12"}}
        with Enricher(strings, "50/s", batch=10) as enricher:
            assert enricher.get("pen").value == {"price": 2}
        client.close()

        async def main() -> object:
            client = redis.asyncio.Redis(host=HERE, port=port)
            async with AsyncEnricher(RedisLookup(client, "stock:{key}", hashes=True), "50/s", batch=10) as enricher:
                row = await enricher.get("pen")
            await client.aclose()
            return row.value

        assert asyncio.run(main()) == {"left": "12"}


class _Products(BaseHTTPRequestHandler):
    prices: dict[str, int] = {"pen": 2, "a/b c": 7}  # noqa: RUF012

    def do_GET(self) -> None:
        from urllib.parse import unquote

        name = unquote(self.path.removeprefix("/products/"))
        if self.path.startswith("/products?ids="):
            names = unquote(self.path.partition("=")[2]).split(",")
            return self.reply(200, [{"id": each, "price": self.prices[each]} for each in names if each in self.prices])
        if name == "broken":
            return self.reply(503, {})
        return self.reply(200 if name in self.prices else 404, {"price": self.prices.get(name)})

    def reply(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "max-age=60")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def shop() -> Iterator[str]:
    """A REST service with two products."""
    server = ThreadingHTTPServer((HERE, 0), _Products)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://{HERE}:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_http_has_a_document_to_each_key_with_its_validity(shop: str) -> None:
    lookup = HttpLookup(f"{shop}/products/{{key}}", wall=lambda: 1_000.0)
    found = lookup(["a/b c"])["a/b c"]
    assert (found.value, found.expires) == ({"price": 7}, 1_060_000)
    assert lookup(["nobody"]) == {}
    with pytest.raises(ConfigError, match="the document of one key, not of 2: leave batch at 1"):
        lookup(["pen", "ink"])
    lookup.close()


def test_http_may_have_many_keys_to_a_request(shop: str) -> None:
    lookup = HttpLookup(f"{shop}/products?ids={{keys}}", rows=lambda found: {each["id"]: each for each in found})
    with Enricher(lookup, "20/s", batch=10) as enricher:
        rows = enricher.get_many(["pen", "nobody", "a/b c"])
    assert [row.value and row.value["price"] for row in rows] == [2, None, 7]
    lookup.close()


def test_a_service_that_fails_says_so(shop: str, caplog: pytest.LogCaptureFixture) -> None:
    lookup = HttpLookup(f"{shop}/products/{{key}}")
    with Enricher(lookup, "20/s") as enricher:
        assert "503" in str(enricher.get("broken").error)
    lookup.close()
    assert "503" in caplog.text


def test_http_does_not_hold_up_an_event_loop() -> None:
    asked, loop_runs = threading.Semaphore(0), threading.Event()

    class Patient(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.release()
            body = b"2" if loop_runs.wait(10) else b"null"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said: object) -> None: ...

    async def main() -> list[object]:
        lookup = HttpLookup(f"http://{HERE}:{server.server_port}/{{key}}")
        async with AsyncEnricher(lookup, "50/s") as enricher:
            work = asyncio.create_task(enricher.get_many("abcd"))
            for _ in range(4):  # all of them are under way before one is answered
                while not asked.acquire(blocking=False):
                    await asyncio.sleep(0.001)
            loop_runs.set()
            return [row.value for row in await work]

    server = ThreadingHTTPServer((HERE, 0), Patient)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert asyncio.run(main()) == [2] * 4
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("url", "said"), [("http://x/products", "needs {key} or {keys}"), ("http://x/?ids={keys}", "rows=... is needed")]
)
def test_an_address_that_cannot_be_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        HttpLookup(url)
    assert said in str(error.value)


@pytest.mark.slow
def test_sparql_has_solutions_by_key() -> None:
    server = Oxigraph("@prefix : <http://example.org/> . :ann :followers 10 ; :name 'Ann' . :bob :followers 20 .")
    try:
        lookup = SparqlLookup(
            server.url,
            "PREFIX : <http://example.org/> SELECT ?key ?n ?name "
            "{ VALUES ?key {keys} ?key :followers ?n OPTIONAL { ?key :name ?name } }",
        )
        keys = [f"http://example.org/{name}" for name in ("ann", "bob", "cyd")]
        assert lookup(keys) == {keys[0]: {"n": 10, "name": "Ann"}, keys[1]: {"n": 20}}
        with Enricher(lookup, "20/s", batch=10) as enricher:
            assert enricher.get(keys[1]).value == {"n": 20}
        lookup.close()
    finally:
        server.stop()


def test_what_is_no_iri_does_not_get_into_a_query() -> None:
    from freshkeeper import Source

    lookup = SparqlLookup(
        Source.embedded("<urn:a> <urn:b> 1 ."), "SELECT ?key ?n { VALUES ?key {keys} ?key <urn:b> ?n }"
    )
    assert lookup(["urn:a"]) == {"urn:a": {"n": 1}}
    with pytest.raises(ValueError, match="IRI"):
        lookup(["urn:a> <urn:x"])


def test_lookups_are_pickled_without_their_connections(shop: str) -> None:
    http = pickle.loads(pickle.dumps(HttpLookup(f"{shop}/products/{{key}}")))
    assert http(["pen"])["pen"].value == {"price": 2}
    http.close()
    assert pickle.loads(pickle.dumps(SqlLookup(nothing, QUERY))).query == QUERY


@pytest.mark.parametrize("kind", [pandas.DataFrame, pyarrow.table, polars.DataFrame])
def test_tables_come_out_as_they_went_in_with_the_columns_of_their_rows(
    kind: Callable[[Mapping[str, Sequence[object]]], Any],
) -> None:
    table = kind({"product": ["pen", "ink", None, "nobody"], "n": [1, 2, 3, 4]})
    prices = {"pen": {"price": 2.5, "unit": "piece"}, "ink": {"price": 7.0}}
    with Enricher(lambda keys: {key: prices[key] for key in keys if key in prices}, "20/s", batch=10) as enricher:
        found = enrich_table(enricher, table, "product")
        assert type(found) is type(table)
        told = found.to_pydict() if kind is pyarrow.table else {name: list(found[name]) for name in found.columns}
        assert told["price"][:2] == [2.5, 7.0]
        assert told["unit"][0] == "piece"
        assert told["freshness"] == pytest.approx([1.0, 1.0, 0.0, 1.0], abs=1e-3)
        with pytest.raises(InputError, match="has a column 'price' already"):
            enrich_table(enricher, found, "product", freshness="again")
        with pytest.raises(InputError, match="no column 'sku'; it has product, n"):
            enrich_table(enricher, table, "sku")


def test_what_is_no_table_or_has_no_columns_is_said() -> None:
    with Enricher(lambda keys: dict.fromkeys(keys, 1), "20/s", background=False) as enricher:
        with pytest.raises(InputError, match="list is no table of pandas, pyarrow or polars"):
            enrich_table(enricher, ["pen"], "product")
        with pytest.raises(InputError, match="rows of a table are dicts of columns, and the lookup returned 1"):
            enrich_table(enricher, pyarrow.table({"product": ["pen"]}), "product")
