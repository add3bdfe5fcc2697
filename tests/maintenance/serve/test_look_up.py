"""The look-up context, sources, audits and the journal, over a service that has answered."""

import io
import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from pyarrow import parquet
from pyoxigraph import Literal, NamedNode
from servers import eventually
from serving import REACH, Client, E, configured, posts, served

from freshkeeper.maintenance.serve.look_up import Layout, key_text, keys_of

BLOG = f"{E}blog"
XSD = "http://www.w3.org/2001/XMLSchema#"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with served(configured(tmp_path, audit=0.5, journal=str(tmp_path / "journal"))) as client:
        client.register("reach", REACH)
        client.push(posts(500, 1500, 2500))
        assert eventually(lambda: client.answered("reach") == 2000)
        yield client


@pytest.mark.parametrize("address", [f"{BLOG}/{E}jazz", f"{BLOG}/{E}jazz".replace("/", "%2F").replace(":", "%3A")])
def test_a_lookup_key_has_the_rows_of_its_entries(client: Client, address: str) -> None:
    response = client.get(f"/views/{address}")
    told = response.json()
    assert (told["source"], told["key"]) == (BLOG, f"{E}jazz")
    ((view,), (entry,)) = told["views"], told["views"][0]["entries"]
    assert view["queries"] == ["reach"]
    assert (entry["entry"], entry["refreshing"]) == (f"{E}ann", False)
    assert {name: term["value"] for name, term in entry["rows"][0].items()} == {
        "topic": f"{E}jazz", "user": f"{E}ann", "n": "10",
    }  # fmt: skip
    assert 0 <= entry["age_ms"] < 60_000
    assert 0 < entry["freshness"] <= 1
    assert response.headers["age"] == str(entry["age_ms"] // 1000)


def test_a_cached_entry_has_its_own(client: Client) -> None:
    (view,) = client.get(f"/views/{BLOG}/<{E}ann>", params={"query": "reach"}).json()["views"]
    assert [row["n"]["value"] for entry in view["entries"] for row in entry["rows"]] == ["10"]


def test_who_has_the_value_is_told_that_it_is_the_same(client: Client) -> None:
    first = client.get(f"/views/{BLOG}/{E}jazz")
    client.push(posts(3500))
    assert eventually(lambda: client.answered("reach") == 3000)
    again = client.get(f"/views/{BLOG}/{E}jazz", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert "age" in again.headers


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"{BLOG}/{E}polka", f"no view of <{BLOG}> holds {E}polka; a key looks like {E}jazz"),
        (f"{BLOG}/{E}jazz?query=reech", "there is no query 'reech'; did you mean 'reach'?"),
        (f"{BLOG}", f"which key of <{BLOG}>?"),
        ("http://elsewhere/x", f"does not begin with a source and a slash; there are: <{BLOG}>"),
    ],
)
def test_what_is_not_there_is_said(client: Client, address: str, said: str) -> None:
    response = client.get(f"/views/{address}")
    assert response.status_code == 404
    assert said in response.json()["detail"]


def test_a_key_that_waits_to_be_fetched_is_told_apart(tmp_path: Path) -> None:
    with served(configured(tmp_path, budget=0)) as client:
        client.register("reach", REACH)
        client.push(posts(500, 1500))
        assert eventually(lambda: client.answered("reach") == 1000)
        assert "was not fetched" in client.get(f"/views/{BLOG}/{E}jazz").json()["detail"]
        client.delete("/queries/reach")
        assert "no running query has a view" in client.get(f"/views/{BLOG}/{E}jazz").json()["detail"]


def test_what_is_missing_is_fetched_first_when_somebody_looks_it_up(tmp_path: Path) -> None:
    with served(configured(tmp_path, budget=0.5, policy="lru")) as client:
        client.register("reach", REACH)
        client.push(posts(500, topic="jazz") + posts(600, 700, 800, topic="rock"))
        found: list[httpx.Response] = []
        address = f"/views/{BLOG}/{E}jazz"
        client.push(posts(1500, topic="rock"))
        assert eventually(lambda: client.answered("reach") == 1000)
        looking = threading.Thread(target=lambda: found.append(client.post(address, params={"wait": "20s"})))
        looking.start()
        for t in range(2500, 6000, 500):
            client.push(posts(t, topic="rock") + posts(t, topic="jazz"))
            time.sleep(0.05)
        looking.join(30)
        told = found[0].json()
        assert told["fetched"] is True
        assert told["views"][0]["entries"][0]["entry"] == f"{E}ann"
        assert client.post(address, params={"wait": "30ms"}).json()["fetched"] is False
        spent = client.get("/status").json()["views"][0]["ledger"]
        assert spent["spent"] <= spent["paid"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("http://e/a", NamedNode("http://e/a")),
        ("<http://e/a>", NamedNode("http://e/a")),
        ("ann", Literal("ann")),
        ('"a b"@en', Literal("a b", language="en")),
        ("10", Literal("10", datatype=NamedNode(XSD + "integer"))),
        ("1.5", Literal("1.5", datatype=NamedNode(XSD + "decimal"))),
        ("a:b c", Literal("a:b c")),
        ("<not", Literal("<not")),
    ],
)
def test_what_keys_a_text_may_mean(text: str, meant: Literal | NamedNode) -> None:
    assert (meant,) in keys_of(text)


def test_a_key_that_is_told_can_be_asked_for() -> None:
    for key in [(NamedNode("http://e/a"),), (NamedNode("http://e/a"), Literal("b c")), (None, Literal("1"))]:
        assert key in keys_of(key_text(key))


def test_a_copy_is_believed_less_and_less() -> None:
    layout = Layout(1000, 5.0, np.array([0.5, 0.25]), np.array([0.0, math.log(2) / 1000]), math.log(4) / 1000)
    assert layout.instant(7.0) == 3000
    assert layout.probability(0, 500, 9000) == 0.5
    assert layout.probability(1, 500, 2000) == pytest.approx(0.125)
    assert layout.probability(1, 1000, 2000) == pytest.approx(0.5)
    assert layout.probability(1, 1500, 2500) == pytest.approx(0.5)
    assert layout.probability(7, 1500, 2500) == pytest.approx(0.25)


def test_sources_tell_what_they_cost(client: Client) -> None:
    (one,) = client.get("/sources").json()["sources"]
    assert one == client.get(f"/sources/{BLOG}").json()
    assert (one["name"], one["kind"], one["breaker"]) == (BLOG, "embedded", None)
    assert one["spent"] > 0
    assert client.get(f"/sources/{BLOG}s").json()["detail"] == f"there is no source '{BLOG}s'; did you mean '{BLOG}'?"


def test_a_query_is_explained(client: Client) -> None:
    told = client.get("/queries/reach/explain").json()
    assert (told["name"], told["R2S"], told["services"][0]["endpoint"]) == ("reach", "RSTREAM", BLOG)
    assert told["evaluator"]["kind"] == "native"


def test_it_is_told_what_keeps_a_query_from_running_natively(tmp_path: Path) -> None:
    with served(configured(tmp_path, edges="refreshed")) as client:
        client.register("reach", REACH)
        told = client.get("/queries/reach/explain").json()["evaluator"]
        assert (told["kind"], told["reason"]) == ("snapshot", "the service asks for what the other one does")


def test_audits_and_the_journal_can_be_had(client: Client) -> None:
    audits = client.get("/audits", params={"limit": 1000}).json()["audits"]
    assert audits
    assert {"t", "key", "fresh"} <= audits[0].keys()
    tables = client.get("/journal").json()["tables"]
    assert (tables["evaluations"], tables["audits"]) == (2, len(audits))
    rows = [json.loads(line) for line in client.get("/journal/evaluations").text.splitlines()]
    assert [row["t_ms"] for row in rows] == [1000, 2000]
    kept = client.get(
        "/journal/evaluations", params={"after": 1000}, headers={"Accept": "application/vnd.apache.parquet"}
    )
    assert parquet.read_table(io.BytesIO(kept.content))["t_ms"].to_pylist() == [2000]
    assert client.get("/journal/evaluation").json()["detail"].endswith("did you mean 'evaluations'?")


def test_without_a_journal_that_is_said(tmp_path: Path) -> None:
    with served(configured(tmp_path)) as client:
        assert client.get("/journal").status_code == 404
        assert "give journal in its config" in client.get("/journal/answers").json()["detail"]
