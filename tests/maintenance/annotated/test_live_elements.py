"""Elements that come while they are served: from files that grow and from connections, promised or not."""

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad
from terms import text_of

from freshkeeper.maintenance.annotated.annotated_data import SHORT_NOTICE, AnnotatedData, read_element
from freshkeeper.maintenance.annotated.fragment_server import FragmentServer
from freshkeeper.maintenance.annotated.live_elements import LiveElements
from freshkeeper.maintenance.annotated.served_data import ServableData
from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.sources.fragments.annotation_style import TimedTriple
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern
from freshkeeper.maintenance.streams.live.feed import OnLoss

E = "http://e/"
STATIC = [Quad(NamedNode(f"{E}t"), NamedNode(f"{E}sign"), Literal("Ghent"))]
DELAY = QuadPattern(predicate=NamedNode(f"{E}delay"))


def line(since: int, until: int, value: str, predicate: str = "delay") -> str:
    return f'{since}\t{until}\t<{E}t> <{E}{predicate}> "{value}" .'


def held(since: int, until: int, value: str, predicate: str = "delay") -> TimedTriple:
    return read_element(line(since, until, value, predicate), "here")


def delays(data: ServableData, now: int) -> list[str]:
    quads, _ = data.slice(DELAY, 0, 10, now)
    return [text_of(quad.object) for quad in quads]


def test_an_element_is_served_from_when_it_holds_until_it_ends() -> None:
    data = AnnotatedData(STATIC, [])
    assert data.add(held(2_000, 3_000, "late"), 1_000) == ""
    assert [delays(data, now) for now in (1_999, 2_000, 2_999, 3_000)] == [[], ["late"], ["late"], []]


def test_what_began_already_is_served_at_once_and_what_is_over_is_not() -> None:
    data = AnnotatedData(STATIC, [])
    assert data.add(held(1_000, 3_000, "late"), 2_000) == ""
    assert delays(data, 2_000) == ["late"]
    assert "ended already" in data.add(held(1_000, 2_000, "old"), 2_000)
    assert "served as static" in data.add(held(3_000, 4_000, "Bruges", "sign"), 2_000)


def test_nothing_is_kept_of_elements_that_are_over() -> None:
    data = AnnotatedData(STATIC, [])
    for now in range(1_000, 30_000, 10):
        data.add(held(now, now + 10, "late"), now)
        assert delays(data, now) == ["late"]
    assert len(data._there) + len(data._coming) + len(data._ends) <= 3
    assert len(data._store) <= 5


def cache_control(data: AnnotatedData, now: int, predicate: str = "delay") -> str:
    server = FragmentServer(data, lambda: now, "/d")
    return server.answer("GET", f"/d?predicate={E}{predicate}", {"host": "h"}).headers["Cache-Control"]


def test_pages_may_be_kept_no_longer_than_live_elements_are_announced() -> None:
    for notice, said in (
        (0, "no-cache"),
        (5_000, "public, max-age=5"),
        (90_000, "public, max-age=60"),
        (None, "max-age=60"),
    ):
        data = AnnotatedData(STATIC, [held(1_000, 61_000, "late")], notice=notice)
        assert said in cache_control(data, 1_000)
        assert "86400" in cache_control(data, 1_000, "sign")
    promised = AnnotatedData(STATIC, [], notice=5_000)
    assert promised.add(held(5_999, 9_000, "soon"), 1_000) == SHORT_NOTICE
    assert promised.add(held(6_000, 9_000, "later"), 1_000) == ""


def test_of_a_history_what_holds_now_is_a_fragment_of_its_own() -> None:
    data = AnnotatedData(STATIC, [held(n * 1_000, (n + 1) * 1_000, str(n)) for n in range(1, 9)], history=True)
    assert len(delays(data, 8_500)) == 8
    assert data.holding is not None
    assert delays(data.holding, 8_500) == ["8"]
    server = FragmentServer(data, lambda: 8_500, "/d")
    target = f"/d?predicate={E}delay&instant=now"
    body = server.answer("GET", target, {"host": "h"}).body.decode()
    assert '"8"' in body
    assert '"7"' not in body
    assert b"use instant=now" in server.answer("GET", "/d?instant=2026", {"host": "h"}).body
    assert b"no" in FragmentServer(AnnotatedData(STATIC, []), lambda: 1, "/d").answer("GET", target, {"host": "h"}).body


def test_a_file_that_grows_is_followed_and_lines_that_are_none_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "delays.tsv"
    said: list[str] = []
    came: list[TimedTriple] = []
    file.write_text(line(1, 2, "a") + "\nnonsense\n" + line(3, 4, "b")[:20])

    def grows() -> bool:
        with file.open("a") as more:
            more.write(line(3, 4, "b")[20:] + "\n")
        return len(came) < 2

    def comes(held: Sequence[TimedTriple]) -> list[str]:
        came.extend(held)
        return [""] * len(held)

    live = LiveElements(f"follow:{file}", comes, said.append, wait=grows)
    live.run()
    assert [text_of(one.triple.object) for one in came[:2]] == ["a", "b"]
    assert "line 2: 'nonsense' is not <since ms>" in said[0]
    assert live.refused >= 1


def test_a_connection_is_read_and_made_again_when_it_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        came, enough = [], threading.Event()

        def take(held: list[TimedTriple]) -> list[str]:
            came.extend(held)
            if len(came) == 3:
                enough.set()
                raise InputError("this ends it")
            return [""] * len(held)

        live = LiveElements(f"tcp://127.0.0.1:{server.getsockname()[1]}", take, lambda _: None)
        threading.Thread(target=live.run, daemon=True).start()
        for lines in (["a", "b"], ["c"]):
            connection, _ = server.accept()
            with connection:
                connection.sendall("".join(line(1, 2, value) + "\n" for value in lines).encode())
        assert enough.wait(10)
    assert [text_of(one.triple.object) for one in came] == ["a", "b", "c"]


def test_a_connection_may_end_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        said: list[str] = []
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        live = LiveElements(address, lambda held: [""] * len(held), said.append, on_loss=OnLoss.END)
        reading = threading.Thread(target=live.run, daemon=True)
        reading.start()
        connection, _ = server.accept()
        with connection:
            connection.sendall((line(1, 2, "a") + "\n").encode())
        reading.join(10)
    assert live.served == 1
    assert "has ended" in said[-1]


@pytest.mark.parametrize("written", ["delays.tsv", "follow:none.tsv", "ftp://h"])
def test_what_is_no_live_stream_is_an_error(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        LiveElements(written, lambda held: [], print)
