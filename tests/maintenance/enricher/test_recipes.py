"""The recipes of docs/recipes.md, run as they are written: against PostgreSQL, a REST service and a file."""

import asyncio
import csv
import importlib.util
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from databases import postgres
from servers import HERE

TEXT = (Path(__file__).parents[3] / "docs" / "recipes.md").read_text()
RECIPES = dict(re.findall(r"^```python file=(\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


def written(place: Path, name: str) -> Path:
    path = place / name
    path.write_text(RECIPES[name])
    return path


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_has_at_most_25_lines_of_code(name: str) -> None:
    lines = [line for line in RECIPES[name].splitlines() if line.strip()]
    assert len(lines) <= 25, len(lines)


@pytest.mark.slow
def test_a_stream_and_a_table_in_postgresql(tmp_path: Path) -> None:
    import psycopg

    with postgres(tmp_path) as address:
        with psycopg.connect(address, autocommit=True) as owner:
            owner.execute("CREATE TABLE products (id text PRIMARY KEY, name text, price int)")
            owner.execute("INSERT INTO products VALUES ('p1', 'pen', 2), ('p2', 'ink', 7)")
        sales = "".join(json.dumps({"product_id": f"p{n % 3 + 1}", "n": n}) + "\n" for n in range(30))
        done = subprocess.run(
            [sys.executable, str(written(tmp_path, "sales.py"))], input=sales, capture_output=True, text=True,
            timeout=120, env={**os.environ, "DATABASE": address}, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["n"] for each in told] == list(range(30))
    assert [each["product"] and each["product"]["price"] for each in told[:3]] == [2, 7, None]
    assert all(each["freshness"] > 0 for each in told)


class _Products(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        names = parse_qs(urlsplit(self.path).query)["ids"][0].split(",")
        body = json.dumps([{"id": name, "price": 2} for name in names if name == "pen"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.mark.slow
def test_a_service_over_a_rest_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    server = ThreadingHTTPServer((HERE, 0), _Products)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        monkeypatch.setenv("PRODUCTS", f"http://{HERE}:{server.server_port}/products")
        spec = importlib.util.spec_from_file_location("recipe_service", written(tmp_path, "service.py"))
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        assert spec.loader is not None
        spec.loader.exec_module(module)

        async def main() -> None:
            transport = httpx.ASGITransport(app=module.app)
            async with (
                module.lifespan(module.app),
                httpx.AsyncClient(transport=transport, base_url="http://t") as client,
            ):
                first, second = [(await client.get("/price/pen")).json() for _ in range(2)]
                assert (first["price"], second["price"]) == (2, 2)
                assert second["age_s"] >= 0
                assert (await client.get("/price/ink")).status_code == 404

        asyncio.run(main())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_a_table_in_a_batch(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "products.sqlite") as connection:
        connection.execute("CREATE TABLE products (id TEXT PRIMARY KEY, name TEXT, price INT)")
        connection.executemany("INSERT INTO products VALUES (?, ?, ?)", [(f"p{n}", f"name {n}", n) for n in range(50)])
    connection.close()
    (tmp_path / "sales.csv").write_text("product_id,n\n" + "".join(f"p{n % 50},{n}\n" for n in range(200)))
    done = subprocess.run(
        [sys.executable, str(written(tmp_path, "batch.py"))], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "enriched.csv").read_text().splitlines()))
    assert len(rows) == 200
    assert all(int(row["price"]) == int(row["n"]) % 50 for row in rows)
