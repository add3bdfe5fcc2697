"""A query that takes all time or memory is stopped and left alone; queries beside it, and the service, go on."""

import signal
import threading
import time
from pathlib import Path

import pytest
from servers import eventually
from serving import POSTS, TOPICS, Client, E, configured, posts, served, serving

from freshkeeper.maintenance.serve.watchdog import TookTooLongError, Watchdog

WINDOW = "FROM NAMED WINDOW :w ON :posts [RANGE PT2S STEP PT1S]"
HEAD = f"PREFIX : <{E}> REGISTER RSTREAM :q AS SELECT"
FOUR_TIMES_60 = " ".join(f"VALUES ?{name} {{ {' '.join(map(str, range(60)))} }}" for name in "abcd")
LONG_TEXT = '"aaaaaaaaaa"'
for _ in range(5):
    LONG_TEXT = f'REPLACE({LONG_TEXT}, "a", "{"a" * 32}")'

OPTIONAL = "?p :topic ?t OPTIONAL { ?t ?q ?r }"
HOSTILE = {
    "product": f"{HEAD} ?a ?b ?c {WINDOW} {{ WINDOW :w {{ ?a :topic ?x . ?b :topic ?y . ?c :topic ?z }} }}",
    "rows": f"{HEAD} * {WINDOW} {{ WINDOW :w {{ ?p :topic ?t }} {FOUR_TIMES_60} }}",
    "aggregate": f"{HEAD} (COUNT(*) AS ?n) {WINDOW} {{ WINDOW :w {{ ?p :topic ?t }} {FOUR_TIMES_60} }}",
    "snapshot": f"{HEAD} (COUNT(*) AS ?n) {WINDOW} {{ WINDOW :w {{ {OPTIONAL} }} {FOUR_TIMES_60} }}",
    "text": f"{HEAD} ({LONG_TEXT} AS ?x) {WINDOW} {{ WINDOW :w {{ ?p :topic ?t }} }}",
}


def thousand(t: int) -> str:
    return "".join(f"{t}\t<{E}p{n}> <{E}topic> <{E}t{n % 7}> .\n" for n in range(1000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_query_stops_no_other(tmp_path: Path, kind: str) -> None:
    with served(configured(tmp_path, limit="1s")) as client:
        assert client.register("hostile", HOSTILE[kind]).status_code == 201
        client.register("topics", TOPICS)
        client.push(thousand(500) + posts(1500, 2500))
        assert eventually(lambda: client.answered("topics") == 2000, within=20)
        assert eventually(lambda: client.get("/queries/hostile").json()["state"] == "failed", within=20)
        failure = client.get("/queries/hostile").json()["failure"]
        assert "it is tried again after 60 s" in failure
        assert client.get("/readyz").json()["failed"] == {"hostile": failure}
        assert client.delete("/queries/hostile").status_code == 204
        client.push(posts(3500))
        assert eventually(lambda: client.answered("topics") == 3000)
        assert client.get("/readyz").status_code == 200


def test_a_query_that_failed_is_tried_again_later_each_time(tmp_path: Path) -> None:
    with served(configured(tmp_path, limit="200ms")) as client:
        service = client.context.service
        now = [0.0]
        service.clock = lambda: now[0]
        client.register("hostile", HOSTILE["rows"])
        client.push(posts(500, 1500))
        assert eventually(lambda: "after 60 s" in client.get("/queries/hostile").json().get("failure", ""))
        now[0] = 61.0
        times = iter(range(2500, 10_000_000, 1000))

        def fails_again() -> bool:
            client.push(posts(next(times)))
            return "after 120 s" in client.get("/queries/hostile").json().get("failure", "")

        assert eventually(fails_again)


def test_an_element_a_day_ahead_does_not_make_86400_evaluations(tmp_path: Path) -> None:
    day = 86_400_000
    with served(configured(tmp_path)) as client:
        client.register("topics", TOPICS)
        client.register("minutes", TOPICS.replace("PT1S", "PT3S"))
        began = time.monotonic()
        client.push(posts(500, 1500, day + 500, day + 1500))
        assert eventually(lambda: client.answered("topics") == day + 1000, within=5)
        assert time.monotonic() - began < 5
        answers = (tmp_path / "state" / "answers" / "topics.ndjson").read_text().splitlines()
        assert len(answers) < 50
        with client.stream("GET", "/queries/topics/answers?after=0") as response:
            found = [line for _, line in zip(answers, response.iter_lines(), strict=False)]
        assert f'"t": {day + 1000},' in found[-1]
        assert found[-1].count('"bindings"') == 1


@pytest.mark.slow
def test_sigterm_ends_a_service_within_ten_seconds_whatever_it_evaluates(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(f"streams: [{POSTS}]\nlisten: 127.0.0.1:0\nlimit: 10m\n")
    process, url = serving(tmp_path / "serve.yaml")
    with Client(base_url=url, timeout=60) as client:
        client.register("hostile", HOSTILE["rows"])
        client.push(posts(500, 1500))
        assert eventually(lambda: "hostile" in client.get("/readyz").text or (tmp_path / "state" / "suspect").exists())
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert time.monotonic() - began < 10
        assert process.returncode in (0, 75)


@pytest.mark.slow
def test_a_query_whose_evaluation_the_process_did_not_survive_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(f"streams: [{POSTS}]\nlisten: 127.0.0.1:0\nlimit: 10m\n")
    process, url = serving(tmp_path / "serve.yaml")
    with Client(base_url=url, timeout=60) as client:
        client.register("topics", TOPICS)
        client.register("hostile", HOSTILE["rows"])
        client.push(posts(500, 1500))
        is_suspect = eventually((tmp_path / "state" / "suspect").exists, within=30)
    process.kill()
    process.communicate()
    assert is_suspect
    process, url = serving(tmp_path / "serve.yaml")
    try:
        with Client(base_url=url, timeout=60) as client:
            told = client.get("/queries/hostile").json()
            assert told["state"] == "failed"
            assert "did not survive its evaluation" in told["failure"]
            client.push(posts(2500))
            assert eventually(lambda: client.answered("topics") == 2000)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_the_watchdog_interrupts_its_thread_and_nothing_after_it() -> None:
    watchdog = Watchdog(limit_ms=50)
    watchdog.start()
    found: list[str] = []

    def work() -> None:
        for _ in range(3):
            try:
                with watchdog.watching("q"):
                    while True:
                        sum(range(1000))
            except TookTooLongError as error:
                found.append(str(error))
            sum(range(1_000_000))
        found.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    watchdog.stop()
    assert [one.partition(";")[0] for one in found] == ["an evaluation took longer than PT0.05S"] * 3 + ["done"]
