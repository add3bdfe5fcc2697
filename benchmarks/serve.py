"""A service under load: elements pushed over one connection, 20 queries, 200 who listen, and look-ups by key.

    python benchmarks/serve.py              a few seconds of each
    python benchmarks/serve.py --long       a minute of 30,000 elements a second, and of look-ups alone and beside it

The service is one process, those who push, listen and look up are others. An element is answered when the evaluation of
its step has reached somebody who listens; what is told is how long that takes from the element's own time on.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STEP = 1_000
QUERIES, LISTENERS = 20, 200
TOPICS, USERS = 100, 1_000
E = "http://example.org/"
POSTS = f"{E}posts"
WINDOW = "FROM NAMED WINDOW :w ON :posts [RANGE PT{range}S STEP PT1S]"
HEAD = f"PREFIX : <{E}> REGISTER RSTREAM :q AS "
KINDS = (
    "SELECT ?topic (COUNT(?post) AS ?posts) {window} {{ WINDOW :w {{ ?post :topic ?topic }} }} GROUP BY ?topic",
    "SELECT ?post ?user {window} {{ WINDOW :w {{ ?post :topic :t{n} ; :by ?user }} }}",
    "SELECT ?post {window} {{ WINDOW :w {{ ?post :by :u{n} }} }}",
    "SELECT ?post ?followers {window} {{ WINDOW :w {{ ?post :topic :t{n} ; :by ?user }}"
    " SERVICE :users {{ ?user :followers ?followers }} }}",
)
"""Of every fourth query; each has another topic or user."""


HELD = [n * 7 % USERS for n in range(10 * TOPICS) if n % TOPICS in range(3, QUERIES, 4)]
"""The users of topics that a query with SERVICE asks for."""


def query(number: int) -> str:
    """One of the queries."""
    window = WINDOW.format(range=1 + number % 4)
    return HEAD + KINDS[number % len(KINDS)].format(window=window, n=number)


def config(place: Path) -> Path:
    """A service over a file of users."""
    users = "".join(f":u{n} :followers {n} . " for n in range(USERS))
    (place / "users.ttl").write_text(f"@prefix : <{E}> . {users}")
    source = {"data": "users.ttl", "volatile": f"{E}followers"}
    queries = {f"q{n}": query(n) for n in range(QUERIES)}
    told = {"streams": [POSTS], "sources": {f"{E}users": source}, "queries": queries, "budget": 20}
    (place / "serve.yaml").write_text(json.dumps(told))
    return place / "serve.yaml"


def elements(first: int, count: int, begin: int, end: int) -> bytes:
    """Posts that come evenly between two instants, two triples each."""
    lines = []
    for n in range(first, first + count // 2):
        at = begin + (n - first) * (end - begin) * 2 // count
        post = f"{at}\t<{E}p{n}> <{E}"
        lines.append(f"{post}topic> <{E}t{n % TOPICS}> .\n{post}by> <{E}u{n * 7 % USERS}> .\n")
    return "".join(lines).encode()


async def exchanged(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str, body: bytes = b""
) -> tuple[int, bytes]:
    """One request over a connection that stays open."""
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    writer.write(f"{head}\r\nHost: localhost\r\n{length}\r\n".encode() + body)
    told = await reader.readuntil(b"\r\n\r\n")
    size = int(found[1]) if (found := re.search(rb"content-length: (\d+)", told)) else 0
    return int(told[9:12]), await reader.readexactly(size) if size else b""


async def push(port: int, rate: int, seconds: float) -> dict[str, Any]:
    """So many elements a second, over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began, every, sent, refused, first = time.time(), 0.1, 0, 0, 0
    edge = began
    while (now := time.time()) < began + seconds:
        if now < edge + every:
            await asyncio.sleep(edge + every - now)
        body = elements(first, int(rate * every), int(edge * 1000), int((edge + every) * 1000))
        head = f"POST /streams/{POSTS} HTTP/1.1\r\nContent-Type: application/n-quads"
        while (status := (await exchanged(reader, writer, head, body))[0]) == 429:
            refused += 1
            await asyncio.sleep(0.1)
        assert status == 202, status
        first, sent, edge = first + int(rate * every) // 2, sent + int(rate * every), edge + every
    taken = time.time() - began
    return {
        "elements": sent, "per_s": sent / taken, "refused": refused, "behind_s": time.time() - edge,
        "first_ms": began * 1000, "last_ms": edge * 1000,
    }  # fmt: skip


async def listen(port: int, seconds: float) -> dict[str, Any]:
    """When evaluations reach those who listen, and of which instants they are, in milliseconds."""
    came: list[tuple[float, int]] = []
    until = time.time() + seconds

    async def one(number: int) -> None:
        name = f"q{number % QUERIES}"
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        head = f"GET /queries/{name}/answers HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        writer.write(head.encode())
        while (left := until - time.time()) > 0:
            try:
                line = await asyncio.wait_for(reader.readline(), left)
            except TimeoutError:
                return
            assert line, "let go"
            if line.startswith(b"id: "):
                came.append((time.time() * 1000, int(line[4:])))

    await asyncio.gather(*(one(n) for n in range(LISTENERS)))
    return {"came": came}


async def look(port: int, rate: int, seconds: float) -> dict[str, Any]:
    """So many look-ups a second over 16 connections, each at its time; how long they take, in milliseconds."""
    took: list[float] = []
    missing, ways = 0, 16
    began = time.perf_counter() + 0.2

    async def one(number: int) -> None:
        nonlocal missing
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for n in range(int(rate * seconds / ways)):
            due = began + (n * ways + number) / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            head = f"GET /views/{E}users/{E}u{HELD[(n * ways + number) * 31 % len(HELD)]} HTTP/1.1"
            status, _ = await exchanged(reader, writer, head)
            missing += status == 404
            took.append((time.perf_counter() - due) * 1000)

    await asyncio.gather(*(one(n) for n in range(ways)))
    spent = time.perf_counter() - began
    took.sort()
    return {
        "look_ups": len(took), "per_s": len(took) / spent, "missing": missing,
        "p50": took[len(took) // 2], "p99": took[int(len(took) * 0.99)],
    }  # fmt: skip


class Running:
    """The service, and those who speak to it, each in a process of its own."""

    def __init__(self, place: Path) -> None:
        command = [sys.executable, "-m", "freshkeeper", "serve", str(config(place)), "--listen", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if "serving at" in line)
        self.port = int(re.search(r":(\d+) ", line)[1])  # type: ignore[index]

    def beside(self, *what: object) -> "subprocess.Popen[str]":
        """Somebody who speaks to it."""
        command = [sys.executable, __file__, *map(str, what), "--port", str(self.port)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def resident(self) -> float:
        """MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def cpu(self) -> float:
        """Seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100


def told(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What it measured."""
    found: dict[str, Any] = json.loads(process.communicate()[0])
    return found


def under_load(running: Running, rate: int, seconds: float, look_ups: int) -> None:
    """Pushing, listening, and some look-ups beside it."""
    listening = running.beside("listen", "--seconds", seconds + 6)
    time.sleep(2)
    cpu = running.cpu()
    others = [running.beside("push", "--rate", rate, "--seconds", seconds)]
    if look_ups:
        others.append(running.beside("look", "--rate", look_ups, "--seconds", seconds))
    sizes = []
    while others[0].poll() is None:
        time.sleep(1)
        sizes.append(running.resident())
    pushed, heard = told(others[0]), told(listening)
    print(f"pushed {pushed['per_s']:,.0f} elements/s, {pushed['refused']} refused; CPU {running.cpu() - cpu:.0f} s")
    say_heard(heard["came"], pushed["first_ms"], pushed["last_ms"])
    third = sizes[len(sizes) // 3 :]
    print(f"memory: {third[0]:.0f} MB after a third, {third[-1]:.0f} MB at the end, most {max(sizes):.0f} MB")
    if look_ups:
        say(told(others[1]), "beside it")


def say_heard(came: Sequence[tuple[float, int]], first: float, last: float) -> None:
    """How long evaluations took to those who listen: all that pushed elements made due, from the first one on.

    An element may come a whole step before its evaluation, which is added to what the evaluation takes.
    """
    instants = range(int(first // STEP + 1) * STEP, int(last), STEP)
    delays = sorted(at - instant for at, instant in came if instant in instants)
    print(f"{len(delays):,} of {len(instants) * LISTENERS:,} evaluations heard by {LISTENERS} who listen")
    if delays:
        p50, p99, most = delays[len(delays) // 2], delays[int(len(delays) * 0.99)], delays[-1]
        print(f"evaluation to listener: p50 {p50:,.0f} ms, p99 {p99:,.0f} ms, most {most:,.0f} ms")
        print(f"element to answer: p99 {(p99 + 0.99 * STEP) / STEP:.2f} steps")


def say(found: dict[str, Any], when: str) -> None:
    """What look-ups took."""
    print(
        f"look-ups {when}: {found['per_s']:,.0f}/s, p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms, "
        f"{found['missing']} of {found['look_ups']:,} keys not held"
    )


def measure(rate: int, seconds: float, alone: int, beside: int) -> None:
    """All of it."""
    with tempfile.TemporaryDirectory() as place:
        running = Running(Path(place))
        try:
            under_load(running, rate, seconds, 0)
            if beside:
                under_load(running, rate, min(seconds, 30), beside)
            time.sleep(2)
            say(told(running.beside("look", "--rate", alone, "--seconds", min(seconds, 20))), "alone")
        finally:
            running.process.terminate()
            running.process.wait()


def main() -> None:
    """A role, or all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", nargs="?", choices=("push", "listen", "look"))
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--port", type=int)
    parser.add_argument("--rate", type=int, default=30_000)
    parser.add_argument("--seconds", type=float, default=8)
    given = parser.parse_args()
    if given.role == "push":
        print(json.dumps(asyncio.run(push(given.port, given.rate, given.seconds))))
    elif given.role == "listen":
        print(json.dumps(asyncio.run(listen(given.port, given.seconds))))
    elif given.role == "look":
        print(json.dumps(asyncio.run(look(given.port, given.rate, given.seconds))))
    else:
        measure(given.rate, 60 if given.long else given.seconds, 2_000, 500)


if __name__ == "__main__":
    main()
