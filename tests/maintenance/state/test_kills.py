"""Kill -9 fifty times in one run over a real server: nothing acknowledged is lost, nothing is paid for twice."""

import contextlib
import json
import os
import random
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lives
import pytest
from forks import Forks
from servers import Oxigraph, Proxy

from freshkeeper.maintenance.base.term_text import decode
from freshkeeper.maintenance.journal import journal

E = "http://example.org/"
QUERY = f"""PREFIX : <{E}> REGISTER RSTREAM :out AS SELECT ?topic ?user ?n
FROM NAMED WINDOW :w ON :posts [RANGE PT3S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic }} SERVICE :blog {{ ?topic :discussedBy ?user . ?user :followers ?n }} }}"""
TOPICS, USERS, BUDGET, KILLS = 8, 10, 3, 50
LONGEST_LIFE = 0.12


class ChangingServer:
    """A server whose values change before every evaluation, and the elements that make evaluations due."""

    def __init__(self) -> None:
        """Load the server, put a proxy before it."""
        self.rng = random.Random(1)
        edges = [(t, u) for t in range(TOPICS) for u in self.rng.sample(range(USERS), 3)]
        self.edges = " ".join(f"<{E}t{t}> <{E}discussedBy> <{E}u{u}> ." for t, u in edges)
        self.server = Oxigraph()
        self.proxy = Proxy(self.server.port)
        self.groups: list[str] = []

    def close(self) -> None:
        """End them."""
        self.proxy.stop()
        self.server.stop()

    def begin(self) -> None:
        """Everything as it was at first."""
        values = " ".join(f"<{E}u{u}> <{E}followers> 0 ." for u in range(USERS))
        self.server.update(f"CLEAR ALL ; INSERT DATA {{ {self.edges} {values} }}")

    def move(self, k: int) -> None:
        """What changes before evaluation k: always the same."""
        user = f"<{E}u{random.Random(k).randrange(USERS)}> <{E}followers>"
        self.server.update(f"DELETE {{ {user} ?n }} INSERT {{ {user} {k} }} WHERE {{ {user} ?n }}")

    def group(self, k: int) -> str:
        """The elements between evaluations k − 1 and k; the first of them makes evaluation k − 1 due."""
        rng = random.Random(1000 + k)
        times = sorted(rng.randrange(1, 1000) for _ in range(2))
        posts = [(k * 1000 - 1000 + t, f"{k}-{t}", rng.randrange(TOPICS)) for t in times]
        return "".join(f"{at}\t<{E}p{name}> <{E}topic> <{E}t{topic}> .\n" for at, name, topic in posts)


class Lives:
    """Runs, one after the other, each of which may be killed."""

    def __init__(self, settings: dict[str, object]) -> None:
        """Start what forks them."""
        self.settings = settings
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.forks = Forks(lives)

    @contextlib.contextmanager
    def life(self) -> Iterator[tuple[int, object]]:
        """A new run: its process and the connection to it; at the end it has to end."""
        pid = self.forks.ask({"port": self.listener.getsockname()[1], "session": self.settings})
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rwb") as talk:
            try:
                yield pid, talk
            finally:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                self.forks.wait(pid)

    def close(self) -> None:
        """End the process that forks."""
        self.forks.close()
        self.listener.close()


class Run:
    """One run over several lives: evaluation by evaluation, the server moves on when a line is out."""

    def __init__(self, world: ChangingServer, place: Path) -> None:
        """Nothing is out yet."""
        place.mkdir()
        (place / "blog.yaml").write_text(f"sparql: {world.proxy.url}\nvolatile: {E}followers\n")
        self.world, self.place = world, place
        self.lines: list[dict[str, Any]] = []
        self.requests = [world.proxy.count]
        self.k = 1
        settings = {"text": QUERY, "streams": {f"{E}posts": "-"}, "budget": BUDGET, "policy": "lru"}
        settings |= {"sources": {f"{E}blog": str(place / "blog.yaml")}}
        settings |= {"state": str(place / "state"), "journal": str(place / "journal")}
        self.lives = Lives(settings)
        world.begin()
        world.move(1)

    def live(self, kill_after: float | None = None, young: bool = False, until: int | None = None) -> None:
        """A life that hears all elements, as a replay does; killed so many seconds after its start or first line."""
        with contextlib.suppress(OSError, EOFError), self.lives.life() as (pid, talk):
            timer = None if kill_after is None else threading.Timer(kill_after, os.kill, (pid, signal.SIGKILL))
            if timer is not None and young:
                timer.start()
            self._say(talk, "".join(self.world.group(k) for k in range(1, self.k + 1)))
            while until is None or self.k <= until:
                self._say(talk, self.world.group(self.k + 1))
                self._hear(talk)
                if timer is not None and timer.ident is None:
                    timer.start()
                self.requests.append(self.world.proxy.count)
                self.k += 1
                self.world.move(self.k)

    def _say(self, talk: Any, text: str) -> None:
        talk.write(text.encode())
        talk.flush()

    def _hear(self, talk: Any) -> None:
        """Lines up to that of evaluation k; what is cut off by a kill was never said."""
        while True:
            line = talk.readline()
            if not line.endswith(b"\n"):
                raise EOFError
            if line == b"\n":  # a run before may have ended within an answer
                continue
            self.lines.append(json.loads(line))
            if self.lines[-1]["t"] == self.k * 1000:
                return


def held(state: Path) -> dict[str, int]:
    """When the copy of every SR in the view was read, by its name in the journal."""
    with contextlib.closing(sqlite3.connect(state / "state.sqlite")) as sql:
        found = sql.execute("SELECT key, refreshed FROM srs WHERE refreshed IS NOT NULL").fetchall()
    keys = decode(key for key, _ in found)
    return {str(key[0]): at for key, (_, at) in zip(keys, found, strict=True) if isinstance(key, tuple)}


def doubted(state: Path) -> int:
    """Whether the kill came while something may have been on its way."""
    with contextlib.closing(sqlite3.connect(state / "state.sqlite")) as sql:
        return int(sql.execute("SELECT count(*) FROM intents").fetchone()[0])


def acknowledged(run: Run) -> dict[str, int]:
    """The last refresh of every SR that the journal tells of, in its parts and in the state."""
    table = journal.read(run.place / "journal", "refreshes")
    rows = [] if table is None else list(zip(*(table[c].to_pylist() for c in ("sr", "t_ms", "error")), strict=True))
    with contextlib.closing(sqlite3.connect(run.place / "state" / "state.sqlite")) as sql:
        for (body,) in sql.execute("SELECT body FROM journal WHERE name = 'refreshes'"):
            columns = json.loads(body)
            rows += zip(columns["sr"], columns["t_ms"], columns["error"], strict=True)
    good = [(sr, t) for sr, t, error in rows if error is None and not sr.startswith("miss")]
    return {sr: max(t for other, t in good if other == sr) for sr, _ in good}


@pytest.fixture
def world() -> Iterator[ChangingServer]:
    """The server and its proxy."""
    made = ChangingServer()
    yield made
    made.close()


@pytest.mark.slow
def test_fifty_kills_lose_nothing_and_pay_nothing_twice(world: ChangingServer, tmp_path: Path) -> None:
    rng, run, doubts = random.Random(), Run(world, tmp_path / "killed"), 0
    for n in range(KILLS):
        run.live(rng.uniform(0.0, LONGEST_LIFE), young=n % 5 == 0)
        if (run.place / "state" / "state.sqlite").exists():
            with contextlib.suppress(sqlite3.OperationalError):  # killed before there were tables
                doubts += doubted(run.place / "state")
                copies = held(run.place / "state")
                assert [(sr, at) for sr, at in acknowledged(run).items() if copies.get(sr, 0) < at] == []
    end = run.k + 5
    run.live(until=end)
    run.lives.close()
    whole = Run(world, tmp_path / "whole")
    whole.live(until=end)
    whole.lives.close()
    spent = [after - before for before, after in zip(run.requests, run.requests[1:], strict=False)]
    print(
        f"{end} evaluations, {run.requests[-1] - run.requests[0]} requests, {len(run.lines)} lines, {doubts} in doubt"
    )
    assert max(spent) <= BUDGET
    times = [line["t"] for line in run.lines]
    assert sorted(set(times)) == [k * 1000 for k in range(1, end + 1)]
    assert len(times) - len(set(times)) <= KILLS
    assert same_where_fresh(run, whole) > end
    evaluations = journal.read(run.place / "journal", "evaluations")
    assert evaluations is not None
    assert evaluations["t_ms"].to_pylist() == [k * 1000 for k in range(1, end + 1)]
    assert run.requests is not None
    assert sum(evaluations["spent"].to_pylist()) >= run.requests[-1] - run.requests[0]


def same_where_fresh(run: Run, whole: Run) -> int:
    """How many answers both runs gave as certainly fresh; all of them have to be equal."""
    one, other = fresh(run), fresh(whole)
    both = one.keys() & other.keys()
    assert {key: one[key] for key in both} == {key: other[key] for key in both}
    return len(both)


def fresh(run: Run) -> dict[tuple[int, str, str], str]:
    """Values by evaluation, topic and user."""
    found = {}
    for line in run.lines:
        for answer in line["answers"]:
            if answer["fresh"] == 1.0:
                topic, user, n = (answer["bindings"][name]["value"] for name in ("topic", "user", "n"))
                found[line["t"], topic, user] = n
    return found
