"""What a person on call is told: numbers of queries, views, sources and streams, once and as they change."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import eventually
from serving import POSTS, REACH, TOPICS, Client, E, configured, posts, served

from freshkeeper.maintenance.serve.service_status import Track

BLOG = f"{E}blog"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with served(configured(tmp_path)) as client:
        client.register("reach", REACH)
        client.register("topics", TOPICS)
        client.push(posts(500, 1500, 2500))
        assert eventually(lambda: noted(client) == [2000, 2000, 2000]), "what is out is noted a moment later"
        yield client


def noted(client: Client) -> list[int | None]:
    """The last evaluation that the queries' and the view's history has."""
    told = client.get("/status", params={"history": 1}).json()
    return [max(one["history"]["t"], default=None) for one in [*told["queries"], *told["views"]]]


def test_a_track_keeps_the_last_rows_alone() -> None:
    track = Track(["t", "n"], capacity=3)
    for n in range(5):
        track.add({"t": n, "n": n * n})
    assert track.columns(9) == {"t": [2, 3, 4], "n": [4, 9, 16]}
    assert track.columns(2) == {"t": [3, 4], "n": [9, 16]}
    assert track.last(1, "n").tolist() == [16]


def test_status_tells_how_everything_is(client: Client) -> None:
    told = client.get("/status", params={"history": 2}).json()
    reach, topics = told["queries"]
    assert (reach["name"], reach["state"], reach["answered"], reach["evaluations"]) == ("reach", "running", 2000, 2)
    assert (reach["lag_ms"], reach["views"], topics["views"]) == (500, [0], [])
    assert (reach["last"]["t"], reach["last"]["answers"]) == (2000, 2)
    assert topics["history"]["t"] == [1000, 2000]
    (view,) = told["views"]
    assert (view["source"], view["queries"]) == (BLOG, ["reach"])
    assert view["freshness"] == {
        "over": 2, "believed": 1.0, "audited": None, "interval": None, "checked": 0, "target": None,
    }  # fmt: skip
    assert view["budget"] == {"per_evaluation": 10.0, "bank": 0.0, "shared": False}
    assert view["ledger"]["spent"] == 2.0
    assert view["history"]["t"] == [1000, 2000]
    (stale,) = view["stalest"]
    assert (stale["key"], stale["freshness"], stale["cost"]) == (f"{E}ann", 1.0, 1.0)
    (source,) = told["sources"]
    assert (source["name"], source["kind"], source["spent"]) == (BLOG, "embedded", 2.0)
    (stream,) = told["streams"]
    assert (stream["name"], stream["elements"], stream["watermark"]) == (POSTS, 3, 2500)


def test_a_view_that_is_over_is_told_of_no_more(client: Client) -> None:
    client.post("/queries/reach/pause")
    told = client.get("/status").json()
    assert told["views"] == []
    assert [one["state"] for one in told["queries"]] == ["paused", "running"]
    client.delete("/queries/reach")
    assert [one["name"] for one in client.get("/status").json()["queries"]] == ["topics"]


def test_it_is_told_anew_after_every_evaluation(client: Client) -> None:
    with client.stream("GET", "/status", params={"history": 5}, headers={"Accept": "text/event-stream"}) as response:
        data = (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))
        first = next(data)
        assert first["queries"][0]["history"]["t"] == [1000, 2000]
        client.push(posts(3500))
        later = next(told for told in data if told["queries"][0]["answered"] == 3000)
        assert later["queries"][0]["history"] is None
        assert later["queries"][0]["last"]["t"] == 3000


def test_prometheus_reads_the_same_numbers(client: Client) -> None:
    metrics = client.get("/metrics").text
    assert 'freshkeeper_queries{state="running"} 2.0' in metrics
    assert f'freshkeeper_elements_total{{stream="{POSTS}"}} 3.0' in metrics
    assert 'freshkeeper_lag_seconds{query="reach"} 0.5' in metrics
    assert "freshkeeper_waiting_bytes 0.0" in metrics
