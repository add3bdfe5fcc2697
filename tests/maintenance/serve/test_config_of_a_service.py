"""Configs of services: directories, reloading, TLS, what is refused before anything listens."""

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest
from servers import eventually
from serving import POSTS, REACH, TOPICS, Client, E, posts, serving

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.serve.app_context import AppContext
from freshkeeper.maintenance.serve.reloading import Reloading
from freshkeeper.maintenance.serve.security import Guard
from freshkeeper.maintenance.serve.serve_config import ServeConfig, read_config
from freshkeeper.maintenance.serve.server import opened, serve
from freshkeeper.maintenance.serve.warm_up import warm_up

Reloaded: TypeAlias = tuple[Callable[[], tuple[str, dict[str, str]]], AppContext]
MAIN = f"streams: [{POSTS}]\nlisten: 127.0.0.1:0\nsources:\n  {E}blog: {{data: blog.ttl, volatile: '{E}followers'}}\n"
BLOG = f"@prefix : <{E}> . :jazz :discussedBy :ann . :ann :followers 10 ."


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of configs with one query."""
    (tmp_path / "blog.ttl").write_text(BLOG)
    (tmp_path / "main.yaml").write_text(MAIN)
    (tmp_path / "queries.yaml").write_text("queries: {topics: topics.rspql}\n")
    (tmp_path / "topics.rspql").write_text(TOPICS)
    return tmp_path


def test_the_files_of_a_directory_are_one_config(place: Path) -> None:
    (place / "more.yml").write_text(f"streams: {{{E}more: 5s}}\n")
    with pytest.raises(ConfigError, match=r"more.yml: streams stands in another file, too"):
        read_config(place, {})
    (place / "main.yaml").write_text(MAIN.replace(f"[{POSTS}]", f"{{{POSTS}: 0}}"))
    config = read_config(place, {"budget": 3})
    assert {name: one.delay for name, one in config.streams.items()} == {POSTS: 0, f"{E}more": 5000}
    assert (config.queries["topics"].query, config.state, config.budget) == (
        str(place / "topics.rspql"), place / "state", 3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("queries: {topics: {query: topics.rspql, policy: lru}}", "queries.topics: policy is for the queries of a run"),
        ("certificate: a.pem", "certificate and key are given together"),
        (f"weights: {{{E}blog: 2}}", "weights are for a shared budget"),
        ("watch: often", "watch"),
        ("journal_age: 30d", "give its directory as journal"),
        ("journal: there\njournal_largest: 0", "journal_largest"),
        ("strems: []", "did you mean 'streams'?"),
    ],
)
def test_what_a_config_cannot_say(place: Path, more: str, said: str) -> None:
    (place / "wrong.yaml").write_text(more)
    (place / "queries.yaml").unlink()
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        read_config(place, {})


def test_a_directory_without_configs_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no config"):
        read_config(tmp_path, {})


@pytest.fixture
def reloaded(
    place: Path,
) -> Iterator[tuple[Callable[..., tuple[str, dict[str, str]]], AppContext]]:
    """Reads the config again, and gives what is told and the queries that there are."""
    config = read_config(place, {})
    told: list[str] = []
    context = opened(config, Guard(None, None))
    reloading = Reloading(place, {}, config, context, "127.0.0.1", told.append, directory_interval_s=0.1)

    def again() -> tuple[str, dict[str, str]]:
        reloading.read()
        return told[-1], {name: one.text for name, one in context.service.queries.all.items()}

    yield again, context
    reloading.close()
    context.service.close()


def test_queries_of_a_config_come_change_and_go(
    place: Path, reloaded: tuple[Callable[..., tuple[str, dict[str, str]]], AppContext]
) -> None:
    again, context = reloaded
    context.service.register("mine", TOPICS)
    (place / "queries.yaml").write_text("queries: {topics: topics.rspql, reach: reach.rspql}\nlargest_body: 5\n")
    (place / "reach.rspql").write_text(REACH)
    assert again() == ("reloaded; new: reach", {"topics": TOPICS, "mine": TOPICS, "reach": REACH})
    assert context.largest_body == 5
    (place / "reach.rspql").write_text(changed := REACH.replace("PT4S", "PT6S"))
    removed = place / "state" / "removed"
    said, queries = again()
    assert said == f"reloaded; replaced: reach; moved aside: {removed}/reach.2"
    assert queries == {"topics": TOPICS, "mine": TOPICS, "reach": changed}
    assert (removed / "reach.2" / "query.rq").read_text() == REACH
    (place / "queries.yaml").write_text("budget: 99\nqueries: {}\n")
    kept = f"{removed}/topics.0, {removed}/reach.3"
    assert again() == (
        f"reloaded; deleted: topics, reach; moved aside: {kept}; after a restart: budget",
        {"mine": TOPICS},
    )


def test_what_a_reload_deletes_keeps_its_answers(place: Path, reloaded: Reloaded) -> None:
    again, context = reloaded
    context.service.push(POSTS, posts(500, 1500).encode())
    assert eventually(lambda: context.service.queries.progress("topics").answered == 1000)
    (place / "queries.yaml").write_text("queries: {}\n")
    assert again()[1] == {}
    kept = place / "state" / "removed" / "topics.0"
    assert [json.loads(line)["t"] for line in (kept / "topics.ndjson").read_text().splitlines()] == [1000]
    assert not (place / "state" / "answers" / "topics.ndjson").exists()


@pytest.mark.parametrize(("text", "said"), [("", "is empty"), ("budget: 99\n", "there is no key queries any more")])
def test_a_config_that_lost_its_end_deletes_nothing(place: Path, reloaded: Reloaded, text: str, said: str) -> None:
    again, _ = reloaded
    (place / "queries.yaml").write_text(text)
    told, queries = again()
    assert told.startswith("nothing is reloaded: ")
    assert said in told
    assert queries == {"topics": TOPICS}


MORE = f"{E}more"
OF_MORE = TOPICS.replace(":posts", "<" + MORE + ">")
CITY = f"""PREFIX : <{E}> REGISTER RSTREAM :living AS SELECT ?topic ?n
FROM NAMED WINDOW :w ON <{MORE}> [RANGE PT2S STEP PT1S]
{{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :city {{ ?topic :in ?city . ?city :people ?n }} }}"""


def instants(context: AppContext, query: str) -> list[int]:
    """Of its answers so far."""
    text = (context.service.queries.answers.directory / f"{query}.ndjson").read_text()
    return [json.loads(line)["t"] for line in text.splitlines()]


def test_streams_and_sources_that_are_new_are_taken_and_hold_nobody_back(place: Path, reloaded: Reloaded) -> None:
    again, context = reloaded
    service = context.service
    service.push(POSTS, posts(500, 1500, 2500).encode())
    (place / "city.ttl").write_text(f"@prefix : <{E}> . :jazz :in :basel . :basel :people 177 .")
    (place / "more.yaml").write_text("largest_body: 99\n")
    streams = f"{{{POSTS}: 0, {MORE}: 500ms}}"
    sources = f"  {E}city: {{data: city.ttl, volatile: '{E}people'}}\n"
    (place / "main.yaml").write_text(MAIN.replace(f"[{POSTS}]", streams) + sources)
    (place / "queries.yaml").write_text("queries: {topics: topics.rspql, more: more.rspql, city: city.rspql}\n")
    (place / "more.rspql").write_text(OF_MORE)
    (place / "city.rspql").write_text(CITY)
    assert again()[0] == f"reloaded; new streams: {MORE}; new sources: {E}city; new: more, city"
    assert again()[0] == "reloaded"
    service.push(POSTS, posts(3500, 4500).encode())
    assert service.settled() == 4500
    service.push(MORE, posts(4600, 7600).encode())
    service.push(POSTS, posts(7500).encode())
    service.settled()
    assert (instants(context, "topics")[-1], instants(context, "more")[-1]) == (7000, 7000)
    context.service.close()
    once = {name: instants(context, name) for name in ("topics", "more", "city")}
    begun_again = opened(read_config(place, {}), Guard(None, None))
    begun_again.service.push(POSTS, posts(9500).encode())
    begun_again.service.push(MORE, posts(9600).encode())
    begun_again.service.settled()
    begun_again.service.close()
    assert {name: instants(context, name) for name in once} == {
        name: list(range(first[0], 9_001, 1000)) for name, first in once.items()
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (f"streams: {{{MORE}: soon}}", "soon"),
        (f"sources: {{{E}city: {{data: nowhere.ttl}}}}", "nowhere.ttl"),
        (f"queries: {{wrong: 'SELECT * {{ WINDOW <{MORE}> {{ ?s'}}", "queries.wrong"),
    ],
)
def test_a_mistake_beside_new_streams_takes_none(place: Path, reloaded: Reloaded, wrong: str, said: str) -> None:
    again, context = reloaded
    (place / "main.yaml").write_text(MAIN.replace(f"streams: [{POSTS}]\n", "").split("sources:")[0])
    kept = f"streams: {{{POSTS}: 0, {MORE}: 0}}\nsources: {{{E}blog: {{data: blog.ttl, volatile: '{E}followers'}}}}\n"
    key = wrong.partition(":")[0]
    lines = [line for line in kept.splitlines() if not line.startswith(key)]
    (place / "more.yaml").write_text("\n".join([*lines, wrong]) + "\n")
    if key == "queries":
        (place / "queries.yaml").unlink()
    told = again()[0]
    assert told.startswith("nothing is reloaded: ")
    assert said in told
    assert list(context.service.streams) == list(context.service.queries.streams) == list(context.streams) == [POSTS]
    assert list(context.service.queries.sources) == [f"{E}blog"]


def test_a_mistake_leaves_everything_as_it_is(place: Path, reloaded: Reloaded) -> None:
    again, _ = reloaded
    (place / "topics.rspql").write_text("SELECT * { ?s")
    said, queries = again()
    assert said.startswith("nothing is reloaded: queries.topics: line 1")
    assert queries == {"topics": TOPICS}
    (place / "main.yaml").write_text("budget: [")
    assert again()[0].startswith(f"nothing is reloaded: {place}/main.yaml is no YAML")


def test_a_directory_is_watched(
    place: Path, reloaded: tuple[Callable[..., tuple[str, dict[str, str]]], AppContext]
) -> None:
    _, context = reloaded
    (place / "reach.rspql").write_text(REACH)
    (place / "queries.yaml").write_text("queries: {reach: reach.rspql}")
    assert eventually(lambda: list(context.service.queries.all) == ["reach"], within=15)


@pytest.mark.slow
def test_a_hangup_reads_the_config_again_and_a_state_has_one_service(place: Path) -> None:
    process, url = serving(place / "main.yaml")
    try:
        (place / "main.yaml").write_text(MAIN + "queries: {topics: topics.rspql}\n")
        process.send_signal(signal.SIGHUP)
        with Client(base_url=url, timeout=60) as client:
            assert eventually(lambda: client.get("/queries/topics").status_code == 200)
            assert client.push(posts(500)).status_code == 202
        again = subprocess.run(
            [sys.executable, "-m", "freshkeeper", "serve", str(place / "main.yaml")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert again.returncode != 0
        assert again.stderr.count("\n") == 1
        assert "state" in again.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_a_port_that_is_taken_is_said(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = read_config(place, {"listen": f"127.0.0.1:{taken.getsockname()[1]}"})
        with pytest.raises(ConfigError, match="cannot be had: Address already in use"):
            serve(config, lambda _: None)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of this machine, and its key."""
    place = tmp_path_factory.mktemp("tls")
    key, certificate = place / "key.pem", place / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return certificate, key


def test_it_speaks_tls(place: Path, pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    told: list[str] = []
    config = read_config(place, {"certificate": str(certificate), "key": str(key)})
    servers: list[Callable[[], None]] = []
    warm_up()  # it collects garbage: what SPARQL gave other tests can be let go by the thread that asked alone
    thread = threading.Thread(target=stoppable, args=(config, told, servers))
    thread.start()
    try:
        assert eventually(lambda: told)
        with httpx.Client(verify=ssl.create_default_context(cafile=str(certificate))) as client:
            assert client.get(f"{told[0].split()[2]}/healthz").json()["alive"] is True
    finally:
        servers[0]()
        thread.join(30)


def stoppable(config: ServeConfig, told: list[str], servers: list[Callable[[], None]]) -> None:
    import freshkeeper.maintenance.serve.server as module

    class Kept(module.Server):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            servers.append(lambda: self.handle_exit(0, None))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "Server", Kept)
        module.serve(config, told.append)


@pytest.mark.parametrize("mode", [0o644, None])
def test_keys_that_others_can_read_or_that_are_none_are_refused(
    place: Path, pair: tuple[Path, Path], tmp_path: Path, mode: int | None
) -> None:
    certificate, key = pair
    other = tmp_path / "key.pem"
    other.write_text(key.read_text() if mode else "nonsense")
    other.chmod(mode or 0o600)
    config = read_config(place, {"certificate": str(certificate), "key": str(other)})
    with pytest.raises(ConfigError, match="others can read the private key" if mode else "are no certificate"):
        serve(config, lambda _: None)


def test_a_query_has_a_longest_length(place: Path) -> None:
    config = read_config(place, {"longest_query": 10})
    with pytest.raises(ConfigError, match=f"has at most 10 characters, and this one has {len(TOPICS)}"):
        opened(config, Guard(None, None))
    opened(read_config(place, {}), Guard(None, None)).service.close()
