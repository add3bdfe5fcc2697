"""Runs that end within an answer, again and again, on pipes, sockets and files: none is lost, none is unreadable."""

import csv
import fcntl
import io
import json
import os
import random
import re
import resource
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import lives
import pytest
from forks import Forks

E = "http://example.org/"
QUERY = f"""PREFIX : <{E}> REGISTER RSTREAM :out AS SELECT ?topic ?n ?text
FROM NAMED WINDOW :w ON :posts [RANGE PT2S STEP PT1S]
WHERE {{ WINDOW :w {{ ?post :topic ?topic ; :text ?text }} SERVICE :blog {{ ?topic :by ?user . ?user :has ?n }} }}"""
pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("FRESHKEEPER_KILLS", "8"))
"""On each kind of output."""
LAST = 2 * KILLS + 20
ANSWERS = 8
LENGTH = 10_000
"""About so many bytes are the answers of an evaluation: more than a small pipe holds."""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    """A run with long answers, in which lines, quotes and letters of several bytes can be cut."""
    text = '\\"ü\\"\\n, ' * 100
    posts = [(t * 1000 - n, f"{E}p{t}-{n}", n) for t in range(1, LAST + 1) for n in reversed(range(ANSWERS // 2))]
    lines = [f'{at}\t<{p}> <{E}topic> <{E}t{n}> .\n{at}\t<{p}> <{E}text> "{at} {text}" .\n' for at, p, n in posts]
    (tmp_path / "posts.nq").write_text("".join(lines))
    (tmp_path / "blog.ttl").write_text(
        "".join(f"<{E}t{n}> <{E}by> <{E}u{n}> . <{E}u{n}> <{E}has> {n} .\n" for n in range(ANSWERS))
    )
    (tmp_path / "blog.yaml").write_text(f"data: blog.ttl\nvolatile: {E}has\n")
    given = {"text": QUERY, "streams": {f"{E}posts": str(tmp_path / "posts.nq")}, "budget": 9, "policy": "lru"}
    return given | {"sources": {f"{E}blog": str(tmp_path / "blog.yaml")}, "state": str(tmp_path / "state")}


class Lives:
    """Runs, one after the other, with one output."""

    def __init__(self, settings: dict[str, object], output: int) -> None:
        """Start what forks them."""
        self.asked = {"session": settings, "output": output}
        self.forks = Forks(lives, [output])

    def begin(self, room: int = resource.RLIM_INFINITY) -> int:
        """A new run; its output, if it is a file, has so much room."""
        return self.forks.ask(self.asked | {"room": room})

    def wait(self, pid: int) -> None:
        """Until it has ended."""
        self.forks.wait(pid)

    def close(self) -> None:
        """End the process that forks."""
        self.forks.close()


def pipe() -> tuple[int, int]:
    """As small as it may be."""
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    return reading, writing


def impatient_pipe() -> tuple[int, int]:
    """Whoever writes is not made to wait."""
    reading, writing = pipe()
    os.set_blocking(writing, False)
    return reading, writing


def connection() -> tuple[int, int]:
    """Two sockets."""
    one, other = socket.socketpair()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return one.detach(), other.detach()


def killed_while_writing(runs: Lives, reading: int, wanted: int) -> bytes:
    """What a reader gets that takes so many bytes, and then what is left of a run that was killed meanwhile."""
    pid, found = runs.begin(), b""
    while len(found) < wanted:
        found += os.read(reading, wanted - len(found))
    os.kill(pid, signal.SIGKILL)
    runs.wait(pid)
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        while True:
            found += os.read(reading, LENGTH)
    os.set_blocking(reading, True)
    return found


def read_to_the_end(runs: Lives, reading: int, writing: int) -> bytes:
    """All that the last run writes."""
    pid = runs.begin()
    os.close(writing)

    def finish() -> None:
        runs.wait(pid)
        runs.close()

    finishing = threading.Thread(target=finish)
    finishing.start()
    with os.fdopen(reading, "rb") as file:
        found = file.read()
    finishing.join()
    return found


@pytest.mark.parametrize("form", ["ndjson", "csv"])
@pytest.mark.parametrize("output", [pipe, impatient_pipe, connection])
def test_killed_again_and_again_while_somebody_reads_slowly(output: Any, form: str, settings: dict[str, Any]) -> None:
    rng = random.Random(f"{output.__name__} {form}")
    reading, writing = output()
    runs = Lives(settings | {"format": form}, writing)
    text = killed_while_writing(runs, reading, 2 * LENGTH)
    for _ in range(KILLS - 1):
        text += killed_while_writing(runs, reading, rng.randrange(LENGTH * 2))
    check(text + read_to_the_end(runs, reading, writing), form)


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_a_disk_that_gets_full_again_and_again(form: str, settings: dict[str, object], tmp_path: Path) -> None:
    rng, path, before = random.Random(form), tmp_path / "out", b"not of this run" + b" " * 10**7 + b"\n"
    path.write_bytes(before)  # the disk has room for the state
    with path.open("a") as out:
        runs = Lives(settings | {"format": form}, out.fileno())
        for n in range(KILLS):
            runs.wait(runs.begin(path.stat().st_size + (0 if n else 2 * LENGTH) + rng.randrange(LENGTH * 2)))
        runs.wait(runs.begin())
        runs.close()
    check(path.read_bytes().removeprefix(before), form)


def check(text: bytes, form: str) -> None:
    """Every evaluation is there whole; what cannot be read is what was cut off, and as little as can be came twice."""
    found = tables(text) if form == "csv" else lines(text)
    assert sorted(set(found)) == [1000 * k for k in range(1, LAST + 1)]
    assert found == sorted(found)
    assert len(found) - LAST <= KILLS


def lines(text: bytes) -> list[int]:
    """The instants of the lines that can be read; the others are no more than there were kills."""
    found, torn = [], 0
    for line in filter(None, text.split(b"\n")):
        try:
            read = json.loads(line)
        except ValueError:
            torn += 1
            continue
        assert len(read["answers"]) in (ANSWERS // 2, ANSWERS)
        found.append(read["t"])
    print(f"{len(found)} lines, {torn} cut off")
    assert torn <= KILLS
    return found


def tables(text: bytes) -> list[int]:
    """The instants whose rows are all there, once or again; the head is there once."""
    head, *rows = csv.reader(io.StringIO(text.decode(errors="replace"), newline=""))
    assert head == ["t", "topic", "n", "text", "fresh"]
    assert head not in rows
    whole = [row for row in rows if len(row) == len(head) and re.fullmatch(r"[01]\.[0-9]+", row[-1])]
    print(f"{len(whole)} rows, {len(rows) - len(whole)} cut off")
    assert len(rows) - len(whole) <= KILLS
    assert all(row[3].endswith('"ü"\n, ') for row in whole)
    answers = {(row[0], row[1], row[3]) for row in whole}
    assert len(answers) == ANSWERS * LAST - ANSWERS // 2
    return sorted({int(row[0]) for row in whole})
