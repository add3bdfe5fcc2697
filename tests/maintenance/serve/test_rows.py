"""Rows by key over HTTP: one budget for all clients, as the source counts."""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers import Documents
from serving import Client, configured, served

from freshkeeper import RemoteEnricher
from freshkeeper.maintenance.base.errors import ConfigError, InputError

PRODUCTS = {f"/products/{n}": {"name": f"product {n}", "price": n / 4} for n in range(300)}


@pytest.fixture
def site() -> Iterator[Documents]:
    documents = Documents(PRODUCTS)
    yield documents
    documents.stop()


def rows_of(site: Documents, **more: object) -> Mapping[str, object]:
    return {"products": {"http": f"{site.url}/products/{{key}}", "budget": "1000/s", **more}}


@pytest.fixture
def client(site: Documents, tmp_path: Path) -> Iterator[Client]:
    with served(configured(tmp_path, rows=rows_of(site))) as client:
        yield client


def test_a_row_is_fetched_once_and_has_age_and_etag(client: Client, site: Documents) -> None:
    first = client.get("/rows/products/7")
    told = first.json()
    assert told["value"] == {"name": "product 7", "price": 1.75}
    assert (told["key"], told["hit"], told["error"]) == ("7", False, None)
    assert told["freshness"] > 0.9
    assert told["age_ms"] < 1000
    again = client.get("/rows/products/7", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["age"]) == (304, b"", "0")
    assert len(site.asked) == 1


def test_a_key_without_a_row_is_404_and_remembered(client: Client, site: Documents) -> None:
    for _ in range(2):
        response = client.get("/rows/products/nothing")
        assert (response.status_code, response.json()["detail"]) == (404, "the source has no row for 'nothing'")
    assert len(site.asked) == 1


def test_many_rows_as_a_document_or_as_lines(client: Client) -> None:
    told = client.post("/rows/products", json={"keys": ["1", "2", "x"]}).json()["rows"]
    assert [one["value"] and one["value"]["name"] for one in told] == ["product 1", "product 2", None]
    lines = {"Content-Type": "application/x-ndjson", "Accept": "application/x-ndjson"}
    response = client.post("/rows/products", content='"1"\n"3"\n', headers=lines)
    assert [json.loads(line)["value"]["name"] for line in response.text.splitlines()] == ["product 1", "product 3"]


def test_rows_are_put_invalidated_hinted_and_forgotten(client: Client, site: Documents) -> None:
    assert client.put("/rows/products/7", json={"name": "mine"}).status_code == 204
    assert client.get("/rows/products/7").json()["value"] == {"name": "mine"}
    assert client.post("/rows/products/hints", json={"keys": ["7"]}).status_code == 204
    assert client.post("/rows/products/invalidate", json={"keys": ["7"]}).status_code == 204
    assert client.get("/rows/products/7").json()["value"]["name"] == "product 7"
    assert client.delete("/rows/products/7").status_code == 204
    assert client.get("/rows").json()["rows"]["products"]["rows"] == 0


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "said"),
    [
        ("GET", "/rows/produkts/7", {}, 404, "there is no rows 'produkts'; did you mean 'products'?"),
        ("GET", "/rows/products/7?max_age=soon", {}, 400, "max_age='soon'"),
        ("GET", "/rows/products/7?min_freshness=2", {}, 400, "min_freshness=2.0"),
        ("POST", "/rows/products", {"json": {"keys": []}}, 400, "there are no keys"),
        ("POST", "/rows/products", {"json": {"key": ["1"]}}, 400, "keys is missing"),
        ("POST", "/rows/products", {"content": "{"}, 400, "this is no JSON"),
        ("PUT", "/rows/products/7", {"content": "nonsense"}, 400, "this is no JSON"),
    ],
)
def test_what_is_wrong_is_told(
    client: Client, method: str, path: str, more: Mapping[str, Any], status: int, said: str
) -> None:
    response = client.request(method, path, **more)
    assert response.status_code == status
    assert said in response.json()["detail"]


def test_all_clients_share_one_budget_as_the_source_counts(site: Documents, tmp_path: Path) -> None:
    rows = rows_of(site, budget="50/s", bank="1s", max_wait="10s")
    with served(configured(tmp_path, rows=rows)) as client:
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: client.get(f"/rows/products/{n}").status_code, range(120)))
        took_s = time.monotonic() - began
    assert found == [200] * 120
    assert len(site.asked) <= 50 + 50 * took_s
    assert took_s > 1


def test_a_service_that_starts_again_has_its_rows(site: Documents, tmp_path: Path) -> None:
    config = configured(tmp_path, rows=rows_of(site))
    for _ in range(2):
        with served(config) as client:
            assert client.get("/rows/products/7").json()["value"]["name"] == "product 7"
    assert len(site.asked) == 1


def test_rows_of_a_database_by_whole_numbers(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.executescript("CREATE TABLE users (id INTEGER, name TEXT); INSERT INTO users VALUES (5, 'ann')")
    users = {
        "sql": f"sqlite:///{tmp_path}/shop.db", "query": "SELECT id, name FROM users WHERE id IN {keys}",
        "budget": "100/s", "batch": 100, "key": "integer",
    }  # fmt: skip
    with served(configured(tmp_path, rows={"users": users})) as client:
        assert client.get("/rows/users/5").json()["value"] == {"id": 5, "name": "ann"}
        refused = client.get("/rows/users/five")
        assert (refused.status_code, refused.json()["detail"]) == (400, "'five' is no key: keys are whole numbers")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"budget": "5/s"}, "give one of http, sql, redis"),
        ({"http": "http://x/{key}"}, "budget is missing"),
        ({"http": "http://x/{key}", "budget": "fast"}, "is no rate"),
        ({"http": "http://x/", "budget": "5/s"}, "the address needs {key}"),
        ({"sql": "sqlite://", "budget": "5/s"}, "sql and query are given together"),
    ],
)
def test_a_wrong_config_is_refused_before_anything_listens(tmp_path: Path, config: object, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        configured(tmp_path, rows={"products": config})
    assert said in str(refused.value)


@pytest.fixture
def remote(client: Client) -> Iterator["RemoteEnricher[str, Any]"]:
    with RemoteEnricher[str, Any](str(client.base_url), "products") as enricher:
        yield enricher


def test_a_remote_enricher_has_the_calls_of_an_enricher(remote: "RemoteEnricher[str, Any]") -> None:
    assert remote.get("7").value["name"] == "product 7"
    assert remote.get("7", max_age="1h", min_freshness=0.5, max_wait=1).hit
    assert remote.get("nothing").value is None
    assert remote.get("nothing").age == 0.0
    assert [row.value["name"] for row in remote.get_many(["1", "7"])] == ["product 1", "product 7"]
    remote.put("7", {"name": "mine"})
    assert remote.get("7").value == {"name": "mine"}
    remote.may_have_changed("7")
    remote.invalidate("7")
    assert remote.get("7").value["name"] == "product 7"
    remote.forget("7")
    assert remote.stats()["rows"] == 2
    with (
        RemoteEnricher[str, Any](remote.url, "produkts") as misspelt,
        pytest.raises(InputError, match="there is no rows 'produkts'"),
    ):
        misspelt.forget("7")


def test_a_service_that_is_away_makes_rows_with_an_error() -> None:
    with RemoteEnricher[str, Any]("http://127.0.0.1:9", "products") as enricher:
        row = enricher.get("7")
    assert row.age is None
    assert row.error is not None


def test_metrics_name_the_rows(client: Client) -> None:
    client.get("/rows/products/7")
    text = client.get("/metrics").text
    assert 'freshkeeper_rows_misses_total{rows="products"} 1.0' in text
    assert 'freshkeeper_rows_rows{rows="products"} 1.0' in text
